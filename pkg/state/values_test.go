package state_test

import (
	"maps"
	"math"
	"math/big"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/pkg/state/resources"
	"github.com/berth-scheduler/berth/pkg/state/statetest"
)

// TestResourcesSaturate: sums and differences are those of unlimited integers, clamped.
func TestResourcesSaturate(t *testing.T) {
	edges := []int64{math.MinInt64, math.MinInt64 + 1, -1, 0, 1, math.MaxInt64 - 1, math.MaxInt64}
	number := rapid.OneOf(rapid.Int64(), rapid.SampledFrom(edges))
	clamp := func(v *big.Int) int64 {
		switch {
		case v.Cmp(big.NewInt(math.MaxInt64)) > 0:
			return math.MaxInt64
		case v.Cmp(big.NewInt(math.MinInt64)) < 0:
			return math.MinInt64
		default:
			return v.Int64()
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		a, b := number.Draw(t, "a"), number.Draw(t, "b")
		of := func(v int64) resources.Resources {
			return resources.FromMap(map[string]int64{
				"cpu": v, "memory": v, "ephemeral-storage": v, "pods": v, "example.com/gpu": v,
			})
		}
		left, right := of(a), of(b)
		sum := clamp(new(big.Int).Add(big.NewInt(a), big.NewInt(b)))
		if got := left.Add(right); !got.Equal(of(sum)) {
			t.Fatalf("%d + %d = %v, want %d", a, b, got, sum)
		}
		diff := clamp(new(big.Int).Sub(big.NewInt(a), big.NewInt(b)))
		if got := left.Sub(right); !got.Equal(of(diff)) {
			t.Fatalf("%d - %d = %v, want %d", a, b, got, diff)
		}
		if !left.Equal(of(a)) || !right.Equal(of(b)) {
			t.Fatal("an operand changed")
		}
		if back := resources.FromMap(left.Map()); !cmp.Equal(left, back) {
			t.Fatalf("%v comes back as %v", left, back)
		}
	})
}

func TestResourceNames(t *testing.T) {
	for name, want := range map[string]bool{
		"example.com/gpu": true, "hugepages-2Mi": true, "attachable-volumes-csi": true, "kubernetes.io/widget": true,
		"widget": false, "requests.example.com/gpu": false, "not a name/x": false,
	} {
		if got := resources.IsAccountedResource(name); got != want {
			t.Errorf("%s: accounted %v, want %v", name, got, want)
		}
	}
	got := resources.NewResources(statetest.List(
		"cpu", "1500m", "memory", "1Ki", "pods", "3", "widget", "2", "hugepages-2Mi", "0"))
	if want := (resources.Resources{MilliCPU: 1500, Memory: 1024, Pods: 3}); !cmp.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestNewPod(t *testing.T) {
	always := corev1.ContainerRestartPolicyAlways
	container := func(requests ...string) corev1.Container {
		return corev1.Container{Name: "c", Resources: corev1.ResourceRequirements{Requests: statetest.List(requests...)}}
	}
	sidecar := container("cpu", "200m")
	sidecar.Name, sidecar.RestartPolicy = "s", &always
	const mi = 1 << 20
	tests := map[string]struct {
		spec          corev1.PodSpec
		status        corev1.PodStatus
		want, nonZero resources.Resources
	}{
		"no requests": {
			spec:    corev1.PodSpec{Containers: []corev1.Container{container(), container()}},
			want:    resources.Resources{Pods: 1},
			nonZero: resources.Resources{MilliCPU: 200, Memory: 400 * mi},
		},
		"containers add up, a zero request is a request": {
			spec: corev1.PodSpec{Containers: []corev1.Container{
				container("cpu", "100m", "memory", "0", "example.com/gpu", "1"), container("cpu", "1"),
			}},
			want:    resources.Resources{MilliCPU: 1100, Pods: 1, Extended: map[string]int64{"example.com/gpu": 1}},
			nonZero: resources.Resources{MilliCPU: 1100, Memory: 200 * mi},
		},
		"a sidecar runs beside containers and later init containers; overhead on top": {
			spec: corev1.PodSpec{
				Containers:     []corev1.Container{container("cpu", "100m", "memory", "10Mi")},
				InitContainers: []corev1.Container{sidecar, container("cpu", "500m", "memory", "5Mi")},
				Overhead:       statetest.List("cpu", "10m"),
			},
			want:    resources.Resources{MilliCPU: 710, Memory: 10 * mi, Pods: 1},
			nonZero: resources.Resources{MilliCPU: 710, Memory: 210 * mi},
		},
		"pod-level requests override": {
			spec: corev1.PodSpec{
				Containers: []corev1.Container{container("cpu", "100m")},
				Resources:  &corev1.ResourceRequirements{Requests: statetest.List("cpu", "2")},
			},
			want:    resources.Resources{MilliCPU: 2000, Pods: 1},
			nonZero: resources.Resources{MilliCPU: 2000, Memory: 200 * mi},
		},
		"in-place resize counts the most of spec, allocated and actual": {
			spec: corev1.PodSpec{Containers: []corev1.Container{container("cpu", "100m", "memory", "30Mi")}},
			status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{
				Name:               "c",
				AllocatedResources: statetest.List("cpu", "300m", "memory", "10Mi"),
				Resources:          &corev1.ResourceRequirements{Requests: statetest.List("cpu", "200m", "memory", "20Mi")},
			}}},
			want:    resources.Resources{MilliCPU: 300, Memory: 30 * mi, Pods: 1},
			nonZero: resources.Resources{MilliCPU: 300, Memory: 30 * mi},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			pod := state.NewPod(&corev1.Pod{Spec: test.spec, Status: test.status})
			if diff := cmp.Diff(test.want, pod.Requests); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.nonZero, pod.NonZero); diff != "" {
				t.Errorf("non-zero (-want +got):\n%s", diff)
			}
		})
	}
}

