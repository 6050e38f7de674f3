package bind

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/txns"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/services/binder/decide/basis"
	"github.com/berth-scheduler/berth/services/binder/decide/effect"
)

// trackedEntry is the entry as the ledger shows it, and the hint from the log.
type trackedEntry struct {
	key               basis.Attempt
	nodeUID, nodeName string
	entry             ledger.Entry
	// since is when the entry was first seen in its present state, moved forward by the time it has waited for turns
	// to bind.
	since time.Time
	hint  events.Decision
}

func (r *trackedEntry) ref() events.PodRef {
	return events.PodRef{UID: r.entry.PodUID, Namespace: r.entry.Namespace, Name: r.entry.Name}
}

// decision returns a decision about the attempt that made the entry. The attempt's number and trace are known from the
// hint only, and missing without one.
func (r *trackedEntry) decision(kind events.DecisionKind) events.Decision {
	return events.Decision{
		Kind: kind, Pod: r.ref(), SchedulerName: r.entry.SchedulerName,
		Attempt: r.hint.Attempt, Token: r.key.Token.String(),
		NodeUID: r.nodeUID, NodeName: r.nodeName, TraceParent: r.hint.TraceParent,
	}
}

// older reports whether p is the pod as it was before the decision: an objection based on it (its gates, its
// tolerations, its requests) proves nothing.
func (r *trackedEntry) older(p *state.Pod) bool { return p.ResourceVersion < r.entry.PodRV }

// devices returns what must be written to device claims before the Binding; nil for nothing.
func (r *trackedEntry) devices(b *basis.Base, first bool) *effect.DeviceWork {
	if len(r.entry.Devices) == 0 {
		return nil
	}
	w := &effect.DeviceWork{Picks: r.entry.Devices, Known: r.knownClaims(b, first)}
	hashed := func(p ledger.DevicePick) bool { return len(p.ConfigHashes) > 0 }
	if b.Facts.Classes != nil && slices.ContainsFunc(w.Picks, hashed) {
		w.Classes = b.Facts.Classes()
	}
	if n, ok := b.Facts.Cluster.Node(r.nodeUID); ok {
		w.NodeLabels = n.Object.Labels
	}
	return w
}

// knownClaims returns the claims that the facts show at the version that the decision used, for the first try. A
// retry has to read their current state.
func (r *trackedEntry) knownClaims(b *basis.Base, first bool) map[string]*resourcev1.ResourceClaim {
	if !first || b.Facts.Claim == nil {
		return nil
	}
	known := map[string]*resourcev1.ResourceClaim{}
	for _, p := range r.entry.Devices {
		claim := b.Facts.Claim(r.entry.Namespace, p.Claim)
		if claim != nil && string(claim.UID) == p.ClaimUID && claim.ResourceVersion == strconv.FormatUint(p.ClaimRV, 10) {
			known[p.Claim] = claim
		}
	}
	return known
}

// claimsUnsettled reports whether, by the facts, a write to one of the claims may still be in flight. The entry cannot
// leave before that is excluded.
func (r *trackedEntry) claimsUnsettled(b *basis.Base) bool {
	if len(r.entry.Devices) == 0 {
		return false
	}
	_, settled := txns.SettledClaims(r.entry, b)
	return !settled
}

// volumes returns what must be done before the Binding; nil for nothing.
func (r *trackedEntry) volumes(b *basis.Base, written bool) *effect.VolumeWork {
	if len(r.entry.Volumes) == 0 {
		return nil
	}
	w := &effect.VolumeWork{Picks: r.entry.Volumes, Written: written}
	if n, ok := b.Facts.Cluster.Node(r.nodeUID); ok {
		w.NodeLabels = n.Object.Labels
	}
	return w
}

// bindDeadline returns the deadline of a bind, which is longer for a pod whose volumes have to be created or whose
// devices are not ready.
func (r *trackedEntry) bindDeadline(b *basis.Base, requested bool) time.Duration {
	deadline := b.Limits.BindDeadline
	if slices.ContainsFunc(r.entry.Volumes, func(p ledger.VolumePick) bool { return !p.HasVolume }) {
		deadline += b.Limits.Volumes.For(r.entry.SchedulerName)
	}
	if len(r.entry.Devices) > 0 && requested {
		deadline += b.Limits.Devices.For(r.entry.SchedulerName)
	}
	return deadline
}

// announceBound publishes the bind to the log and then, if users is set, emits an event. rv is the resourceVersion that
// the Binding named.
func (r *trackedEntry) announceBound(b *basis.Base, rv uint64, users bool) {
	d := r.decision(events.DecisionBound)
	d.PodResourceVersion = rv
	b.Publish(d)
	if !users {
		return
	}
	b.Emit(effect.Report{
		Pod: r.ref(), SchedulerName: r.entry.SchedulerName, Type: "Normal", Reason: "Scheduled", Action: "Binding",
		Note: fmt.Sprintf("Successfully assigned %s/%s to %s", r.entry.Namespace, r.entry.Name, r.nodeName), Once: true,
		Workload: r.workload(b),
	})
}

// workload returns the pod's controller as the facts show it, or nil.
func (r *trackedEntry) workload(b *basis.Base) *metav1.OwnerReference {
	p, known, _ := b.Pod(r.entry.PodUID, 0)
	if !known || p.Template == nil {
		return nil
	}
	return metav1.GetControllerOfNoCopy(p.Template)
}
