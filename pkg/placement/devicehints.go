package placement

import (
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"

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

// Hint implements Plugin. Source: dynamicresources.go isSchedulableAfter...
func (dynamicResources) Hint(pod *state.Pod, c Change) bool {
	switch c.Kind {
	case events.KindPod:
		return c.isOf(pod) && (c.Objects == nil || resolvable(c.NewPod, c.Objects))
	case events.KindResourceClaim:
		return claimHelps(pod, c)
	default:
		return true
	}
}

func resolvable(pod *state.Pod, objects Objects) bool {
	_, why := deviceClaims(pod, objects)
	return why == ""
}

// claimHelps: devices have become free, or the claim is the pod's own and something has happened
// to it.
func claimHelps(pod *state.Pod, c Change) bool {
	if c.Objects == nil {
		return true
	}
	claims, why := deviceClaims(pod, c.Objects)
	if why != "" {
		return false
	}
	now, ok := c.NewObject.API.(*resourcev1.ResourceClaim)
	if !ok {
		return true
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
