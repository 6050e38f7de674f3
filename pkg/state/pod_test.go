package state_test

import (
	"bytes"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/protobuf/encoding/protowire"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	podresource "k8s.io/component-helpers/resource"
	"pgregory.net/rapid"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/pkg/state/resources"
	"github.com/berth-scheduler/berth/pkg/state/statetest"
)

// drawObject draws a pod from so few values that templates and forms coincide, with content in everything that a
// pod stores separately.
func drawObject(t *rapid.T, name string) *corev1.Pod {
	d := objectDraw{t, name}
	obj := statetest.Pod(d.word("namespace"), name, "cpu", d.of("cpu", "1", "100m", "0.1", "1e3"))
	obj.UID = types.UID("uid-" + d.word("uid"))
	obj.GenerateName = d.word("generate name")
	obj.Generation = d.number("generation")
	obj.ResourceVersion = d.of("version", "", "7", "007", "18446744073709551615", "text")
	obj.CreationTimestamp = d.time("created")
	if d.yes("deleted") {
		at := d.time("deletion")
		obj.DeletionTimestamp = &at
	}
	if d.yes("graceful") {
		grace := d.number("grace")
		obj.DeletionGracePeriodSeconds = &grace
	}
	obj.Labels, obj.Annotations = d.words("labels"), d.words("annotations")
	if d.yes("owned") {
		obj.OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet", Name: d.word("owner")}}
	}
	obj.Spec.NodeName = d.of("node", "", "a", "b")
	obj.Spec.NodeSelector = d.words("node selector")
	d.status(&obj.Status)
	return obj
}

type objectDraw struct {
	*rapid.T
	name string
}

func (d objectDraw) of(what string, values ...string) string {
	return rapid.SampledFrom(values).Draw(d.T, d.name+" "+what)
}

func (d objectDraw) word(what string) string { return d.of(what, "", "x", "yy") }

func (d objectDraw) words(what string) map[string]string {
	word := rapid.SampledFrom([]string{"", "x", "yy", "zzz"})
	return rapid.MapOfN(word, word, 0, 3).Draw(d.T, d.name+" "+what)
}

func (d objectDraw) yes(what string) bool { return rapid.Bool().Draw(d.T, d.name+" "+what) }

func (d objectDraw) number(what string) int64 {
	return rapid.SampledFrom([]int64{0, 1, -1, 300, 1 << 40, -1 << 63}).Draw(d.T, d.name+" "+what)
}

// time draws whole seconds, the resolution of the wire form.
func (d objectDraw) time(what string) metav1.Time {
	at := rapid.SampledFrom([]int64{-1, 0, 1, 1_700_000_000, 1_700_000_007, 253402300799}).Draw(d.T, d.name+" "+what)
	if at < 0 {
		return metav1.Time{}
	}
	return metav1.NewTime(time.Unix(at, 0))
}

func (d objectDraw) status(s *corev1.PodStatus) {
	s.Phase = corev1.PodPhase(d.of("phase", "", "Running", "Succeeded"))
	s.NominatedNodeName = d.word("nominated")
	if d.yes("started") {
		at := d.time("start")
		s.StartTime = &at
	}
	for i := range rapid.IntRange(0, 2).Draw(d.T, d.name+" conditions") {
		s.Conditions = append(s.Conditions, corev1.PodCondition{
			Type: corev1.PodConditionType(d.word("condition")), Status: corev1.ConditionTrue,
			LastProbeTime: d.time(fmt.Sprint("probe ", i)), LastTransitionTime: d.time(fmt.Sprint("transition ", i)),
		})
	}
	for _, list := range []*[]corev1.ContainerStatus{
		&s.ContainerStatuses, &s.InitContainerStatuses, &s.EphemeralContainerStatuses,
	} {
		for range rapid.IntRange(0, 2).Draw(d.T, d.name+" containers") {
			*list = append(*list, corev1.ContainerStatus{
				Name: "main", RestartCount: int32(rapid.IntRange(0, 1).Draw(d.T, d.name+" restarts")),
				State: d.state("state"), LastTerminationState: d.state("last state"),
			})
		}
	}
}

