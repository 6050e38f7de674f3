package view

import (
	"slices"

	resourcev1 "k8s.io/api/resource/v1"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger/txns"
	"github.com/berth-scheduler/berth/pkg/state"
)

// ClaimFact returns what a snapshot shows of a claim to devices.
func ClaimFact(s *state.Snapshot, namespace, name string) txns.DeviceClaimFact {
	o, claim := claimOf(s, namespace, name)
	if claim == nil {
		return txns.DeviceClaimFact{}
	}
	return txns.DeviceClaimFact{
		UID: o.UID, RV: o.ResourceVersion, Allocated: claim.Status.Allocation != nil,
		Protected: slices.Contains(claim.Finalizers, resourcev1.Finalizer),
	}
}

// Claim returns a claim to devices from a snapshot, for reading only; nil if there is none.
func Claim(s *state.Snapshot, namespace, name string) *resourcev1.ResourceClaim {
	_, claim := claimOf(s, namespace, name)
	return claim
}

func claimOf(s *state.Snapshot, namespace, name string) (*state.Object, *resourcev1.ResourceClaim) {
	o, ok := s.ObjectByName(events.KindResourceClaim, namespace, name)
	if !ok {
		return nil, nil
	}
	claim, _ := o.API.(*resourcev1.ResourceClaim)
	return o, claim
}
