package placement

import (
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/dynamic-resource-allocation/resourceclaim"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/state"
)

// Events implements Plugin.
func (dynamicResources) Events() []Event {
	return []Event{
		{events.KindNode, Add | UpdateNodeLabel | UpdateNodeAllocatable},
		{events.KindResourceClaim, Add | Update}, {events.KindPod, UpdatePodGeneratedClaim},
		{events.KindDeviceClass, Add | Update}, {events.KindResourceSlice, Add | Update},
	}
}

// Hint implements Plugin. Source: dynamicresources.go isSchedulableAfter... Two answers are more generous than
// upstream's, because the pod's status and the claim that it names arrive in either order, and the caller may pass
// the pod as it was before both.
func (dynamicResources) Hint(pod *state.Pod, c Change) bool {
	switch c.Kind {
	case events.KindPod:
		return c.isOf(pod)
	case events.KindResourceClaim:
		return claimHelps(pod, c)
	default:
		return true
	}
}

// claimHelps reports whether devices have become free, or the claim is the pod's own and has changed.
func claimHelps(pod *state.Pod, c Change) bool {
	if c.Objects == nil {
		return true
	}
	now, ok := c.NewObject.API.(*resourcev1.ResourceClaim)
	if !ok {
		return true
	}
	claims, why := deviceClaims(pod, c.Objects)
	if why != "" {
		owner := metav1.GetControllerOfNoCopy(now)
		return c.OldObject == nil && owner != nil && string(owner.UID) == pod.UID
	}
	var old *resourcev1.ResourceClaim
	if c.OldObject != nil {
		old, _ = c.OldObject.API.(*resourcev1.ResourceClaim)
	}
	if old != nil && old.Status.Allocation != nil && now.Status.Allocation == nil {
		return true
	}
	for _, o := range claims {
		if o.UID == c.NewObject.UID {
			return old == nil || !equality.Semantic.DeepEqual(&old.Status, &now.Status)
		}
	}
	return false
}

// interest implements classifier. A change of a claim matters to the pods that name it or wait for its creation,
// and to all when it frees devices. Without that distinction, ten thousand pods would be checked for each of ten
// thousand claims created at once.
func (dynamicResources) interest(pod *state.Pod) Interest {
	i := Interest{Class: wholePod(pod), Pods: everything, Nodes: everything}
	if pod.Template == nil || !hasDeviceClaims(&pod.Template.Spec) {
		i.Claims = everything
		return i
	}
	i.Claims.Topics = []string{topicFreed, topicOwner + pod.UID}
	named := claimNamer(pod)
	for j := range pod.Template.Spec.ResourceClaims {
		name, _, err := resourceclaim.Name(named, &pod.Template.Spec.ResourceClaims[j])
		if err == nil && name != nil {
			i.Claims.Topics = append(i.Claims.Topics, topicClaim+pod.Namespace+"/"+*name)
		}
	}
	return i
}