func (d objectDraw) state(what string) corev1.ContainerState {
	switch rapid.IntRange(0, 3).Draw(d.T, d.name+" "+what) {
	case 0:
		return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: d.word("reason")}}
	case 1:
		return corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: d.time(what + " started")}}
	case 2:
		return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
			ExitCode: 1, StartedAt: d.time(what + " started"), FinishedAt: d.time(what + " finished"),
		}}
	default:
		return corev1.ContainerState{}
	}
}

// decoded returns the object as its protobuf has it.
func decoded(t rapid.TB, obj *corev1.Pod) *corev1.Pod {
	t.Helper()
	data, err := obj.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	again := &corev1.Pod{}
	if err := again.Unmarshal(data); err != nil {
		t.Fatal(err)
	}
	return again
}

// TestPodIsItsObject: whatever a pod shares with others, its object is returned unchanged, and so is everything
// that can be read without it.
func TestPodIsItsObject(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var pods []*state.Pod
		var want []*corev1.Pod
		for i := range 4 {
			obj := drawObject(t, fmt.Sprint("pod-", i))
			pods, want = append(pods, state.NewPod(obj)), append(want, decoded(t, obj))
		}
		for i, pod := range pods {
			if diff := cmp.Diff(want[i], pod.Object(), cmpopts.EquateEmpty()); diff != "" {
				t.Fatalf("object (-want +got):\n%s", diff)
			}
			checkParts(t, pod, want[i])
			for j, other := range pods {
				if same := sameTemplate(want[i], want[j]); (pod.Template == other.Template) != same {
					t.Fatalf("templates of\n%v\n%v\nare one: %v", want[i], want[j], !same)
				}
			}
		}
	})
}

func checkParts(t *rapid.T, pod *state.Pod, want *corev1.Pod) {
	if created := pod.Created(); !created.Equal(&want.CreationTimestamp) || pod.Generation() != want.Generation {
		t.Fatalf("created %v generation %d, want %v and %d",
			created, pod.Generation(), want.CreationTimestamp, want.Generation)
	}
	if !maps.Equal(pod.Annotations(), want.Annotations) || pod.Annotation("x") != want.Annotations["x"] {
		t.Fatalf("annotations %v, want %v", pod.Annotations(), want.Annotations)
	}
	if s := pod.Status(); s.Phase != want.Status.Phase || s.NominatedNodeName != want.Status.NominatedNodeName ||
		len(s.Conditions) != len(want.Status.Conditions) {
		t.Fatalf("status %v, want %v", s, want.Status)
	}
	requests := podresource.PodRequests(want, podresource.PodResourcesOptions{
		UseStatusResources: true, InPlacePodLevelResourcesVerticalScalingEnabled: true,
		UseDRANodeAllocatableResourceClaimStatus: true,
	})
	amounts := resources.NewResources(requests)
	amounts.Pods = 1
	if !pod.Requests.Equal(amounts) {
		t.Fatalf("requests %v, want %v", pod.Requests, amounts)
	}
}

// sameTemplate compares what Template is documented to hold.
func sameTemplate(a, b *corev1.Pod) bool {
	part := func(p *corev1.Pod) *corev1.Pod {
		t := &corev1.Pod{Spec: p.Spec}
		t.Namespace, t.GenerateName, t.Labels = p.Namespace, p.GenerateName, p.Labels
		t.OwnerReferences, t.Finalizers = p.OwnerReferences, p.Finalizers
		t.Spec.NodeName = ""
		return t
	}
	return cmp.Equal(part(a), part(b), cmpopts.EquateEmpty())
}

