package commit

import (
	"context"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/placement/devices"
	"github.com/berth-scheduler/berth/pkg/telemetry"
	"github.com/berth-scheduler/berth/services/binder/decide/effect"
)

// makeClaim creates the claim for the pod's resources, without devices. The answer is ClaimMade, also if the claim
// exists already. A claim that requests something else is from an earlier decision and has no devices; it is deleted
// first. Upstream creates it in PreBind (plugins/dynamicresources/extendeddynamicresources.go).
func (c *claims) makeClaim(ctx context.Context, e effect.Bind, pick ledger.DevicePick) effect.Answered {
	answer := c.createClaim(ctx, e, pick)
	answer.Op = e.Op
	log := c.logger.Debug
	if answer.Result != effect.ClaimMade {
		log = c.logger.Info
	}
	log("creating ResourceClaim for extended resources", "pod", ref(e.Pod), "node", e.NodeName, "claim", pick.Claim,
		"result", answer.Result.String(), telemetry.KeyError, answer.Problem)
	return answer
}

// createClaim creates the claim, or examines the one that has its name.
func (c *claims) createClaim(ctx context.Context, e effect.Bind, pick ledger.DevicePick) effect.Answered {
	var spec resourcev1.ResourceClaimSpec
	if err := spec.Unmarshal(pick.Spec); err != nil {
		return refusal("requests of claim %s cannot be decoded: %v", pick.Claim, err)
	}
	cctx, cancel := context.WithTimeout(ctx, changeTimeout)
	defer cancel()
	claim, err := c.client.ResourceV1().ResourceClaims(e.Pod.Namespace).Create(
		cctx, devices.NewMadeClaim(e.Pod.Namespace, e.Pod.Name, e.Pod.UID, spec), metav1.CreateOptions{})
	telemetry.ClaimCreated(err == nil)
	switch {
	case err == nil:
		return claimMade(pick, claim)
	case !apierrors.IsAlreadyExists(err):
		return failed(err)
	}
	return c.foundClaim(ctx, e, pick, &spec)
}

// foundClaim answers for a claim that exists. It is ClaimMade if the claim is the pod's, has no devices and requests
// the same; an earlier try, or another binder, has created it then. A claim of the pod that requests something else is
// deleted, and the answer Unknown leads to another try, which creates it.
func (c *claims) foundClaim(
	ctx context.Context, e effect.Bind, pick ledger.DevicePick, spec *resourcev1.ResourceClaimSpec,
) effect.Answered {
	rctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	claim, err := c.client.ResourceV1().ResourceClaims(e.Pod.Namespace).Get(
		rctx, pick.Claim, metav1.GetOptions{})
	switch {
	case err != nil:
		return effect.Answered{Result: effect.Unknown, Problem: err.Error()}
	case !devices.IsMadeFor(claim, e.Pod.UID):
		return refusal("claim %s does not belong to the pod", pick.Claim)
	case claim.Status.Allocation != nil:
		return refusal("claim %s has devices of another reservation", pick.Claim)
	case claim.DeletionTimestamp != nil:
		return effect.Answered{Result: effect.Unknown, Problem: "claim " + pick.Claim + " is being deleted"}
	case equality.Semantic.DeepEqual(&claim.Spec, spec):
		return claimMade(pick, claim)
	}
	if answer := c.deleteClaim(ctx, claim); answer.Result != effect.Done {
		return answer
	}
	return effect.Answered{
		Result: effect.Unknown, Problem: "claim " + pick.Claim + " has different requests and is recreated",
	}
}

// claimMade returns the answer with the claim's identity, which T14 writes into the ledger.
func claimMade(pick ledger.DevicePick, claim *resourcev1.ResourceClaim) effect.Answered {
	pick.ClaimUID, pick.ClaimRV = string(claim.UID), versionOf(claim)
	return effect.Answered{Result: effect.ClaimMade, Made: pick}
}

// deleteClaim deletes a claim at the version that was read. The answer is also Done if the claim is gone.
func (c *claims) deleteClaim(ctx context.Context, claim *resourcev1.ResourceClaim) effect.Answered {
	ctx, cancel := context.WithTimeout(ctx, changeTimeout)
	defer cancel()
	err := c.client.ResourceV1().ResourceClaims(claim.Namespace).Delete(ctx, claim.Name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &claim.UID, ResourceVersion: &claim.ResourceVersion},
	})
	switch {
	case err == nil, apierrors.IsNotFound(err):
		return effect.Answered{Result: effect.Done}
	case apierrors.IsConflict(err):
		return effect.Answered{Result: effect.Unknown, Problem: err.Error()}
	}
	return failed(err)
}
