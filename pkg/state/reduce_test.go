package state_test

import (
	"fmt"
	"maps"
	"slices"
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
	"github.com/berth-scheduler/berth/pkg/state/reduce"
	"github.com/berth-scheduler/berth/pkg/state/statetest"
	"github.com/berth-scheduler/berth/pkg/state/strip"
)

// limit is the maximum size of reduced objects.
const limit = 100_000

// isReduced reduces an object to the limit, and reports whether that was enough.
func isReduced(t *testing.T, obj state.APIObject) bool {
	t.Helper()
	ok := reduce.Reduce(obj, 2*limit, limit)
	data, err := obj.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	if ok != (len(data) <= limit) {
		t.Fatalf("Reduce returns %t for %d bytes", ok, len(data))
	}
	return ok
}

// many returns labels or annotations for which there is no room.
func many() map[string]string {
	out := map[string]string{}
	for i := range 3000 {
		out[fmt.Sprintf("example.com/%05d", i)] = strings.Repeat("v", 40)
	}
	return out
}

// TestReducePod: whatever makes a pod too large, what counts on its node stays the same.
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
			if !isReduced(t, pod) {
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
			if note := after.Annotation(strip.TooLargeAnnotation); note != "200000 bytes; the log takes 100000" {
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
	if !isReduced(t, pod) {
		t.Fatal("the pod is still too large")
	}
	after := state.NewPod(pod)
	if after.Kind.Labels["app"] != "web" || !after.Kind.RequiredAntiAffinity || len(pod.Spec.SchedulingGates) != 2 {
		t.Errorf("kind %+v, gates %v", after.Kind, pod.Spec.SchedulingGates)
	}
}

// TestReduceOthers: a budget allows nothing, and a claim keeps its devices and accepts no further pod.
func TestReduceOthers(t *testing.T) {
	meta := metav1.ObjectMeta{Name: "a", Namespace: "default", UID: types.UID("uid"), ResourceVersion: "9"}
	budget := &policyv1.PodDisruptionBudget{ObjectMeta: meta}
	budget.Spec.Selector = &metav1.LabelSelector{MatchLabels: many()}
	budget.Status = policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: 5, DesiredHealthy: 1, CurrentHealthy: 6}
	if !isReduced(t, budget) || state.DisruptionsAllowed(budget) != 0 || state.SparesUnready(budget) ||
		budget.UID != "uid" {
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
	if !isReduced(t, claim) || len(claim.Status.Allocation.Devices.Results) != 1 || claim.DeletionTimestamp == nil {
		t.Errorf("the claim is %+v", claim)
	}
}

// TestReduceNode: whatever makes a node too large, it stays in the facts with what its pods take, and is closed to
// new pods if data that decides about them has been cut.
func TestReduceNode(t *testing.T) {
	for name, test := range map[string]struct {
		grow   func(*corev1.Node)
		closed bool
	}{
		"images": {func(n *corev1.Node) {
			n.Status.Images = []corev1.ContainerImage{{Names: []string{strings.Repeat("x", 2*limit)}}}
		}, false},
		"annotation":  {func(n *corev1.Node) { n.Annotations = map[string]string{"a": strings.Repeat("x", 2*limit)} }, false},
		"labels":      {func(n *corev1.Node) { maps.Copy(n.Labels, many()) }, true},
		"annotations": {func(n *corev1.Node) { n.Annotations = many() }, true},
		"taints": {func(n *corev1.Node) {
			for key := range many() {
				n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: key, Value: strings.Repeat("v", 40), Effect: "NoSchedule"})
			}
		}, true},
		"resources": {func(n *corev1.Node) {
			for key := range many() {
				name := corev1.ResourceName(key + strings.Repeat("r", 20))
				n.Status.Allocatable[name], n.Status.Capacity[name] = resource.MustParse("1"), resource.MustParse("1")
			}
		}, true},
		"conditions": {func(n *corev1.Node) {
			for key := range many() {
				n.Status.Conditions = append(n.Status.Conditions,
					corev1.NodeCondition{Type: corev1.NodeConditionType(key), Message: strings.Repeat("m", 40)})
			}
		}, true},
		"provider": {func(n *corev1.Node) { n.Spec.ProviderID = strings.Repeat("p", 2*limit) }, true},
		"features": {func(n *corev1.Node) {
			for key := range many() {
				n.Status.DeclaredFeatures = append(n.Status.DeclaredFeatures, key+strings.Repeat("f", 40))
			}
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			node := statetest.Node("n1", "cpu", "4", "memory", "8Gi", "pods", "110")
			node.Labels[corev1.LabelTopologyZone], node.Labels["zzz.example.com/rack"] = "a", "r1"
			node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
			node.ResourceVersion = "12"
			test.grow(node)
			before := state.NewNode(node.DeepCopy())
			if !isReduced(t, node) {
				t.Fatal("the node is left out")
			}
			after := state.NewNode(node)
			if after.Closed() != test.closed || test.closed && !after.Object.Spec.Unschedulable {
				t.Errorf("closed %t, cordoned %t, want %t", after.Closed(), after.Object.Spec.Unschedulable, test.closed)
			}
			checkSameNode(t, before, after)
			if _, cut := after.Object.Labels[strip.LabelsCut]; cut != (name == "labels") {
				t.Errorf("the mark of cut labels: %t", cut)
			}
		})
	}
}

