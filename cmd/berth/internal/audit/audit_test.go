package audit

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func node(name, cpu, pods string, labels map[string]string) corev1.Node {
	return corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Labels: labels},
		Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse("8Gi"),
			corev1.ResourcePods: resource.MustParse(pods),
		}},
	}
}

func pod(name, node, cpu string, byBerth bool, change ...func(*corev1.Pod)) corev1.Pod {
	p := corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: name, UID: types.UID(name)},
		Spec: corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}},
		}}},
	}
	if byBerth {
		p.Annotations = map[string]string{AttemptAnnotation: "0000000000000001"}
	}
	for _, c := range change {
		c(&p)
	}
	return p
}

func selects(key, value string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{key: value} }
}

func port(n int32) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.Containers[0].Ports = []corev1.ContainerPort{{HostPort: n}} }
}

func phase(ph corev1.PodPhase) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Status.Phase = ph }
}

// checkCase is a cluster and what there is to say about it.
type checkCase struct {
	name  string
	nodes []corev1.Node
	pods  []corev1.Pod
	want  []Finding
}

func TestCheckRoom(t *testing.T) {
	run(t, []checkCase{
		{
			name:  "a full node is fine, a finished pod takes no room",
			nodes: []corev1.Node{node("n", "1", "10", nil)},
			pods: []corev1.Pod{
				pod("a", "n", "500m", true), pod("b", "n", "500m", true),
				pod("c", "n", "500m", true, phase(corev1.PodSucceeded)), pod("d", "", "500m", false),
			},
		},
		{
			name:  "too much on a node that Berth alone filled is a violation",
			nodes: []corev1.Node{node("n", "1", "10", nil)},
			pods:  []corev1.Pod{pod("a", "n", "600m", true), pod("b", "n", "600m", true)},
			want: []Finding{{
				Severity: Violation, Rule: "overcommit", Object: "node/n", Message: "cpu: requested 1200, allocatable 1000",
			}},
		},
		{
			name:  "too much on a node that somebody else filled too is a warning",
			nodes: []corev1.Node{node("n", "1", "10", nil)},
			pods:  []corev1.Pod{pod("a", "n", "600m", true), pod("b", "n", "600m", false)},
			want: []Finding{{
				Severity: Warning, Rule: "overcommit", Object: "node/n", Message: "cpu: requested 1200, allocatable 1000",
			}},
		},
		{
			name:  "too many pods",
			nodes: []corev1.Node{node("n", "1", "1", nil)},
			pods:  []corev1.Pod{pod("a", "n", "1m", true), pod("b", "n", "1m", true)},
			want: []Finding{{
				Severity: Violation, Rule: "overcommit", Object: "node/n", Message: "pods: requested 2, allocatable 1",
			}},
		},
	})
}

func TestCheckPlaces(t *testing.T) {
	run(t, []checkCase{
		{
			name:  "a node that does not exist",
			nodes: []corev1.Node{node("n", "1", "10", nil)},
			pods:  []corev1.Pod{pod("a", "gone", "1m", true)},
			want: []Finding{{
				Severity: Violation, Rule: "unknown-node", Object: "pod/d/a",
				Message: "is bound to node gone, which does not exist",
			}},
		},
		{
			name:  "a selector that the node does not have",
			nodes: []corev1.Node{node("n", "1", "10", map[string]string{"disk": "hdd"})},
			pods:  []corev1.Pod{pod("a", "n", "1m", true, selects("disk", "ssd"))},
			want: []Finding{{
				Severity: Violation, Rule: "unfit", Object: "pod/d/a",
				Message: "on node n: 0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector.",
			}},
		},
		{
			name:  "one host port for two pods",
			nodes: []corev1.Node{node("n", "1", "10", nil)},
			pods:  []corev1.Pod{pod("a", "n", "1m", true, port(80)), pod("b", "n", "1m", true, port(80))},
			want: []Finding{
				{
					Severity: Violation, Rule: "unfit", Object: "pod/d/a",
					Message: "on node n: 0/1 nodes are available: 1 node(s) didn't have free ports for the requested pod ports.",
				},
				{
					Severity: Violation, Rule: "unfit", Object: "pod/d/b",
					Message: "on node n: 0/1 nodes are available: 1 node(s) didn't have free ports for the requested pod ports.",
				},
			},
		},
	})
}

func run(t *testing.T, tests []checkCase) {
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := Check(tt.nodes, tt.pods)
			if diff := cmp.Diff(tt.want, got.Findings); diff != "" {
				t.Errorf("findings (-want +got):\n%s", diff)
			}
		})
	}
}

func TestCheckCounts(t *testing.T) {
	r := Check([]corev1.Node{node("n", "4", "10", nil)}, []corev1.Pod{
		pod("a", "n", "1", true), pod("b", "n", "1", false), pod("c", "", "1", false),
		pod("d", "", "1", false, phase(corev1.PodFailed)),
	})
	want := Report{Nodes: 1, Pods: 4, Bound: 2, ByBerth: 1, Pending: 1}
	if diff := cmp.Diff(want, r); diff != "" {
		t.Errorf("report (-want +got):\n%s", diff)
	}
}
