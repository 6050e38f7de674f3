package state_test

import (
	"bytes"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/events/eventlog"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/pkg/state/statetest"
)

// historySteps bounds random histories: long enough for names to be reused and epochs to be repaired several times.
const historySteps = 60

// TestStoreAgreesWithTwin: whatever the history, and however it is cut into batches and redelivered, the store has
// the content of a map of the last facts, and old snapshots do not change.
func TestStoreAgreesWithTwin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		history := statetest.Draw(t, historySteps)
		store, twin := state.New(), statetest.Twin{}
		twin.Barrier = rapid.Uint64Range(0, historySteps).Draw(t, "barrier")
		store.SetBarrier(twin.Barrier)
		old, oldText := store.Snapshot(), store.Describe()
		for rest := history.Facts; len(rest) > 0; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "batch")
			done := len(history.Facts) - len(rest)
			from := rapid.IntRange(0, done).Draw(t, "redelivered from")
			if _, err := store.Apply(history.Facts[from : done+n]); err != nil {
				t.Fatal(err)
			}
			for _, f := range rest[:n] {
				twin.Apply(f)
			}
			if diff := twin.Diff(store.Snapshot()); diff != "" {
				t.Fatal(diff)
			}
			if text := old.Describe(); text != oldText {
				t.Fatalf("an old snapshot changed from\n%s\nto\n%s", oldText, text)
			}
			old, oldText = store.Snapshot(), store.Describe()
			rest = rest[n:]
		}
	})
}

// TestFramesEqualSingleFacts: the same facts in frames give the same content and progress, however the frames are cut
// into batches and redelivered, and also behind a snapshot.
func TestFramesEqualSingleFacts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		facts := statetest.Draw(t, historySteps).Facts
		single, store := state.New(), state.New()
		var done []events.SequencedFact
		for sequence := uint64(1); len(facts) > 0; sequence++ {
			size := rapid.IntRange(1, min(5, len(facts))).Draw(t, "frame")
			apply(t, single, facts[:size])
			for i, f := range facts[:size] {
				done = append(done, events.SequencedFact{Sequence: sequence, Index: i, Fact: f.Fact})
			}
			facts = facts[size:]
			if len(facts) > 0 && rapid.Bool().Draw(t, "with the next frame") {
				continue
			}
			from := rapid.Uint64Range(1, store.Position().Sequence+1).Draw(t, "redelivered from")
			apply(t, store, slices.DeleteFunc(slices.Clone(done),
				func(f events.SequencedFact) bool { return f.Sequence < from }))
			_, content, _ := strings.Cut(store.Describe(), "\n")
			_, want, _ := strings.Cut(single.Describe(), "\n")
			if content != want {
				t.Fatalf("after frame %d (-want +got):\n%s", sequence, cmp.Diff(want, content))
			}
			for k := range events.Kinds() {
				got, ok := store.Position().Progress(k)
				if want, known := single.Position().Progress(k); got != want || ok != known {
					t.Fatalf("after frame %d: progress of %s is %d, %t, want %d, %t", sequence, k, got, ok, want, known)
				}
			}
			if n := store.Snapshot().Applied(); n > uint64(len(done)) || store.Position().Sequence != sequence {
				t.Fatalf("%d facts applied of %d, at %d of %d", n, len(done), store.Position().Sequence, sequence)
			}
			if rapid.Bool().Draw(t, "restored") {
				data, _, err := store.Marshal()
				if err != nil {
					t.Fatal(err)
				}
				if store, err = state.Restore(data); err != nil {
					t.Fatal(err)
				}
			}
		}
		torn := []events.SequencedFact{{Sequence: store.Position().Sequence + 1, Index: 1}}
		torn[0].Op = events.OpEpochEnd
		var gap *eventlog.ErrGap
		if _, err := store.Apply(torn); !errors.As(err, &gap) {
			t.Fatalf("the second fact of a frame without the first: %v, want a gap", err)
		}
	})
}

// TestReplayEqualsRestore (I4): a store restored from a snapshot taken at any position and brought up to date
// equals one that applied all facts.
func TestReplayEqualsRestore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		facts := statetest.Draw(t, historySteps).Facts
		cut := rapid.IntRange(0, len(facts)).Draw(t, "cut")
		running := state.New()
		apply(t, running, facts[:cut])
		data, sequence, err := running.Marshal()
		if err != nil || sequence != uint64(cut) {
			t.Fatalf("marshalled at %d with %v, want %d", sequence, err, cut)
		}
		position, err := state.SnapshotPosition(data)
		if err != nil || position != running.Position() {
			t.Fatalf("snapshot position %v, %v, want %v", position, err, running.Position())
		}
		restored, err := state.Restore(data)
		if err != nil {
			t.Fatal(err)
		}
		equal(t, restored, running)
		apply(t, running, facts[cut:])
		apply(t, restored, facts)
		equal(t, restored, running)
	})
}

