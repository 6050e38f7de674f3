package neighbours

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/test/e2e/harness"
)

// The labels of nodes in a hall of racks.
const (
	blockLabel = "example.com/block"
	rackLabel  = "example.com/rack"
	// racksWithin bounds the time until the nodes are ready.
	racksWithin = time.Minute
)

// hall is nodes in racks in blocks.
type hall struct {
	blocks, racks, hosts int
	// cpu is what every node has for pods.
	cpu int
}

// build creates the nodes and waits until they are ready.
func (h hall) build(ctx context.Context, s *Scene) error {
	for _, node := range h.nodes() {
		if _, err := s.Client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	return s.Eventually(ctx, racksWithin, "the nodes are ready", func(ctx context.Context) (string, error) {
		nodes, err := s.Client.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: rackLabel})
		if err != nil {
			return "", err
		}
		for i := range nodes.Items {
			if missing := harness.Unready(&nodes.Items[i]); missing != "" {
				return nodes.Items[i].Name + ": " + missing, nil
			}
		}
		return "", nil
	})
}

// nodes are all of them, host by host.
func (h hall) nodes() (list []*corev1.Node) {
	for block := range h.blocks {
		for rack := range h.racks {
			for host := range h.hosts {
				list = append(list, h.node(block, rack, host))
			}
		}
	}
	return list
}

func (h hall) node(block, rack, host int) *corev1.Node {
	name := fmt.Sprintf("host-%d-%d-%d", block, rack, host)
	room := corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewQuantity(int64(h.cpu), resource.DecimalSI),
		corev1.ResourceMemory: resource.MustParse("64Gi"),
		corev1.ResourcePods:   resource.MustParse("110"),
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
			corev1.LabelHostname: name, corev1.LabelOSStable: "linux", corev1.LabelArchStable: "amd64",
			hallLabel: mainQueue, blockLabel: fmt.Sprintf("block-%d", block), rackLabel: fmt.Sprintf("rack-%d-%d", block, rack),
		}},
		Status: corev1.NodeStatus{Capacity: room, Allocatable: room},
	}
}

// domains returns for each node the values of a label.
func domains(ctx context.Context, s *Scene, label string) (map[string]string, error) {
	nodes, err := s.Client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	of := map[string]string{}
	for i := range nodes.Items {
		of[nodes.Items[i].Name] = nodes.Items[i].Labels[label]
	}
	return of, nil
}
