package state_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/pkg/state/statetest"
)

// limit is what reduced objects have room in.
const limit = 100_000

// reduce reduces an object to the limit, and says whether that was enough.
func reduce(t *testing.T, obj state.APIObject) bool {
	t.Helper()
	ok := state.Reduce(obj, 2*limit, limit)
	data, err := obj.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	if ok != (len(data) <= limit) {
		t.Fatalf("Reduce returns %t for %d bytes", ok, len(data))
	}
	return ok
}

// many are labels or annotations that have no room.
func many() map[string]string {
	out := map[string]string{}
	for i := range 3000 {
		out[fmt.Sprintf("example.com/%05d", i)] = strings.Repeat("v", 40)
	}
	return out
}

// TestReducePod: whatever makes a pod too large, what counts on its node stays as it was.
func TestReducePod(t *testing.T) {
	for name, grow := range map[string]func(*corev1.Pod){
		"tolerations": func(p *corev1.Pod) {
			for i := range 3000 {
				p.Spec.Tolerations = append(p.Spec.Tolerations, corev1.Toleration{Key: fmt.Sprintf("example.com/%050d", i)})
			}
		},
		"environment": func(p *corev1.Pod) {
			p.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "LONG", Value: strings.Repeat("x", 2*limit)}}
		},
		"condition": func(p *corev1.Pod) {
			p.Status.Conditions = []corev1.PodCondition{{Type: "PodScheduled", Message: strings.Repeat("x", 2*limit)}}
		},
		"labels":      func(p *corev1.Pod) { p.Labels = many() },
		"annotations": func(p *corev1.Pod) { p.Annotations = many() },
		"scheduler":   func(p *corev1.Pod) { p.Spec.SchedulerName = strings.Repeat("s", 2*limit) },
		"limits": func(p *corev1.Pod) {
			r := &p.Spec.Containers[0].Resources
			r.Limits = corev1.ResourceList{}
			for i := range 2000 {
				name := corev1.ResourceName(fmt.Sprintf("example.com/%020d", i))
				r.Requests[name], r.Limits[name] = resource.MustParse("1"), resource.MustParse("1")
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			pod := statetest.Pod("default", "a", "cpu", "1", "memory", "1Gi")
			pod.Spec.NodeName, pod.Spec.Overhead = "n1", corev1.ResourceList{"cpu": resource.MustParse("250m")}
			pod.Spec.Priority = new(int32)
			*pod.Spec.Priority = 7
			pod.Spec.Containers[0].Ports = []corev1.ContainerPort{{HostPort: 80, Protocol: "TCP"}}
			pod.Status.Phase, pod.ResourceVersion = corev1.PodRunning, "12"
			pod.DeletionTimestamp = &metav1.Time{}
			grow(pod)
			before := state.NewPod(pod.DeepCopy())
			if !reduce(t, pod) {
				t.Fatal("the pod is still too large")
			}
			after := state.NewPod(pod)
			identity := func(p *state.Pod) []any {
				return []any{
					p.UID, p.Namespace, p.Name, p.NodeName, p.ResourceVersion, p.Priority, p.Deleting, p.Terminal, p.Ports, p.Requests,
				}
			}
			if diff := cmp.Diff(identity(before), identity(after)); diff != "" {
				t.Errorf("what counts on the node differs:\n%s", diff)
			}
			if !after.TooLarge() || before.TooLarge() {
				t.Error("the gate is not on the reduced pod alone")
			}
			if note := after.Annotation(state.TooLargeAnnotation); note != "200000 bytes; the log takes 100000" {
				t.Errorf("the note says %q", note)
			}
		})
	}
}

// TestReducePodKeepsWhatBindsOthers: labels and required anti-affinity stay if they have room.
func TestReducePodKeepsWhatBindsOthers(t *testing.T) {
	pod := statetest.Pod("default", "a", "cpu", "1")
	pod.Labels = map[string]string{"app": "web"}
	term := corev1.PodAffinityTerm{
		TopologyKey: "zone", LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
	}
	pod.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{term},
	}}
	pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: events.QuotaGate}}
	pod.Annotations = many()
	if !reduce(t, pod) {
		t.Fatal("the pod is still too large")
	}
	after := state.NewPod(pod)
	if after.Kind.Labels["app"] != "web" || !after.Kind.RequiredAntiAffinity || len(pod.Spec.SchedulingGates) != 2 {
		t.Errorf("kind %+v, gates %v", after.Kind, pod.Spec.SchedulingGates)
	}
}

// TestReduceOthers: a budget allows nothing, a claim keeps its devices and takes no further pod, and what
// cannot be used
// safely without the part that is too large is left out.
func TestReduceOthers(t *testing.T) {
	meta := metav1.ObjectMeta{Name: "a", Namespace: "default", UID: types.UID("uid"), ResourceVersion: "9"}
	budget := &policyv1.PodDisruptionBudget{ObjectMeta: meta}
	budget.Spec.Selector = &metav1.LabelSelector{MatchLabels: many()}
	budget.Status = policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: 5, DesiredHealthy: 1, CurrentHealthy: 6}
	if !reduce(t, budget) || state.DisruptionsAllowed(budget) != 0 || state.SparesUnready(budget) || budget.UID != "uid" {
		t.Errorf("the budget is %+v", budget)
	}
	if s := budget.Spec.Selector; s == nil || len(s.MatchLabels) != 0 {
		t.Errorf("it selects %v, want all of its namespace", s)
	}
	claim := &resourcev1.ResourceClaim{ObjectMeta: meta}
	claim.Labels = many()
	claim.Status.Allocation = &resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{
		Results: []resourcev1.DeviceRequestAllocationResult{{Driver: "d", Pool: "p", Device: "x"}},
	}}
	if !reduce(t, claim) || len(claim.Status.Allocation.Devices.Results) != 1 || claim.DeletionTimestamp == nil {
		t.Errorf("the claim is %+v", claim)
	}
	meta.Namespace = ""
	node := &corev1.Node{ObjectMeta: meta}
	node.Status.Images = []corev1.ContainerImage{{Names: []string{strings.Repeat("x", 2*limit)}}}
	if !reduce(t, node) || node.Name != "a" {
		t.Error("a node with many images is left out")
	}
	node.Labels = many()
	if reduce(t, node) {
		t.Error("a node is told of without its labels")
	}
}