func apply(t rapid.TB, s *state.Store, facts []events.SequencedFact) state.Changes {
	t.Helper()
	changes, err := s.Apply(facts)
	if err != nil {
		t.Fatal(err)
	}
	return changes
}

// equal compares positions, descriptions, bytes and every derived value.
func equal(t rapid.TB, got, want *state.Store) {
	t.Helper()
	if got.Position() != want.Position() {
		t.Fatalf("position %v, want %v", got.Position(), want.Position())
	}
	if diff := cmp.Diff(want.Describe(), got.Describe()); diff != "" {
		t.Fatalf("descriptions differ (-want +got):\n%s", diff)
	}
	gotBytes, _, gotErr := got.Marshal()
	wantBytes, _, wantErr := want.Marshal()
	if gotErr != nil || wantErr != nil || !bytes.Equal(gotBytes, wantBytes) {
		t.Fatalf("marshalled bytes differ (%v, %v)", gotErr, wantErr)
	}
	gotPods, wantPods := slices.Collect(got.Snapshot().Pods()), slices.Collect(want.Snapshot().Pods())
	if diff := cmp.Diff(wantPods, gotPods, cmpopts.IgnoreUnexported(state.Pod{})); diff != "" {
		t.Fatalf("pods differ (-want +got):\n%s", diff)
	}
	for i := range wantPods {
		if diff := cmp.Diff(wantPods[i].Object(), gotPods[i].Object()); diff != "" {
			t.Fatalf("objects differ (-want +got):\n%s", diff)
		}
	}
	gotNodes, wantNodes := slices.Collect(got.Snapshot().Nodes()), slices.Collect(want.Snapshot().Nodes())
	sameImages := cmp.Comparer(func(a, b *state.Images) bool { return a == b })
	if diff := cmp.Diff(wantNodes, gotNodes, cmpopts.IgnoreUnexported(state.Node{}), sameImages); diff != "" {
		t.Fatalf("nodes differ (-want +got):\n%s", diff)
	}
}

// TestChangesAreComplete: a reader that follows only the changes knows all pods.
func TestChangesAreComplete(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		facts := statetest.Draw(t, historySteps).Facts
		store := state.New()
		known := map[string]*state.Pod{}
		for len(facts) > 0 {
			n := rapid.IntRange(1, len(facts)).Draw(t, "batch")
			for _, c := range apply(t, store, facts[:n]).Pods {
				follow(t, known, c)
			}
			facts = facts[n:]
		}
		perNamespace := map[string][]*state.Pod{}
		for p := range store.Snapshot().Pods() {
			perNamespace[p.Namespace] = append(perNamespace[p.Namespace], p)
		}
		for _, namespace := range append(slices.Collect(maps.Keys(perNamespace)), "", "nowhere") {
			if got := slices.Collect(store.Snapshot().PodsIn(namespace)); !slices.Equal(got, perNamespace[namespace]) {
				t.Fatalf("namespace %q has %d pods, want %d", namespace, len(got), len(perNamespace[namespace]))
			}
		}
		for p := range store.Snapshot().Pods() {
			if known[p.UID] != p {
				t.Fatalf("the changes do not lead to %s", p.Key())
			}
			delete(known, p.UID)
		}
		if len(known) > 0 {
			t.Fatalf("the changes leave %d pods the store does not have", len(known))
		}
	})
}

// follow applies one change to known.
func follow(t *rapid.T, known map[string]*state.Pod, c state.PodChange) {
	if c.Before != nil && known[c.Before.UID] != c.Before {
		t.Fatalf("a change starts from %v, which was not the last state of that pod", c.Before.Key())
	}
	switch {
	case c.After != nil:
		known[c.After.UID] = c.After
	case c.DeletedRV == 0:
		t.Fatalf("the deletion of %s carries no resourceVersion", c.Before.Key())
	default:
		delete(known, c.Before.UID)
	}
}

