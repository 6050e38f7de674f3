package main

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/kube-scheduler/framework"
)

// courier is a plugin that itself binds pods with the label "courier", and marks them. It skips other pods.
type courier struct{ handle framework.Handle }

const (
	courierName  = "Courier"
	courierLabel = "courier"
	// broughtBy is the annotation of pods that it has bound.
	broughtBy = "example.com/brought-by"
)

var _ framework.BindPlugin = &courier{}

// newCourier is the plugin's factory, as a configuration calls it; it has no arguments.
func newCourier(_ context.Context, _ runtime.Object, h framework.Handle) (framework.Plugin, error) {
	return &courier{h}, nil
}

func (c *courier) Name() string { return courierName }

// Bind binds the pod to the node that was chosen, or skips it, so that the binder binds it. The UID makes sure that a
// pod which was deleted and created again under its name is not bound in its place.
func (c *courier) Bind(
	ctx context.Context, _ framework.CycleState, pod *corev1.Pod, node string,
) *framework.Status {
	if _, wanted := pod.Labels[courierLabel]; !wanted {
		return framework.NewStatus(framework.Skip)
	}
	err := c.handle.ClientSet().CoreV1().Pods(pod.Namespace).Bind(ctx, &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, Annotations: map[string]string{broughtBy: courierName},
		},
		Target: corev1.ObjectReference{Kind: "Node", Name: node},
	}, metav1.CreateOptions{})
	return framework.AsStatus(err)
}