// TestObjectIsTheCallers: changes that one caller makes to the struct, and to the times in it, are not visible to
// others.
func TestObjectIsTheCallers(t *testing.T) {
	obj := statetest.Pod("default", "a")
	at := metav1.NewTime(time.Unix(1_700_000_000, 0))
	obj.Annotations = map[string]string{"a": "1"}
	obj.Status.StartTime = &at
	obj.Status.Conditions = []corev1.PodCondition{{Type: "Ready", LastTransitionTime: at}}
	obj.Status.ContainerStatuses = []corev1.ContainerStatus{{
		State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: at}}}}
	pod := state.NewPod(obj)
	mine, want := pod.Object(), pod.Object()
	mine.Name, mine.Spec.NodeName, mine.Annotations["a"] = "b", "n", "2"
	mine.Status.StartTime.Time = time.Time{}
	mine.Status.Conditions[0].LastTransitionTime = metav1.Time{}
	mine.Status.ContainerStatuses[0].State.Running.StartedAt = metav1.Time{}
	if diff := cmp.Diff(want, pod.Object()); diff != "" {
		t.Errorf("(-before +after):\n%s", diff)
	}
}

// TestPodInAnotherForm: facts whose bytes are not as Kubernetes writes them are read correctly: with fields in
// another order, without the empty ones, or with unknown ones.
func TestPodInAnotherForm(t *testing.T) {
	obj := statetest.Pod("default", "a", "cpu", "1")
	obj.Spec.NodeName = "n"
	obj.Status.Conditions = []corev1.PodCondition{{Type: "Ready", LastTransitionTime: metav1.NewTime(time.Unix(7, 0))}}
	metadata, spec := marshal(t, &obj.ObjectMeta), marshal(t, &obj.Spec)
	condition := appendField(nil, 4, []byte{8, 7}) // lastTransitionTime, without its nanos
	condition = appendField(condition, 1, []byte("Ready"))
	status := appendField(nil, 2, condition)
	data := appendField(nil, 3, status)
	data = appendField(data, 2, spec)
	data = appendField(data, 1, metadata)
	data = appendField(data, 99, []byte("from a later version"))
	facts := []events.SequencedFact{{Sequence: 1, Fact: events.Fact{
		Kind: events.KindPod, Op: events.OpUpsert, UID: "uid-a", ResourceVersion: 1, Object: data,
	}}}
	store := state.New()
	if _, err := store.Apply(facts); err != nil {
		t.Fatal(err)
	}
	pod, ok := store.Snapshot().Pod("uid-a")
	if !ok {
		t.Fatal("the pod is not there")
	}
	if diff := cmp.Diff(decoded(t, obj), pod.Object(), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if pod.Template != state.NewPod(obj).Template {
		t.Error("its template is another one")
	}
}

func marshal(t *testing.T, m interface{ Marshal() ([]byte, error) }) []byte {
	t.Helper()
	data, err := m.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func appendField(b []byte, n protowire.Number, content []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, n, protowire.BytesType), content)
}

// TestAddressesAreNotKept: not even those of facts that were not stripped.
func TestAddressesAreNotKept(t *testing.T) {
	obj := statetest.Pod("default", "a")
	plain := state.NewPod(obj)
	obj.Status.PodIP, obj.Status.HostIP = "10.0.0.1", "10.1.0.1"
	obj.Status.PodIPs, obj.Status.HostIPs = []corev1.PodIP{{IP: "10.0.0.1"}}, []corev1.HostIP{{IP: "10.1.0.1"}}
	if diff := cmp.Diff(plain.Object(), state.NewPod(obj).Object()); diff != "" {
		t.Errorf("(-without +with addresses):\n%s", diff)
	}
}

