package devices

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	"k8s.io/utils/ptr"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/placement/rule"
	"github.com/berth-scheduler/berth/pkg/state"
)

// deviceClaims returns the claims of a pod, in the order in which it names them, or why one of them is unusable
// now. A claim from a template has a generated name, which the pod's status shows once the claim controller has
// created it. Source: dynamicresources.go foreachPodResourceClaim.
func deviceClaims(pod *state.Pod, objects rule.Objects) (claims []*state.Object, why string) {
	if pod.Template == nil || !rule.HasDeviceClaims(&pod.Template.Spec) {
		return nil, ""
	}
	named := claimNamer(pod)
	for i := range pod.Template.Spec.ResourceClaims {
		name, owned, err := resourceclaim.Name(named, &pod.Template.Spec.ResourceClaims[i])
		switch {
		case err != nil:
			return nil, err.Error()
		case name == nil:
			continue // the pod has no such claim and needs none
		}
		o, ok := objects.ObjectByName(events.KindResourceClaim, pod.Namespace, *name)
		if !ok {
			return nil, fmt.Sprintf("could not find ResourceClaim %q", pod.Namespace+"/"+*name)
		}
		claim, ok := o.API.(*resourcev1.ResourceClaim)
		switch {
		case !ok:
			return nil, fmt.Sprintf("resourceclaim %q is not one", *name)
		case claim.DeletionTimestamp != nil:
			return nil, fmt.Sprintf("resourceclaim %q is being deleted", claim.Name)
		case owned:
			if err := resourceclaim.IsForPod(named, claim, false); err != nil {
				return nil, err.Error()
			}
		}
		claims = append(claims, o)
	}
	return claims, ""
}

// claimNamer returns the part of a pod that determines the names of its claims: upstream's helper takes a whole
// pod, and state.Pod keeps the template apart from what identifies the pod.
func claimNamer(pod *state.Pod) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: types.UID(pod.UID)},
		Status:     corev1.PodStatus{ResourceClaimStatuses: pod.Status().ResourceClaimStatuses},
	}
}

// positioned is implemented by an Objects that knows up to which position its facts are complete.
type positioned interface{ Position() state.Position }

// unserved returns an addition to the reason why a claim is unusable, if the API server does not serve claims at
// all: then the facts are complete for pods but not for claims, which the queue cannot list. Without it, a user
// would look for a claim that exists and that Berth cannot see.
func unserved(why string, objects rule.Objects) string {
	facts, ok := objects.(positioned)
	if why == "" || !ok {
		return ""
	}
	_, pods := facts.Position().Progress(events.KindPod)
	_, claims := facts.Position().Progress(events.KindResourceClaim)
	if !pods || claims {
		return ""
	}
	return " (the API server does not serve " + resourcev1.SchemeGroupVersion.String() + ")"
}

// usedClaims returns those claims of a pod that exist, whether or not they are usable.
func usedClaims(pod *state.Pod, objects rule.Objects) (claims []*resourcev1.ResourceClaim) {
	if pod.Template == nil || !rule.HasDeviceClaims(&pod.Template.Spec) {
		return nil
	}
	named := claimNamer(pod)
	for i := range pod.Template.Spec.ResourceClaims {
		name, _, err := resourceclaim.Name(named, &pod.Template.Spec.ResourceClaims[i])
		if err != nil || name == nil {
			continue
		}
		if claim, ok := rule.Find[*resourcev1.ResourceClaim](objects, events.KindResourceClaim, pod.Namespace, *name); ok {
			claims = append(claims, claim)
		}
	}
	return claims
}

// reservedFor reports whether a claim lists a pod among its users.
func reservedFor(claim *resourcev1.ResourceClaim, podUID string) bool {
	for i := range claim.Status.ReservedFor {
		if string(claim.Status.ReservedFor[i].UID) == podUID {
			return true
		}
	}
	return false
}

// lacksClass returns which class of a claim's requests does not exist; empty if all exist. Without its class, a
// request cannot be evaluated on any node.
func lacksClass(claim *resourcev1.ResourceClaim, objects rule.Objects) (why string, err error) {
	for i := range claim.Spec.Devices.Requests {
		r := &claim.Spec.Devices.Requests[i]
		if r.Exactly == nil && len(r.FirstAvailable) == 0 {
			return fmt.Sprintf("resource claim %s/%s, request %s: unknown request type",
				claim.Namespace, claim.Name, r.Name), nil
		}
		if why, err = requestLacksClass(r, objects); why != "" || err != nil {
			return why, err
		}
	}
	return "", nil
}

// requestLacksClass is lacksClass for one request, including its alternatives.
func requestLacksClass(r *resourcev1.DeviceRequest, objects rule.Objects) (why string, err error) {
	if r.Exactly != nil {
		return noDeviceClass(r.Exactly.DeviceClassName, r.Name, objects)
	}
	for i := range r.FirstAvailable {
		sub := &r.FirstAvailable[i]
		if why, err = noDeviceClass(sub.DeviceClassName, r.Name+"/"+sub.Name, objects); why != "" || err != nil {
			return why, err
		}
	}
	return "", nil
}

// noDeviceClass returns why a class cannot be used. request is the name of the request, for the message.
func noDeviceClass(class, request string, objects rule.Objects) (why string, err error) {
	if class == "" {
		return "", fmt.Errorf("request %s: unsupported request type", request)
	}
	if _, ok := objects.ObjectByName(events.KindDeviceClass, "", class); !ok {
		return fmt.Sprintf("request %s: device class %s does not exist", request, class), nil
	}
	return "", nil
}

// Ready reports whether the devices of a claim are ready, so that a pod that uses it can be bound (KEP-5007).
// problem is set if a device reports that it will never be ready: one of its failure conditions is true. A device
// without binding conditions is always ready. Source: dynamicresources.go isClaimReadyForBinding.
func Ready(claim *resourcev1.ResourceClaim) (ready bool, problem string) {
	if claim.Status.Allocation == nil {
		return false, ""
	}
	for i := range claim.Status.Allocation.Devices.Results {
		r := &claim.Status.Allocation.Devices.Results[i]
		if len(r.BindingConditions) == 0 {
			continue
		}
		conditions, known := conditionsOf(claim, r)
		if !known {
			return false, ""
		}
		for _, name := range r.BindingFailureConditions {
			if c := meta.FindStatusCondition(conditions, name); c != nil && c.Status == metav1.ConditionTrue {
				return false, fmt.Sprintf("device %s/%s/%s of claim %s: %s: %s",
					r.Driver, r.Pool, r.Device, claim.Name, c.Reason, c.Message)
			}
		}
		for _, name := range r.BindingConditions {
			if !meta.IsStatusConditionTrue(conditions, name) {
				return false, ""
			}
		}
	}
	return true, ""
}

// conditionsOf returns the conditions that the driver has reported for an allocated device; known is false before
// its first report.
func conditionsOf(
	claim *resourcev1.ResourceClaim, r *resourcev1.DeviceRequestAllocationResult,
) (conditions []metav1.Condition, known bool) {
	for i := range claim.Status.Devices {
		d := &claim.Status.Devices[i]
		if d.Driver == r.Driver && d.Pool == r.Pool && d.Device == r.Device &&
			ptr.Deref(d.ShareID, "") == string(ptr.Deref(r.ShareID, "")) {
			return d.Conditions, true
		}
	}
	return nil, false
}