func TestNewPodFlags(t *testing.T) {
	obj := statetest.Pod("default", "a")
	priority, now := int32(7), metav1.NewTime(time.Unix(1, 0))
	obj.ResourceVersion = "42"
	obj.DeletionTimestamp = &now
	obj.Spec.Priority = &priority
	obj.Spec.NodeName = "n"
	obj.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "g"}}
	obj.Status.Phase = corev1.PodFailed
	got := state.NewPod(obj)
	want := &state.Pod{
		UID: "uid-a", Namespace: "default", Name: "a", NodeName: "n", ResourceVersion: 42, Priority: 7,
		SchedulerName: "default-scheduler", Gated: true, Terminal: true, Deleting: true,
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(state.Pod{}),
		cmpopts.IgnoreFields(state.Pod{}, "Requests", "NonZero", "Kind", "Template")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got.Occupies() {
		t.Error("a terminal pod occupies its node")
	}
}

func TestPorts(t *testing.T) {
	always := corev1.ContainerRestartPolicyAlways
	ports := func(list ...corev1.ContainerPort) corev1.Container { return corev1.Container{Ports: list} }
	sidecar := ports(corev1.ContainerPort{HostPort: 3, HostIP: "10.0.0.1", Protocol: corev1.ProtocolUDP})
	sidecar.RestartPolicy = &always
	obj := &corev1.Pod{Spec: corev1.PodSpec{
		InitContainers: []corev1.Container{ports(corev1.ContainerPort{HostPort: 2}), sidecar},
		Containers:     []corev1.Container{ports(corev1.ContainerPort{HostPort: 1}, corev1.ContainerPort{ContainerPort: 9})},
	}}
	want := []state.HostPort{{"10.0.0.1", "UDP", 3}, {"0.0.0.0", "TCP", 1}}
	if got := state.NewPod(obj).Ports; !slices.Equal(got, want) {
		t.Errorf("ports %v, want %v", got, want)
	}
	for _, test := range []struct {
		a, b state.HostPort
		want bool
	}{
		{state.NormalizeHostPort("", "", 80), state.NormalizeHostPort("0.0.0.0", "TCP", 80), true},
		{state.NormalizeHostPort("", "", 80), state.NormalizeHostPort("10.0.0.1", "", 80), true},
		{state.NormalizeHostPort("10.0.0.2", "", 80), state.NormalizeHostPort("10.0.0.1", "", 80), false},
		{state.NormalizeHostPort("10.0.0.1", "", 80), state.NormalizeHostPort("10.0.0.1", "", 80), true},
		{state.NormalizeHostPort("", "UDP", 80), state.NormalizeHostPort("", "", 80), false},
		{state.NormalizeHostPort("", "", 81), state.NormalizeHostPort("", "", 80), false},
	} {
		if test.a.Conflicts(test.b) != test.want || test.b.Conflicts(test.a) != test.want {
			t.Errorf("%v and %v conflict, want %v", test.a, test.b, test.want)
		}
	}
}

// TestNodeInfoSums: whatever is added and removed, the node's sums are those of the pods on it, the generation has
// changed, and a clone taken before is unchanged.
func TestNodeInfoSums(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		info := state.NewNodeInfo(state.NewNode(statetest.Node("n", "cpu", "4")))
		on := map[string]*state.Pod{}
		for range rapid.IntRange(0, 20).Draw(t, "steps") {
			clone := info.Clone()
			before := slices.Collect(clone.Pods())
			generation := info.Generation
			uid := rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(t, "uid")
			if rapid.Bool().Draw(t, "add") {
				pod := drawPod(t, uid)
				info.AddPod(pod)
				on[uid] = pod
			} else if rapid.Bool().Draw(t, "replace") {
				pod := drawVersion(t, uid, on[uid])
				info.ReplacePod(pod)
				on[uid] = pod
			} else if _, there := on[uid]; info.RemovePod(uid) != there {
				t.Fatalf("removing %s reports %v", uid, !there)
			} else if delete(on, uid); !there {
				generation = 0 // nothing changed
			}
			if info.Generation == generation {
				t.Fatal("the generation did not move")
			}
			checkSums(t, info, on)
			if !slices.Equal(before, slices.Collect(clone.Pods())) {
				t.Fatal("a clone changed")
			}
		}
	})
}