// TestManyPods: a store with many pages gives the same answers as an exhaustive search.
func TestManyPods(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var h statetest.History
		store := state.New()
		want := map[string]string{} // name by UID
		const universe = 700
		for range rapid.IntRange(1, 6).Draw(t, "batches") {
			for range rapid.IntRange(1, 400).Draw(t, "facts") {
				i := rapid.IntRange(0, universe).Draw(t, "pod")
				name := fmt.Sprint("pod-", i)
				if rapid.IntRange(0, 9).Draw(t, "op") < 4 {
					h.Delete(events.KindPod, "uid-"+name)
					delete(want, "uid-"+name)
					continue
				}
				h.Upsert(events.KindPod, statetest.Pod(fmt.Sprint("ns-", i%7), name))
				want["uid-"+name] = name
			}
			apply(t, store, h.Facts)
		}
		var keys []string
		for p := range store.Snapshot().Pods() {
			if want[p.UID] != p.Name {
				t.Fatalf("pod %s is there, want %q", p.Key(), want[p.UID])
			}
			keys = append(keys, p.Namespace+"\x00"+p.Name)
		}
		if len(keys) != len(want) || !slices.IsSorted(keys) {
			t.Fatalf("%d pods, want %d, sorted", len(keys), len(want))
		}
		for i := range universe {
			name := fmt.Sprint("pod-", i)
			_, byUID := store.Snapshot().Pod("uid-" + name)
			_, byName := store.Snapshot().PodByName(fmt.Sprint("ns-", i%7), name)
			if wanted := want["uid-"+name] != ""; byUID != wanted || byName != wanted {
				t.Fatalf("%s found by UID %v, by name %v, want %v", name, byUID, byName, wanted)
			}
		}
	})
}

// TestNodeIsItsObject: whatever a node shares with others, a store returns it unchanged, including images and
// times.
func TestNodeIsItsObject(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var h statetest.History
		images := rapid.SliceOfN(rapid.SampledFrom([]corev1.ContainerImage{
			{Names: []string{"a:1", "a@sha256:0"}, SizeBytes: 10}, {Names: []string{"b:1"}, SizeBytes: 20},
			{Names: []string{"a:1"}, SizeBytes: 30}, {Names: []string{}, SizeBytes: 40},
		}), 0, 3)
		var want []*corev1.Node
		for i := range 3 {
			d := objectDraw{t, fmt.Sprint("node-", i)}
			obj := statetest.Node(d.name, "cpu", d.of("cpu", "1", "8"), "example.com/gpu", d.of("gpu", "0", "2"))
			obj.Status.Images = images.Draw(t, d.name+" images")
			obj.Status.Conditions = []corev1.NodeCondition{{
				Type: "Ready", LastTransitionTime: d.time("ready"), LastHeartbeatTime: d.time("heartbeat"),
			}}
			h.Upsert(events.KindNode, obj)
			want = append(want, obj)
		}
		running := state.New()
		apply(t, running, h.Facts)
		data, _, err := running.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		restored, err := state.Restore(data)
		if err != nil {
			t.Fatal(err)
		}
		equal(t, restored, running)
		for _, obj := range want {
			node, ok := restored.Snapshot().NodeByName(obj.Name)
			if !ok {
				t.Fatalf("%s is gone", obj.Name)
			}
			checkNode(t, node, obj)
		}
	})
}

func checkNode(t *rapid.T, node *state.Node, want *corev1.Node) {
	sizes := map[string]int64{}
	for _, image := range want.Status.Images {
		for _, name := range image.Names {
			if _, ok := sizes[name]; !ok {
				sizes[name] = image.SizeBytes
			}
		}
	}
	for name, bytes := range sizes {
		if got, ok := node.Images.Bytes(name); !ok || got != bytes {
			t.Fatalf("image %s has %d %v, want %d", name, got, ok, bytes)
		}
	}
	if _, ok := node.Images.Bytes("z"); ok || !maps.Equal(maps.Collect(node.Images.All()), sizes) {
		t.Fatalf("images %v, want %v", maps.Collect(node.Images.All()), sizes)
	}
	if !node.Allocatable.Equal(resources.NewResources(want.Status.Allocatable)) {
		t.Fatalf("allocatable %v, want %v", node.Allocatable, want.Status.Allocatable)
	}
	obj := want.DeepCopy()
	obj.Status.Images = nil
	if diff := cmp.Diff(obj, node.Object, cmpopts.EquateEmpty()); diff != "" {
		t.Fatalf("object (-want +got):\n%s", diff)
	}
}

