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

const (
	// poolLabel is on every node: "fixed" on those that are there from the beginning, "elastic" on those that an
	// autoscaler adds.
	poolLabel = "example.com/pool"
	fixed     = "fixed"
	elastic   = "elastic"
	// nodeCPU is what every node has for pods, in CPUs.
	nodeCPU = 8
	// mostNodes bounds the elastic pool.
	mostNodes = 100
	// unneeded is how long a node has to be superfluous before it is removed, in both autoscalers.
	unneeded = 20 * time.Second
	// worksWithin bounds the time until an autoscaler works.
	worksWithin = time.Minute
	// namespace has the pods of the scripts.
	namespace = "script"
)

// autoscaler is a program that adds nodes to the elastic pool for pods that fit nowhere, and removes nodes that it can
// do without.
type autoscaler struct {
	// start returns when the autoscaler works.
	start func(ctx context.Context, s *Scene) error
}

// scenarios returns what is played with every autoscaler. What is unmet is by the scenario's name.
func (a autoscaler) scenarios(unmet map[string]string) []Scenario {
	list := []Scenario{
		a.script(),
		a.nameOfNoNode(),
		a.nameOfAFullNode(),
		a.slowVolume(),
	}
	for i := range list {
		list[i].Unmet = unmet[list[i].Name]
	}
	return list
}

// addFixed creates the nodes that are there from the beginning, and waits until they are ready.
func addFixed(ctx context.Context, s *Scene, count int) error {
	for i := range count {
		node := elasticNode()
		node.Name = fixedName(i)
		node.Labels = map[string]string{poolLabel: fixed, corev1.LabelHostname: node.Name}
		if _, err := s.Client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	return s.Eventually(ctx, worksWithin, "the fixed nodes are ready", func(ctx context.Context) (string, error) {
		nodes, err := s.Client.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: poolLabel + "=" + fixed})
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

func fixedName(i int) string { return fmt.Sprintf("fixed-%d", i) }

// elasticNode is a node of the elastic pool, without a name.
func elasticNode() *corev1.Node {
	room := corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewQuantity(nodeCPU, resource.DecimalSI),
		corev1.ResourceMemory: resource.MustParse("32Gi"),
		corev1.ResourcePods:   resource.MustParse("110"),
	}
	return &corev1.Node{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"},
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{
			poolLabel: elastic, corev1.LabelOSStable: "linux", corev1.LabelArchStable: "amd64",
		}},
		Status: corev1.NodeStatus{Capacity: room, Allocatable: room},
	}
}

// ground is what every script with an autoscaler stands on: fixed nodes, the namespace, an observer, the autoscaler.
func (a autoscaler) ground(ctx context.Context, s *Scene, fixedNodes int) (*watcher, error) {
	if err := addFixed(ctx, s, fixedNodes); err != nil {
		return nil, err
	}
	if err := harness.CreateNamespace(ctx, s.Client, harness.Namespace(namespace)); err != nil {
		return nil, err
	}
	w, err := watchAll(ctx, s)
	if err != nil {
		return nil, err
	}
	return w, a.start(ctx, s)
}