func TestApplyRefuses(t *testing.T) {
	var h statetest.History
	h.Upsert(events.KindPod, statetest.Pod("default", "a"))
	h.Upsert(events.KindPod, statetest.Pod("default", "b"))
	h.Upsert(events.KindPod, statetest.Pod("default", "c"))
	tests := map[string]struct {
		change func([]events.SequencedFact) []events.SequencedFact
		want   string
	}{
		"a gap": {
			func(f []events.SequencedFact) []events.SequencedFact { return f[1:] },
			"events: stream FACTS: sequence 2 is no longer kept, the oldest is 3",
		},
		"an epoch that began unseen": {
			func(f []events.SequencedFact) []events.SequencedFact { f[1].Epoch = 7; return f },
			"state: fact 3 is of epoch 7, the store is in epoch 0 and saw no new one begin",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			store := state.New()
			apply(t, store, h.Facts[:1])
			before := store.Describe()
			_, err := store.Apply(test.change(slices.Clone(h.Facts[1:])))
			if err == nil || !strings.HasPrefix(err.Error(), test.want) {
				t.Errorf("error %v, want %s", err, test.want)
			}
			if after := store.Describe(); after != before {
				t.Errorf("the store changed:\n%s", after)
			}
		})
	}
}

// A fact that cannot be read is a hole: the state before it stays, neither it nor any fact after it is applied, and
// no kind has progress.
func TestAFactThatCannotBeReadIsAHole(t *testing.T) {
	var h statetest.History
	for _, name := range []string{"a", "b", "c", "d"} {
		h.Upsert(events.KindPod, statetest.Pod("default", name))
		h.Bookmark(events.KindPod)
	}
	for name, test := range map[string]struct {
		change func(*events.SequencedFact)
		want   string
	}{
		"bytes that are no pod": {
			func(f *events.SequencedFact) { f.Object = []byte{0xff} },
			"state: fact 5: state: pod uid-c: object: unexpected EOF",
		},
		"another object": {
			func(f *events.SequencedFact) { f.Object = h.Facts[0].Object },
			`state: fact 5: state: pod: uid is "uid-c" in the fact and "uid-a" in its object, want equal and not empty`,
		},
		"an unknown op": {func(f *events.SequencedFact) { f.Op = 9 }, "state: fact 5: op 9 is unknown, want 1 to 5"},
		"a record that is no fact": {
			func(f *events.SequencedFact) { f.Fact = events.Fact{Op: events.OpUnreadable, Cause: "poison"} },
			"state: fact 5: poison",
		},
	} {
		facts := slices.Clone(h.Facts)
		test.change(&facts[4])
		for _, batch := range []int{1, len(facts)} {
			store := state.New()
			for some := range slices.Chunk(facts, batch) {
				apply(t, store, some)
			}
			if err := store.Snapshot().Unreadable(); err == nil || !strings.HasPrefix(err.Error(), test.want) {
				t.Errorf("%s: unreadable: %v, want %s", name, err, test.want)
			}
			checkHole(t, name, store.Snapshot())
		}
	}
}

// checkHole checks the state of eight facts that is left if the fifth, about pod c, cannot be read.
func checkHole(t *testing.T, name string, s *state.Snapshot) {
	t.Helper()
	at, hole := s.Position().Hole()
	if _, known := s.Position().Progress(events.KindPod); !hole || at != 5 || known || s.Position().Sequence != 8 {
		t.Errorf("%s: a hole at %d, progress known: %t, at %s", name, at, known, s.Position())
	}
	for pod, want := range map[string]bool{"uid-a": true, "uid-b": true, "uid-c": false, "uid-d": false} {
		if _, there := s.Pod(pod); there != want {
			t.Errorf("%s: %s is there: %t, want %t", name, pod, there, want)
		}
	}
}

// A hole in a frame hides what comes after it in the frame, and keeps what comes before.
func TestAHoleInAFrame(t *testing.T) {
	var h statetest.History
	for _, name := range []string{"a", "b", "c", "d"} {
		h.Upsert(events.KindPod, statetest.Pod("default", name))
	}
	facts := slices.Clone(h.Facts)
	for i := range facts {
		facts[i].Sequence, facts[i].Index = 1, i
	}
	facts[2].Fact = events.Fact{Op: events.OpUnreadable, Cause: "poison"}
	store := state.New()
	apply(t, store, facts)
	at, hole := store.Position().Hole()
	if !hole || at != 1 || store.Position().Sequence != 1 {
		t.Errorf("a hole at %d, at %s", at, store.Position())
	}
	for i, f := range facts {
		if _, there := store.Snapshot().Pod(h.Facts[i].UID); there != (i < 2) {
			t.Errorf("%s is there: %t", f.UID, there)
		}
	}
}

