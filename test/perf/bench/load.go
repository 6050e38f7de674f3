package bench

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// NodeCPU, NodeMemory (GiB) and PodsPerNode are the capacity of a node.
	NodeCPU, NodeMemory, PodsPerNode = 32, 256, 110
	// Zones is the number of zones that the nodes are spread over.
	Zones = 3
)

// NodeName returns the name of the i-th node.
func NodeName(i int) string { return fmt.Sprintf("node-%05d", i) }

// ZoneOf returns the zone of the i-th node.
func ZoneOf(i int) string { return fmt.Sprintf("zone-%d", i%Zones) }

// Nodes returns ready nodes, alike but for their zones.
func Nodes(n int) []*corev1.Node {
	nodes := make([]*corev1.Node, n)
	room := corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewQuantity(NodeCPU, resource.DecimalSI),
		corev1.ResourceMemory: *resource.NewQuantity(NodeMemory<<30, resource.BinarySI),
		corev1.ResourcePods:   *resource.NewQuantity(PodsPerNode, resource.DecimalSI),
	}
	for i := range nodes {
		name := NodeName(i)
		nodes[i] = &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
				corev1.LabelHostname: name, corev1.LabelTopologyZone: ZoneOf(i)}},
			Status: corev1.NodeStatus{Capacity: room, Allocatable: room,
				Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
		}
	}
	return nodes
}

// Pod returns a pod of one container with these requests; an empty memory requests none.
func Pod(namespace, name, cpu, memory string) *corev1.Pod {
	requests := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}
	if memory != "" {
		requests[corev1.ResourceMemory] = resource.MustParse(memory)
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "app", Image: "example.com/app:1", Resources: corev1.ResourceRequirements{Requests: requests},
		}}},
	}
}

// Pause waits for a while, or until ctx ends, which is an error.
func Pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
