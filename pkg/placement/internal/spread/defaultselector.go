package spread

import (
	"maps"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/placement/rule"
	"github.com/berth-scheduler/berth/pkg/state"
)

// DefaultSelector selects the pods that belong together with a pod, for constraints without a selector: those that
// its services and its controller select, all combined. It is empty when nothing selects the pod. Source:
// plugins/helper/spread.go DefaultSelector.
func DefaultSelector(pod *state.Pod, objects rule.Objects) labels.Selector {
	set := labels.Set{}
	for o := range objects.ObjectsIn(events.KindService, pod.Namespace) {
		s, ok := rule.Service(o)
		if ok && labels.Set(s.Spec.Selector).AsSelectorPreValidated().Matches(labels.Set(pod.Template.Labels)) {
			maps.Copy(set, s.Spec.Selector)
		}
	}
	owner := metav1.GetControllerOfNoCopy(pod.Template)
	if owner == nil {
		return set.AsSelector()
	}
	kind, ok := controllerKinds[ownerKind{owner.APIVersion, owner.Kind}]
	if !ok {
		return set.AsSelector()
	}
	controller, ok := objects.ObjectByName(kind, pod.Namespace, owner.Name)
	if !ok {
		return set.AsSelector()
	}
	// A Deployment does not select pods itself: its ReplicaSet is the controller.
	switch c := controller.API.(type) {
	case *corev1.ReplicationController:
		maps.Copy(set, c.Spec.Selector)
	case *appsv1.ReplicaSet:
		return narrowed(set, c.Spec.Selector)
	case *appsv1.StatefulSet:
		return narrowed(set, c.Spec.Selector)
	}
	return set.AsSelector()
}

// ownerKind is a kind as an owner reference names it.
type ownerKind struct{ apiVersion, kind string }

// controllerKinds are the controllers whose selectors count.
var controllerKinds = map[ownerKind]events.Kind{
	{"v1", "ReplicationController"}: events.KindReplicationController,
	{"apps/v1", "ReplicaSet"}:       events.KindReplicaSet,
	{"apps/v1", "StatefulSet"}:      events.KindStatefulSet,
}

// narrowed adds the selector of a controller to the selectors of services. A selector that cannot be parsed, or
// that selects nothing, adds nothing.
func narrowed(set labels.Set, by *metav1.LabelSelector) labels.Selector {
	selector := set.AsSelector()
	parsed, err := metav1.LabelSelectorAsSelector(by)
	if err != nil {
		return selector
	}
	requirements, selects := parsed.Requirements()
	if !selects {
		return selector
	}
	return selector.Add(requirements...)
}
