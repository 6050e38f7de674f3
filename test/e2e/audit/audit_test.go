package audit_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/test/e2e/audit"
)

func TestATrueClusterHasNoFindings(t *testing.T) {
	nodes := []corev1.Node{node("a", "2", "10"), node("b", "2", "10")}
	pods := []corev1.Pod{pod("p", "a", "2"), pod("q", "b", "1"), pod("waits", "", "9")}
	done := pod("done", "a", "2")
	done.Status.Phase = corev1.PodSucceeded
	if findings := audit.Check(nodes, append(pods, done)); len(findings) > 0 {
		t.Errorf("got %q", findings)
	}
}

func TestEachKindOfMistakeIsFound(t *testing.T) {
	selects := pod("p", "a", "1")
	selects.Spec.NodeSelector = map[string]string{"disk": "ssd"}
	tainted := node("a", "2", "10")
	tainted.Spec.Taints = []corev1.Taint{{Key: "gpu", Value: "yes", Effect: corev1.TaintEffectNoSchedule}}
	first, second := pod("p", "a", "1"), pod("q", "a", "1")
	for _, p := range []*corev1.Pod{&first, &second} {
		p.Spec.Containers[0].Ports = []corev1.ContainerPort{{HostPort: 80, Protocol: corev1.ProtocolTCP}}
	}
	large, narrow := node("a", "2", "10"), node("a", "2", "1")
	for _, test := range []struct {
		name string
		node corev1.Node
		pods []corev1.Pod
		want string
	}{
		{"cpu", large, []corev1.Pod{pod("p", "a", "1"), pod("q", "a", "1100m")}, "ask for 2100m of cpu"},
		{"pods", narrow, []corev1.Pod{pod("p", "a", "1"), pod("q", "a", "1")}, "2 pods, allocatable are 1"},
		{"node", large, []corev1.Pod{pod("p", "b", "1")}, "does not exist"},
		{"selector", large, []corev1.Pod{selects}, "does not select"},
		{"taint", tainted, []corev1.Pod{pod("p", "a", "1")}, "does not tolerate gpu=yes:NoSchedule"},
		{"port", large, []corev1.Pod{first, second}, "both have port 80"},
	} {
		t.Run(test.name, func(t *testing.T) {
			findings := audit.Check([]corev1.Node{test.node}, test.pods)
			if len(findings) != 1 || !strings.Contains(findings[0], test.want) {
				t.Errorf("got %q, want one finding with %q", findings, test.want)
			}
		})
	}
}

func TestRequestsCountWhatRunsTogether(t *testing.T) {
	always := corev1.ContainerRestartPolicyAlways
	for _, test := range []struct {
		name string
		spec corev1.PodSpec
		want string
	}{
		{"containers add up", corev1.PodSpec{Containers: []corev1.Container{box("1"), box("500m")}}, "1500m"},
		{"the largest init container is the peak", corev1.PodSpec{
			InitContainers: []corev1.Container{box("3"), box("2")}, Containers: []corev1.Container{box("1")},
		}, "3"},
		{"a sidecar runs beside later init containers", corev1.PodSpec{
			InitContainers: []corev1.Container{sidecar("1", &always), box("3")}, Containers: []corev1.Container{box("1")},
		}, "4"},
		{"a sidecar runs beside the containers", corev1.PodSpec{
			InitContainers: []corev1.Container{box("1"), sidecar("1", &always)}, Containers: []corev1.Container{box("1")},
		}, "2"},
		{"overhead comes on top", corev1.PodSpec{
			Containers: []corev1.Container{box("1")}, Overhead: list("250m"),
		}, "1250m"},
		{"the pod level replaces the sum", corev1.PodSpec{
			Containers: []corev1.Container{box("1")}, Resources: &corev1.ResourceRequirements{Requests: list("4")},
		}, "4"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := audit.Requests(&corev1.Pod{Spec: test.spec})[corev1.ResourceCPU]
			if got.Cmp(resource.MustParse(test.want)) != 0 {
				t.Errorf("got %s, want %s", got.String(), test.want)
			}
		})
	}
}

func list(cpu string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}
}

func box(cpu string) corev1.Container {
	return corev1.Container{Resources: corev1.ResourceRequirements{Requests: list(cpu)}}
}

func sidecar(cpu string, always *corev1.ContainerRestartPolicy) corev1.Container {
	c := box(cpu)
	c.RestartPolicy = always
	return c
}

func node(name, cpu, pods string) corev1.Node {
	room := list(cpu)
	room[corev1.ResourcePods] = resource.MustParse(pods)
	return corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NodeStatus{Allocatable: room}}
}

func pod(name, node, cpu string) corev1.Pod {
	return corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "test", Name: name},
		Spec:       corev1.PodSpec{NodeName: node, Containers: []corev1.Container{box(cpu)}},
	}
}
