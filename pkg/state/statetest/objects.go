package statetest

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// List returns a resource list of name, quantity pairs: List("cpu", "100m", "memory", "1Gi"). It panics on a
// quantity that cannot be parsed.
func List(pairs ...string) corev1.ResourceList {
	list := corev1.ResourceList{}
	for i := 0; i+1 < len(pairs); i += 2 {
		list[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return list
}

// Pod returns a pending pod "namespace/name" with one container and these requests. Its UID is "uid-" and the name.
func Pod(namespace, name string, requests ...string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID("uid-" + name)},
		Spec: corev1.PodSpec{
			SchedulerName: corev1.DefaultSchedulerName,
			Containers: []corev1.Container{{
				Name: "main", Image: "example.com/main:1",
				Resources: corev1.ResourceRequirements{Requests: List(requests...)},
			}},
		},
	}
}

// Node returns a node with these allocatable resources. Its UID is "uid-" and the name.
func Node(name string, allocatable ...string) *corev1.Node {
	list := List(allocatable...)
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, UID: types.UID("uid-" + name),
			Labels: map[string]string{corev1.LabelHostname: name},
		},
		Status: corev1.NodeStatus{Allocatable: list, Capacity: list.DeepCopy()},
	}
}