// A later version that runs at the same time publishes kinds that this version does not know: they count as read
// and change nothing except that the state is partial, also after that version has marshalled it.
func TestKindsOfALaterVersionAreLeftOut(t *testing.T) {
	var h statetest.History
	h.Upsert(events.KindPod, statetest.Pod("default", "a"))
	h.Upsert(events.KindPod, statetest.Pod("default", "b"))
	h.Upsert(events.KindPod, statetest.Pod("default", "c"))
	store := state.New()
	apply(t, store, h.Facts[:1])
	if store.Snapshot().Partial() {
		t.Error("partial from the start")
	}
	later := slices.Clone(h.Facts[1:2])
	later[0].Kind, later[0].Object = "gizmo", []byte("whatever")
	if c := apply(t, store, later); len(c.Pods)+len(c.Others) != 0 || c.Position.Sequence != later[0].Sequence {
		t.Errorf("changes %+v, want none but the position", c)
	}
	gone := h.Facts[2]
	gone.Kind, gone.Op, gone.Object = "gizmo", events.OpDelete, nil
	apply(t, store, []events.SequencedFact{gone})
	if !store.Snapshot().Partial() || store.Position().Sequence != gone.Sequence {
		t.Errorf("at %d, partial %t", store.Position().Sequence, store.Snapshot().Partial())
	}

	// What that version would have written: an item, and progress, of the kind.
	data, _, err := store.Snapshot().Marshal()
	if err != nil {
		t.Fatal(err)
	}
	kind := []byte{0x0a, 5, 'g', 'i', 'z', 'm', 'o', 0x10, 1}
	for _, field := range []byte{6, 5} { // an item, and progress
		data = append(append(data, field<<3|2, byte(len(kind))), kind...)
	}
	again, err := state.Restore(data)
	if err != nil {
		t.Fatal(err)
	}
	if !again.Snapshot().Partial() || again.Position().Sequence != gone.Sequence {
		t.Errorf("restored at %d, partial %t", again.Position().Sequence, again.Snapshot().Partial())
	}
	if _, ok := again.Snapshot().Pod("uid-a"); !ok {
		t.Error("the pod is gone")
	}
}

func TestApplyGapIsTyped(t *testing.T) {
	_, err := state.New().Apply([]events.SequencedFact{{Sequence: 5, Fact: events.Fact{Op: events.OpProgress}}})
	var gap *eventlog.ErrGap
	if !errors.As(err, &gap) || gap.Want != 1 || gap.Have != 5 {
		t.Errorf("error %v, want a gap from 1 to 5", err)
	}
}

// TestNamesake: a pod that is created again under its name before its deletion is reported (or without that)
// replaces the old one, and the late deletion does not affect the new one.
func TestNamesake(t *testing.T) {
	var h statetest.History
	first, second := statetest.Pod("default", "web"), statetest.Pod("default", "web")
	first.UID, second.UID = "one", "two"
	first.Spec.NodeName = "node"
	h.Upsert(events.KindPod, first)
	h.Upsert(events.KindPod, second)
	h.Delete(events.KindPod, "one")
	store := state.New()
	changes := apply(t, store, h.Facts)
	if len(changes.Pods) != 3 {
		t.Fatalf("%d changes, want 3: new, gone, new", len(changes.Pods))
	}
	if c := changes.Pods[1]; c.Before.UID != "one" || c.After != nil || c.DeletedRV != 2 {
		t.Errorf("the second change is %+v, want the first pod gone at 2", c)
	}
	pod, ok := store.Snapshot().PodByName("default", "web")
	if !ok || pod.UID != "two" {
		t.Errorf("by name found %v, want the second pod", pod)
	}
	if n := len(slices.Collect(store.Snapshot().PodsOnNode("node"))); n != 0 {
		t.Errorf("%d pods on the node, want none", n)
	}
}

// TestUnchangedIsSilent: a repair repeats known facts; no change is reported again.
func TestUnchangedIsSilent(t *testing.T) {
	var h statetest.History
	h.Upsert(events.KindNode, statetest.Node("a", "cpu", "4"))
	again := h.Facts[0]
	again.Sequence = 2
	store := state.New()
	apply(t, store, h.Facts)
	if c := apply(t, store, []events.SequencedFact{again}); len(c.Nodes) != 0 || c.Position.Sequence != 2 {
		t.Errorf("changes %+v, want none but the position", c)
	}
}