func drawPod(t *rapid.T, uid string) *state.Pod {
	pod := &state.Pod{
		UID: uid,
		Requests: resources.FromMap(map[string]int64{
			"cpu": rapid.Int64Range(0, 9).Draw(t, "cpu"), "pods": 1,
			"example.com/gpu": rapid.Int64Range(0, 1).Draw(t, "gpu"),
		}),
		NonZero: resources.Resources{MilliCPU: 100, Memory: 1},
		Ports: rapid.SliceOfN(rapid.SampledFrom([]state.HostPort{
			{"0.0.0.0", "TCP", 80}, {"10.0.0.1", "TCP", 80}, {"0.0.0.0", "UDP", 80},
		}), 0, 2).Draw(t, "ports"),
		Template: &corev1.Pod{},
	}
	if rapid.Bool().Draw(t, "described") {
		pod.Kind = &state.PodClass{}
	}
	if rapid.Bool().Draw(t, "terms") {
		pod.Terms = &state.PodTerms{}
	}
	if rapid.Bool().Draw(t, "anti-affinity") {
		pod.Template.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{TopologyKey: "zone"}},
		}}
	}
	return pod
}

// drawVersion draws the next version of a pod, nil for none yet. Many differ in nothing that counts on a node.
func drawVersion(t *rapid.T, uid string, before *state.Pod) *state.Pod {
	if before == nil || rapid.Bool().Draw(t, "something else") {
		return drawPod(t, uid)
	}
	after := *before
	after.ResourceVersion++
	after.NodeName = rapid.SampledFrom([]string{"", "n"}).Draw(t, "node")
	if rapid.Bool().Draw(t, "resized") {
		after.Requests = resources.FromMap(map[string]int64{"cpu": rapid.Int64Range(0, 9).Draw(t, "cpu"), "pods": 1})
	}
	if rapid.Bool().Draw(t, "counts like the one before") != after.CountsLike(before) {
		after.Ports = append(slices.Clone(after.Ports), state.HostPort{IP: "0.0.0.0", Protocol: "TCP", Port: 81})
	}
	return &after
}

func checkSums(t *rapid.T, info *state.NodeInfo, on map[string]*state.Pod) {
	var requested, nonZero resources.Resources
	var anti, affine []string
	undescribed := 0
	for _, p := range on {
		requested, nonZero = requested.Add(p.Requests), nonZero.Add(p.NonZero)
		if p.Template.Spec.Affinity != nil {
			anti = append(anti, p.UID)
		}
		if p.Terms != nil {
			affine = append(affine, p.UID)
		}
		if !p.Described() {
			undescribed++
		}
	}
	if !info.Requested.Equal(requested) || !info.NonZeroRequested.Equal(nonZero) || info.PodCount() != len(on) {
		t.Fatalf("sums %v and %v of %d pods, want %v and %v of %d",
			info.Requested, info.NonZeroRequested, info.PodCount(), requested, nonZero, len(on))
	}
	var uids, gotAnti, gotAffine []string
	newest := func(p *state.Pod) string {
		if on[p.UID] != p {
			t.Fatalf("pod %s is a version that was replaced", p.UID)
		}
		return p.UID
	}
	for p := range info.Pods() {
		uids = append(uids, newest(p))
	}
	for p := range info.AntiAffinityPods() {
		gotAnti = append(gotAnti, newest(p))
	}
	for p := range info.AffinityPods() {
		gotAffine = append(gotAffine, newest(p))
	}
	slices.Sort(affine)
	if !slices.Equal(gotAffine, affine) || info.UndescribedPods() != undescribed {
		t.Fatalf("with terms %v, want %v; %d not described, want %d", gotAffine, affine, info.UndescribedPods(), undescribed)
	}
	slices.Sort(anti)
	if !slices.IsSorted(uids) || !slices.Equal(gotAnti, anti) {
		t.Fatalf("pods %v, with anti-affinity %v, want sorted, and %v", uids, gotAnti, anti)
	}
	for _, want := range []state.HostPort{{"0.0.0.0", "TCP", 80}, {"10.0.0.1", "TCP", 80}, {"10.0.0.2", "UDP", 80}} {
		conflict := false
		for _, p := range on {
			conflict = conflict || slices.ContainsFunc(p.Ports, want.Conflicts)
		}
		if info.PortConflict([]state.HostPort{want}) != conflict {
			t.Fatalf("%v conflicts %v, want %v", want, !conflict, conflict)
		}
	}
}

func TestImages(t *testing.T) {
	obj := statetest.Node("n")
	obj.Status.Images = []corev1.ContainerImage{
		{Names: []string{"a:1", "a@sha256:0"}, SizeBytes: 10}, {Names: []string{"a:1", "b:1", "b:1"}, SizeBytes: 20},
	}
	want := map[string]int64{"a:1": 10, "a@sha256:0": 10, "b:1": 20}
	images := state.NewNode(obj).Images
	if diff := cmp.Diff(want, maps.Collect(images.All())); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
