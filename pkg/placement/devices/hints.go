package devices

import (
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/dynamic-resource-allocation/resourceclaim"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/placement/rule"
	"github.com/berth-scheduler/berth/pkg/state"
)

// Events implements Plugin. A pod that was rejected for lack of devices waits for claims (devices become free),
// slices (new devices), rules that no longer taint devices, nodes and classes; one whose claim does not exist, for the
// claim or its own status.
func (Plugin) Events() []rule.Event {
	return []rule.Event{
		{Kind: events.KindNode, Actions: rule.Add | rule.UpdateNodeLabel | rule.UpdateNodeAllocatable},
		{Kind: events.KindResourceClaim, Actions: rule.Add | rule.Update},
		{Kind: events.KindPod, Actions: rule.UpdatePodGeneratedClaim},
		{Kind: events.KindDeviceClass, Actions: rule.Add | rule.Update},
		{Kind: events.KindResourceSlice, Actions: rule.Add | rule.Update},
		// A new rule can only add taints. Upstream sees these changes as updates of slices.
		{Kind: events.KindDeviceTaintRule, Actions: rule.Update | rule.Delete},
	}
}

// Hint implements Plugin. Source: dynamicresources.go isSchedulableAfter... Two answers are more generous than
// upstream's, because the pod's status and the claim that it names arrive in either order, and the caller may pass
// the pod as it was before both.
func (Plugin) Hint(pod *state.Pod, c rule.Change) bool {
	switch c.Kind {
	case events.KindPod:
		return c.IsOf(pod)
	case events.KindResourceClaim:
		return claimHelps(pod, c)
	default:
		return true
	}
}

// claimHelps reports whether devices have become free, or the claim is the pod's own and has changed. A pod whose
// claims are not usable yet waits for the creation of one that it owns.
func claimHelps(pod *state.Pod, c rule.Change) bool {
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

// Interest implements rule.Classifier. A change of a claim matters to the pods that name it or wait for its creation,
// and to all when it frees devices. Without that distinction, ten thousand pods would be checked for each of ten
// thousand claims created at once.
func (Plugin) Interest(pod *state.Pod) rule.Interest {
	i := rule.Interest{Class: rule.WholePod(pod), Pods: rule.Everything, Nodes: rule.Everything}
	if pod.Template == nil || !rule.HasDeviceClaims(&pod.Template.Spec) {
		i.Claims = rule.Everything
		return i
	}
	i.Claims.Topics = []string{rule.TopicFreed, rule.TopicOwner + pod.UID}
	named := claimNamer(pod)
	for j := range pod.Template.Spec.ResourceClaims {
		name, _, err := resourceclaim.Name(named, &pod.Template.Spec.ResourceClaims[j])
		if err == nil && name != nil {
			i.Claims.Topics = append(i.Claims.Topics, rule.TopicClaim+pod.Namespace+"/"+*name)
		}
	}
	return i
}