// TestProgress follows the life of a reader: start, list, repair.
func TestProgress(t *testing.T) {
	var h statetest.History
	store := state.New()
	store.SetBarrier(3)
	step := func(what string, want uint64, wantOK bool) {
		t.Helper()
		apply(t, store, h.Facts)
		if got, ok := store.Position().Progress(events.KindPod); got != want || ok != wantOK {
			t.Errorf("%s: progress %d %v, want %d %v", what, got, ok, want, wantOK)
		}
	}
	h.Upsert(events.KindPod, statetest.Pod("default", "a"))
	step("a list item claims nothing", 0, false)
	h.Bookmark(events.KindPod)
	step("the list is closed, but the barrier is ahead", 0, false)
	h.Upsert(events.KindNode, statetest.Node("n"))
	step("the barrier is reached by another kind's fact", 1, true)
	h.Upsert(events.KindPod, statetest.Pod("default", "b"))
	step("an object's own resourceVersion is no progress", 1, true)
	h.BeginEpoch()
	step("a repair begins", 0, false)
	h.Upsert(events.KindPod, statetest.Pod("default", "b"))
	h.Bookmark(events.KindPod)
	step("inside the repair", 0, false)
	h.EndEpoch()
	step("the repair ended", 4, true)
	h.BeginEpoch()
	h.Upsert(events.KindPod, statetest.Pod("default", "b"))
	h.EndEpoch()
	step("the repair ended without a marker", 0, false)
	h.BeginEpoch()
	h.Bookmark(events.KindPod)
	watched := h.Upsert(events.KindPod, statetest.Pod("default", "c"))
	h.Facts[len(h.Facts)-1].Progress = watched
	h.EndEpoch()
	step("an object was watched behind the kind's marker, inside the repair", watched, true)
	if _, ok := store.Position().Progress(events.KindNode); ok {
		t.Error("a kind without a marker in the repair has progress")
	}
	if _, ok := store.Position().Progress("job"); ok {
		t.Error("an unknown kind has progress")
	}
}

func TestRestoreRefuses(t *testing.T) {
	for name, test := range map[string]struct {
		data []byte
		want string
	}{
		"a later version": {[]byte{0x08, 0x02}, "state: snapshot version 2, want 1 to 1"},
		"no version":      {[]byte{0x10, 0x02}, "state: snapshot without a version"},
		"noise":           {[]byte("noise"), "state: protobuf: "},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := state.Restore(test.data); err == nil || !strings.HasPrefix(err.Error(), test.want) {
				t.Errorf("error %v, want %s", err, test.want)
			}
		})
	}
}

func TestDescribe(t *testing.T) {
	var h statetest.History
	h.Upsert(events.KindNode, statetest.Node("b", "cpu", "2", "memory", "1Gi", "pods", "110", "example.com/gpu", "1"))
	cordoned := statetest.Node("a", "cpu", "1")
	cordoned.Spec.Unschedulable = true
	h.Upsert(events.KindNode, cordoned)
	h.Upsert(events.KindPod, statetest.Pod("team", "waiting", "cpu", "100m"))
	bound := statetest.Pod("default", "bound", "memory", "1Mi")
	bound.Spec.NodeName = "b"
	h.Upsert(events.KindPod, bound)
	h.Bookmark(events.KindPod)
	store := state.New()
	store.SetBarrier(9)
	apply(t, store, h.Facts)
	want := `sequence 5 epoch 0 (behind barrier 9), progress: pod=4
node a uid uid-a rv 2 unschedulable: cpu 1000m
node b uid uid-b rv 1: cpu 2000m, example.com/gpu 1, memory 1073741824, pods 110
pod default/bound uid uid-bound rv 4 on b priority 0: memory 1048576, pods 1
pod team/waiting uid uid-waiting rv 3 pending priority 0: cpu 100m, pods 1
`
	if diff := cmp.Diff(want, store.Describe()); diff != "" {
		t.Errorf("description (-want +got):\n%s", diff)
	}
}

func BenchmarkApply(b *testing.B) {
	const batch = 500
	var h statetest.History
	for i := range 10 * batch {
		pod := statetest.Pod("default", "pod-"+string(rune('a'+i%26))+string(rune('a'+i/26%26))+string(rune('a'+i/676)),
			"cpu", "100m", "memory", "128Mi")
		pod.Spec.NodeName = "node-" + string(rune('a'+i%26))
		h.Upsert(events.KindPod, pod)
	}
	for b.Loop() {
		store := state.New()
		for at := 0; at < len(h.Facts); at += batch {
			if _, err := store.Apply(h.Facts[at : at+batch]); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(h.Facts)), "ns/fact")
}
