package commit

import (
	"context"
	"encoding/json"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/placement/devices"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/pkg/telemetry"
	"github.com/berth-scheduler/berth/services/binder/internal/decide"
)

// makeClaim creates the claim for the pod's resources, without devices. The answer is ClaimMade, also if the claim
// exists already. A claim that requests something else is from an earlier decision and has no devices; it is deleted
// first. Upstream creates it in PreBind (plugins/dynamicresources/extendeddynamicresources.go).
func (r *Room) makeClaim(ctx context.Context, e decide.Bind, pick ledger.DevicePick) decide.Answered {
	answer := r.createClaim(ctx, e, pick)
	answer.Op = e.Op
	log := r.deps.Logger.Debug
	if answer.Result != decide.ClaimMade {
		log = r.deps.Logger.Info
	}
	log("claim for resources", "pod", ref(e.Pod), "node", e.NodeName, "claim", pick.Claim,
		"result", answer.Result.String(), "error", answer.Problem)
	return answer
}

func (r *Room) createClaim(ctx context.Context, e decide.Bind, pick ledger.DevicePick) decide.Answered {
	var spec resourcev1.ResourceClaimSpec
	if err := spec.Unmarshal(pick.Spec); err != nil {
		return refusal("what claim %s asks for cannot be read: %v", pick.Claim, err)
	}
	cctx, cancel := context.WithTimeout(ctx, changeTimeout)
	defer cancel()
	claim, err := r.deps.API.writes.ResourceV1().ResourceClaims(e.Pod.Namespace).Create(
		cctx, devices.NewMadeClaim(e.Pod.Namespace, e.Pod.Name, e.Pod.UID, spec), metav1.CreateOptions{})
	telemetry.ClaimCreated(err == nil)
	switch {
	case err == nil:
		return made(pick, claim)
	case !apierrors.IsAlreadyExists(err):
		return failed(err)
	}
	return r.foundClaim(ctx, e, pick, &spec)
}

func (r *Room) foundClaim(
	ctx context.Context, e decide.Bind, pick ledger.DevicePick, spec *resourcev1.ResourceClaimSpec,
) decide.Answered {
	rctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	claim, err := r.deps.API.writes.ResourceV1().ResourceClaims(e.Pod.Namespace).Get(
		rctx, pick.Claim, metav1.GetOptions{})
	switch {
	case err != nil:
		return decide.Answered{Result: decide.Unknown, Problem: err.Error()}
	case !devices.IsMadeFor(claim, e.Pod.UID):
		return refusal("claim %s is not the pod's", pick.Claim)
	case claim.Status.Allocation != nil:
		return refusal("claim %s has devices of another reservation", pick.Claim)
	case claim.DeletionTimestamp != nil:
		return decide.Answered{Result: decide.Unknown, Problem: "claim " + pick.Claim + " is being deleted"}
	case equality.Semantic.DeepEqual(&claim.Spec, spec):
		return made(pick, claim)
	}
	if answer := r.deleteClaim(ctx, claim); answer.Result != decide.Done {
		return answer
	}
	return decide.Answered{
		Result: decide.Unknown, Problem: "claim " + pick.Claim + " asked for something else, and is made anew",
	}
}

func made(pick ledger.DevicePick, claim *resourcev1.ResourceClaim) decide.Answered {
	pick.ClaimUID, pick.ClaimRV = string(claim.UID), versionOf(claim)
	return decide.Answered{Result: decide.ClaimMade, Made: pick}
}

// deleteClaim deletes a claim at the version that was read. The answer is also Done if the claim is gone.
func (r *Room) deleteClaim(ctx context.Context, claim *resourcev1.ResourceClaim) decide.Answered {
	ctx, cancel := context.WithTimeout(ctx, changeTimeout)
	defer cancel()
	err := r.deps.API.writes.ResourceV1().ResourceClaims(claim.Namespace).Delete(ctx, claim.Name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &claim.UID, ResourceVersion: &claim.ResourceVersion},
	})
	switch {
	case err == nil, apierrors.IsNotFound(err):
		return decide.Answered{Result: decide.Done}
	case apierrors.IsConflict(err):
		return decide.Answered{Result: decide.Unknown, Problem: err.Error()}
	}
	return failed(err)
}

// tellOfClaim writes into the pod's status which container gets which devices of the claim that was created for the
// pod, if one was. The write has the bind's precondition, and it returns the pod's next version: any other change of
// the pod in between, such as a fence, makes either this write or the bind fail.
func (r *Room) tellOfClaim(ctx context.Context, e decide.Bind) (version uint64, answer decide.Answered) {
	version = e.ResourceVersion
	for _, pick := range e.Devices.Picks {
		if len(pick.PodStatus) == 0 {
			continue
		}
		var status corev1.PodExtendedResourceClaimStatus
		if err := status.Unmarshal(pick.PodStatus); err != nil {
			answer = refusal("what the pod is told of claim %s cannot be read: %v", pick.Claim, err)
		} else {
			version, answer = r.patchMappings(ctx, e, &status)
		}
		answer.Op = e.Op
		return version, answer
	}
	return version, decide.Answered{Op: e.Op, Result: decide.Done}
}

// dropped explains why a pod is not bound when an API server with the feature disabled drops the field without an
// error. A kubelet would reject the pod, or start it without devices (removeMissingExtendedResources in its
// predicate.go).
const dropped = "the API server does not keep extendedResourceClaimStatus, without which a kubelet gives the pod no " +
	"devices: it needs the feature DRAExtendedResource, which is on by default from Kubernetes 1.36 on"

func (r *Room) patchMappings(
	ctx context.Context, e decide.Bind, status *corev1.PodExtendedResourceClaimStatus,
) (version uint64, answer decide.Answered) {
	body, err := json.Marshal(map[string]any{
		"metadata": map[string]string{"uid": e.Pod.UID, "resourceVersion": strconv.FormatUint(e.ResourceVersion, 10)},
		"status":   map[string]any{"extendedResourceClaimStatus": status},
	})
	if err != nil {
		return 0, refusal("pod %s: %v", ref(e.Pod), err)
	}
	obj, answer := r.patchBefore(ctx, e, types.MergePatchType, body)
	switch {
	case answer.Result != decide.Done:
		return 0, answer
	case obj.Status.ExtendedResourceClaimStatus == nil:
		return 0, refusal("%s", dropped)
	}
	return state.NewPod(obj).ResourceVersion, answer
}

// patchBefore writes to the pod's status what the Binding requires there. The patch has the precondition of the
// Binding.
func (r *Room) patchBefore(
	ctx context.Context, e decide.Bind, kind types.PatchType, body []byte,
) (*corev1.Pod, decide.Answered) {
	pctx, cancel := context.WithTimeout(ctx, changeTimeout)
	defer cancel()
	obj, err := r.deps.API.writes.CoreV1().Pods(e.Pod.Namespace).Patch(
		pctx, e.Pod.Name, kind, body, metav1.PatchOptions{}, "status")
	switch {
	case err == nil:
		return obj, decide.Answered{Result: decide.Done}
	case noSuchPod(err, e.Pod.Name):
		return nil, decide.Answered{Result: decide.Gone}
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		return nil, r.lostBind(ctx, e, err)
	}
	return nil, failed(err)
}