// checkSameNode checks that a reduced node has the same properties that decide about its pods.
func checkSameNode(t *testing.T, before, after *state.Node) {
	t.Helper()
	if before.UID != after.UID || before.Name != after.Name || before.ResourceVersion != after.ResourceVersion {
		t.Errorf("another node: %s %s", after.UID, after.Name)
	}
	for _, name := range []corev1.ResourceName{"cpu", "memory", "pods"} {
		if was, is := before.Object.Status.Allocatable[name], after.Object.Status.Allocatable[name]; was.Cmp(is) != 0 {
			t.Errorf("%s of %s, want %s", name, is.String(), was.String())
		}
	}
	for _, key := range []string{corev1.LabelHostname, corev1.LabelTopologyZone, "zzz.example.com/rack"} {
		if was, is := before.Object.Labels[key], after.Object.Labels[key]; was != is {
			t.Errorf("label %s is %q, want %q", key, is, was)
		}
	}
	if !slices.ContainsFunc(after.Object.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	}) {
		t.Error("the node is not ready any more")
	}
}

// TestReducePodsLabels: labels are cut last, and a pod that has lost some is marked.
func TestReducePodsLabels(t *testing.T) {
	pod := statetest.Pod("default", "a", "cpu", "1")
	pod.Labels = many()
	pod.Labels["app"] = "web"
	pod.Spec.Containers[0].Ports = []corev1.ContainerPort{{HostPort: 80, Protocol: "TCP"}}
	pod.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"},
	}}}
	pod.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{TopologyKey: "zone"}},
	}}
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	if !isReduced(t, pod) {
		t.Fatal("the pod is still too large")
	}
	after := state.NewPod(pod)
	if _, cut := after.Kind.Labels[strip.LabelsCut]; !cut || after.Kind.Labels["app"] != "web" || len(pod.Labels) < 1000 {
		t.Errorf("%d labels are kept, marked %t", len(pod.Labels), cut)
	}
	if len(after.Ports) != 1 || len(pod.Spec.Volumes) != 1 || !after.Kind.RequiredAntiAffinity || !after.Ready() {
		t.Errorf("ports %v, volumes %v, ready %t", after.Ports, pod.Spec.Volumes, after.Ready())
	}
}

// TestReducePodsRules: anti-affinity that has no room repels all pods of the namespaces concerned.
func TestReducePodsRules(t *testing.T) {
	pod := statetest.Pod("default", "a", "cpu", "1")
	anti := &corev1.PodAntiAffinity{}
	for key := range many() {
		anti.RequiredDuringSchedulingIgnoredDuringExecution = append(anti.RequiredDuringSchedulingIgnoredDuringExecution,
			corev1.PodAffinityTerm{TopologyKey: "zone", LabelSelector: &metav1.LabelSelector{
				MatchLabels: map[string]string{key: strings.Repeat("v", 40)},
			}})
	}
	pod.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: anti}
	if !isReduced(t, pod) {
		t.Fatal("the pod is still too large")
	}
	terms := state.NewPod(pod).Terms
	if terms == nil || len(terms.RequiredAntiAffinity) != 1 {
		t.Fatalf("the terms are %+v", terms)
	}
	term := &terms.RequiredAntiAffinity[0]
	if !term.Matches("default", nil, nil) || term.Matches("other", nil, nil) || term.TopologyKey != "zone" {
		t.Errorf("the term is %+v", term)
	}
}

// TestReducePodsRequests: resources of which a pod requests zero do not displace those that it takes.
func TestReducePodsRequests(t *testing.T) {
	pod := statetest.Pod("default", "a", "cpu", "1", "example.com/gpu", "2")
	for key := range many() {
		pod.Spec.Containers[0].Resources.Requests[corev1.ResourceName(key+strings.Repeat("r", 30))] = resource.MustParse("0")
	}
	if !isReduced(t, pod) {
		t.Fatal("the pod is still too large")
	}
	if got := state.NewPod(pod).Requests.Get("example.com/gpu"); got != 2 {
		t.Errorf("it takes %d of example.com/gpu, want 2", got)
	}
}

// TestReduceNamespace: a namespace keeps its budget, and is marked when it has lost labels.
func TestReduceNamespace(t *testing.T) {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "uid", ResourceVersion: "9"}}
	ns.Labels = many()
	ns.Labels[corev1.LabelMetadataName] = "a"
	budget := "pods=" + strings.Repeat(" ", 2000) + "1"
	ns.Annotations = map[string]string{events.QuotaGate: budget}
	if !isReduced(t, ns) {
		t.Fatal("the namespace is left out")
	}
	if _, cut := ns.Labels[strip.LabelsCut]; !cut || ns.Labels[corev1.LabelMetadataName] != "a" {
		t.Errorf("%d labels, marked %t", len(ns.Labels), cut)
	}
	if ns.Annotations[events.QuotaGate] != budget {
		t.Error("its budget is gone")
	}
}