// TestStoresShare: stores that are filled at the same time share templates, kinds and images, while others are
// created and dropped. It finds races under -race.
func TestStoresShare(t *testing.T) {
	const stores, pods = 4, 500
	var batches [][]events.SequencedFact
	fleet{pods: pods, perTemplate: 5}.each(func(f []events.SequencedFact) { batches = append(batches, f) })
	filled := make([]*state.Store, stores)
	var group sync.WaitGroup
	for i := range stores {
		group.Go(func() {
			for range 2 {
				filled[i] = state.New()
				for _, batch := range batches {
					if _, err := filled[i].Apply(batch); err != nil {
						t.Error(err)
					}
				}
			}
			runtime.GC()
		})
	}
	group.Wait()
	for pod := range filled[0].Snapshot().Pods() {
		for _, other := range filled[1:] {
			twin, ok := other.Snapshot().Pod(pod.UID)
			if !ok || twin.Kind != pod.Kind || twin.Template != pod.Template || twin.Status() != pod.Status() {
				t.Fatalf("%s: %+v and %+v share nothing", pod.Key(), pod, twin)
			}
		}
	}
}

// TestForgets: an unreferenced store is released together with everything that only it needed.
func TestForgets(t *testing.T) {
	const pods, collections = 2_000, 100
	before := heap()
	store := state.New()
	fleet{pods: pods, perTemplate: 1}.each(func(f []events.SequencedFact) { apply(t, store, f) })
	full := heap() - before
	runtime.KeepAlive(store)
	store = nil
	var left int64
	for range collections {
		left = int64(heap()) - int64(before)
		if left < int64(full)/10 {
			return
		}
		runtime.Gosched()
	}
	t.Errorf("%d of %d bytes are still there", left, full)
}

// TestPodsAreSmall guards the memory that pods of Deployments take. Without sharing a pod takes 15 kB; with it some
// 650 bytes, of which the Pod is 256 and its UID, name, times and annotations 130. The bound leaves room for
// another version of Go or Kubernetes.
func TestPodsAreSmall(t *testing.T) {
	const pods, bound = 10_000, 1000
	store := state.New()
	before := heap()
	fleet{pods: pods, perTemplate: 50}.each(func(f []events.SequencedFact) { apply(t, store, f) })
	kept := (int64(heap()) - int64(before)) / pods
	runtime.KeepAlive(store)
	if kept > bound {
		t.Errorf("%d bytes per pod, want at most %d", kept, bound)
	}
	t.Logf("%d bytes per pod", kept)
}

// FuzzPodFact: whatever bytes a fact has, a store reads them as Kubernetes does, or refuses them as Kubernetes
// does.
func FuzzPodFact(f *testing.F) {
	fleet{pods: 2, perTemplate: 1}.each(func(facts []events.SequencedFact) {
		for _, fact := range facts {
			f.Add(fact.Object)
		}
	})
	f.Fuzz(func(t *testing.T, data []byte) {
		want := &corev1.Pod{}
		readable := want.Unmarshal(data)
		uid := string(want.UID)
		if uid == "" {
			return
		}
		store := state.New()
		_, err := store.Apply([]events.SequencedFact{{Sequence: 1, Fact: events.Fact{
			Kind: events.KindPod, Op: events.OpUpsert, UID: uid, ResourceVersion: 1, Object: data,
		}}})
		if (err == nil) != (readable == nil) {
			t.Fatalf("error %v, Kubernetes says %v", err, readable)
		}
		if err != nil {
			return
		}
		pod, _ := store.Snapshot().Pod(uid)
		want.Status.HostIP, want.Status.HostIPs, want.Status.PodIP, want.Status.PodIPs = "", nil, "", nil
		got, wantBytes := marshal(t, pod.Object()), marshal(t, want)
		if !bytes.Equal(got, wantBytes) {
			t.Fatalf("object (-want +got):\n%s", cmp.Diff(want, pod.Object(), cmpopts.EquateEmpty()))
		}
	})
}
