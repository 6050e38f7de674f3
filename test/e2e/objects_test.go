//go:build e2e

package e2e_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/test/e2e/harness"
)

// podOption changes a pod before it is created.
type podOption func(*corev1.Pod)

// newPod is a pod with one container that asks for cpu.
func newPod(namespace, name, cpu string, options ...podOption) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       podSpec(cpu),
	}
	for _, option := range options {
		option(pod)
	}
	return pod
}

// newPods is a burst of n pods that differ only in their names.
func newPods(namespace, prefix string, n int, cpu string, options ...podOption) []*corev1.Pod {
	pods := make([]*corev1.Pod, n)
	for i := range pods {
		pods[i] = newPod(namespace, fmt.Sprintf("%s-%04d", prefix, i), cpu, options...)
	}
	return pods
}

func podSpec(cpu string) corev1.PodSpec {
	return corev1.PodSpec{Containers: []corev1.Container{{
		Name: "app", Image: "example.com/app:1",
		Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
			corev1.ResourceCPU:    resource.MustParse(cpu),
			corev1.ResourceMemory: resource.MustParse("64Mi"),
		}},
	}}}
}

func selecting(key, value string) podOption {
	return func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{key: value} }
}

func tolerating(t corev1.Toleration) podOption {
	return func(p *corev1.Pod) { p.Spec.Tolerations = append(p.Spec.Tolerations, t) }
}

func onNode(name string) podOption {
	return func(p *corev1.Pod) { p.Spec.NodeName = name }
}

func onPort(number int32) podOption {
	return func(p *corev1.Pod) {
		p.Spec.Containers[0].Ports = []corev1.ContainerPort{{HostPort: number, ContainerPort: number}}
	}
}

func gated(names ...string) podOption {
	return func(p *corev1.Pod) {
		for _, name := range names {
			p.Spec.SchedulingGates = append(p.Spec.SchedulingGates, corev1.PodSchedulingGate{Name: name})
		}
	}
}

func scheduledBy(name string) podOption {
	return func(p *corev1.Pod) { p.Spec.SchedulerName = name }
}

// requiring asks for nodes that match an expression.
func requiring(key string, operator corev1.NodeSelectorOperator, values ...string) podOption {
	return func(p *corev1.Pod) {
		p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
				NodeSelectorTerms: []corev1.NodeSelectorTerm{{
					MatchExpressions: []corev1.NodeSelectorRequirement{{Key: key, Operator: operator, Values: values}},
				}},
			},
		}}
	}
}

// preferring adds a weighted wish for nodes with a label.
func preferring(weight int32, key, value string) podOption {
	return func(p *corev1.Pod) {
		if p.Spec.Affinity == nil {
			p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{}}
		}
		wish := corev1.PreferredSchedulingTerm{Weight: weight, Preference: corev1.NodeSelectorTerm{
			MatchExpressions: []corev1.NodeSelectorRequirement{
				{Key: key, Operator: corev1.NodeSelectorOpIn, Values: []string{value}},
			},
		}}
		wishes := &p.Spec.Affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution
		*wishes = append(*wishes, wish)
	}
}

// starting adds an init container that asks for cpu.
func starting(cpu string) podOption {
	return func(p *corev1.Pod) {
		p.Spec.InitContainers = append(p.Spec.InitContainers, corev1.Container{
			Name: fmt.Sprintf("init-%d", len(p.Spec.InitContainers)), Image: "example.com/init:1",
			Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)},
			},
		})
	}
}

// nodeSpec describes one node; unset amounts are 8 CPU, 32Gi and 110 pods.
type nodeSpec struct {
	name string
	// capacity and allocatable are CPU; allocatable defaults to capacity.
	capacity, allocatable string
	labels                map[string]string
	taints                []corev1.Taint
	// extended is a resource of which there are a hundred; empty for none.
	extended corev1.ResourceName
}

// addNodes creates nodes and waits until the simulated kubelets have made them ready.
func (s *stack) addNodes(specs ...nodeSpec) {
	s.Helper()
	for _, spec := range specs {
		_, err := s.client.CoreV1().Nodes().Create(s.Context(), spec.object(), metav1.CreateOptions{})
		s.must(err)
	}
	for _, spec := range specs {
		s.eventually(placedWithin, "node "+spec.name+" is schedulable", func(ctx context.Context) (string, error) {
			node, err := s.client.CoreV1().Nodes().Get(ctx, spec.name, metav1.GetOptions{})
			if err != nil {
				return "", err
			}
			return harness.Unready(node), nil
		})
	}
}

func (n nodeSpec) object() *corev1.Node {
	capacity := n.capacity
	if capacity == "" {
		capacity = "8"
	}
	allocatable := n.allocatable
	if allocatable == "" {
		allocatable = capacity
	}
	room := func(cpu string) corev1.ResourceList {
		list := corev1.ResourceList{
			corev1.ResourceCPU:    resource.MustParse(cpu),
			corev1.ResourceMemory: resource.MustParse("32Gi"),
			corev1.ResourcePods:   resource.MustParse("110"),
		}
		if n.extended != "" {
			list[n.extended] = resource.MustParse("100")
		}
		return list
	}
	labels := map[string]string{corev1.LabelHostname: n.name}
	maps.Copy(labels, n.labels)
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: n.name, Labels: labels},
		Spec:       corev1.NodeSpec{Taints: n.taints},
		Status:     corev1.NodeStatus{Capacity: room(capacity), Allocatable: room(allocatable)},
	}
}

// file writes a configuration file of the test.
func (s *stack) file(name, content string) string {
	s.Helper()
	path := filepath.Join(s.dir, name)
	s.must(os.WriteFile(path, []byte(content), 0o600))
	return path
}
