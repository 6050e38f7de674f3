package commit

import (
	"context"
	"encoding/json"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/services/binder/decide/effect"
)

// writeMappings writes into the pod's status which container gets which devices of the claim that was created for the
// pod, if one was. The write has the bind's precondition, and it returns the pod's next version: any other change of
// the pod in between, such as a fence, makes either this write or the bind fail.
// The claim is one for extended resources that a DeviceClass provides (KEP-5004). Kubelets read the mapping.
func (b *bindings) writeMappings(ctx context.Context, e effect.Bind) (version uint64, answer effect.Answered) {
	version = e.ResourceVersion
	for _, pick := range e.Devices.Picks {
		if len(pick.PodStatus) == 0 {
			continue
		}
		var status corev1.PodExtendedResourceClaimStatus
		if err := status.Unmarshal(pick.PodStatus); err != nil {
			answer = refusal("pod status for claim %s cannot be encoded: %v", pick.Claim, err)
		} else {
			version, answer = b.patchMappings(ctx, e, &status)
		}
		answer.Op = e.Op
		return version, answer
	}
	return version, effect.Answered{Op: e.Op, Result: effect.Done}
}

// dropped explains why a pod is not bound when an API server with the feature disabled drops the field without an
// error. A kubelet would reject the pod, or start it without devices (removeMissingExtendedResources in its
// predicate.go).
const dropped = "the API server drops extendedResourceClaimStatus, without which a kubelet gives the pod no " +
	"devices: enable the feature gate DRAExtendedResource (default since Kubernetes 1.36)"

// patchMappings writes the status of the claim, and checks in the answer that the API server has kept it.
func (b *bindings) patchMappings(
	ctx context.Context, e effect.Bind, status *corev1.PodExtendedResourceClaimStatus,
) (version uint64, answer effect.Answered) {
	body, err := json.Marshal(map[string]any{
		"metadata": map[string]string{"uid": e.Pod.UID, "resourceVersion": strconv.FormatUint(e.ResourceVersion, 10)},
		"status":   map[string]any{"extendedResourceClaimStatus": status},
	})
	if err != nil {
		return 0, refusal("pod %s: %v", ref(e.Pod), err)
	}
	obj, answer := b.patchBefore(ctx, e, types.MergePatchType, body)
	switch {
	case answer.Result != effect.Done:
		return 0, answer
	case obj.Status.ExtendedResourceClaimStatus == nil:
		return 0, refusal("%s", dropped)
	}
	return state.NewPod(obj).ResourceVersion, answer
}

// patchBefore writes to the pod's status what the Binding requires there. The patch has the precondition of the
// Binding.
func (b *bindings) patchBefore(
	ctx context.Context, e effect.Bind, kind types.PatchType, body []byte,
) (*corev1.Pod, effect.Answered) {
	pctx, cancel := context.WithTimeout(ctx, changeTimeout)
	defer cancel()
	obj, err := b.client.CoreV1().Pods(e.Pod.Namespace).Patch(
		pctx, e.Pod.Name, kind, body, metav1.PatchOptions{}, "status")
	switch {
	case err == nil:
		return obj, effect.Answered{Result: effect.Done}
	case noSuchPod(err, e.Pod.Name):
		return nil, effect.Answered{Result: effect.Gone}
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		return nil, b.lostBind(ctx, e, err)
	}
	return nil, failed(err)
}
