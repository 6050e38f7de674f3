package placementtest

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/state"
)

// controllerKinds are the kinds whose selectors spread pods by default.
var controllerKinds = []events.Kind{
	events.KindReplicaSet, events.KindStatefulSet, events.KindReplicationController,
}

// controllerRefs holds the references by which a pod names its controller.
var controllerRefs = map[events.Kind]metav1.OwnerReference{
	events.KindReplicaSet:            {APIVersion: "apps/v1", Kind: "ReplicaSet"},
	events.KindStatefulSet:           {APIVersion: "apps/v1", Kind: "StatefulSet"},
	events.KindReplicationController: {APIVersion: "v1", Kind: "ReplicationController"},
}

func (g *Generator) namespace(name string) *corev1.Namespace {
	n := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: name, UID: types.UID("uid-" + g.next(name)), Labels: map[string]string{},
	}}
	g.label(n.Labels, "env", "prod", "dev")
	g.label(n.Labels, "owner", "x", "y")
	return n
}

func (g *Generator) service() *corev1.Service {
	s := &corev1.Service{ObjectMeta: g.meta(Pick(g, namespaces...), "service")}
	if g.Chance(80) {
		s.Spec.Selector = g.podLabels()
	}
	return s
}

func (g *Generator) controller(k events.Kind) state.APIObject {
	meta := g.meta(Pick(g, namespaces...), "controller")
	switch k {
	case events.KindReplicaSet:
		return &appsv1.ReplicaSet{ObjectMeta: meta, Spec: appsv1.ReplicaSetSpec{Selector: g.selector()}}
	case events.KindStatefulSet:
		return &appsv1.StatefulSet{ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{Selector: g.selector()}}
	default:
		return &corev1.ReplicationController{
			ObjectMeta: meta, Spec: corev1.ReplicationControllerSpec{Selector: g.podLabels()},
		}
	}
}
