package placement

import (
	"maps"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/state"
)

// defaultSelector finds the pods that belong together with a pod, for constraints that do
// not say: those that its services and its controller select, all at once. Empty when
// nothing selects it. Source: plugins/helper/spread.go DefaultSelector.
func defaultSelector(pod *state.Pod, objects Objects) labels.Selector {
	set := labels.Set{}
	for o := range objects.ObjectsIn(events.KindService, pod.Namespace) {
		s, ok := service(o)
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

// ownerKind is how an owner reference names a kind.
type ownerKind struct{ apiVersion, kind string }

// controllerKinds are the controllers whose selectors count.
var controllerKinds = map[ownerKind]events.Kind{
	{"v1", "ReplicationController"}: events.KindReplicationContrl,
	{"apps/v1", "ReplicaSet"}:       events.KindReplicaSet,
	{"apps/v1", "StatefulSet"}:      events.KindStatefulSet,
}

// narrowed adds what a controller selects by. A selector that cannot be parsed, or that
// selects nothing, adds nothing.
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
