package state_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/pkg/state/statetest"
	"github.com/berth-scheduler/berth/pkg/state/strip"
)

// canary is a value that no stripped object contains.
const canary = "canary-4711"

// whole returns a pod as a queue with an extender publishes it: processed by KeepSpec.
func whole(name string) *corev1.Pod {
	pod := statetest.Pod("default", name, "cpu", "1")
	env := []corev1.EnvVar{{Name: "PASSWORD", Value: canary}}
	pod.Spec.Containers[0].Env = env
	pod.Spec.Containers[0].Args = []string{"--password=" + canary}
	pod.Spec.InitContainers = []corev1.Container{{Name: "init", Env: env, Command: []string{"sh", "-c", canary}}}
	pod.Spec.EphemeralContainers = []corev1.EphemeralContainer{{
		EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "debug", Env: env},
	}}
	pod.Annotations = map[string]string{"keep": "me", corev1.LastAppliedConfigAnnotation: canary}
	return pod
}

// A fact about a whole object is stripped as the queue would have stripped it, and a stripped one stays the same,
// byte for byte.
func TestStripFact(t *testing.T) {
	pod := whole("a")
	got, err := state.StripFact(factOf(t, events.KindPod, pod))
	if err != nil {
		t.Fatal(err)
	}
	strip.Strip(pod)
	want := written(t, pod)
	if !bytes.Equal(want, got) || bytes.Contains(got, []byte(canary)) {
		t.Errorf("stripped: %q, want %q", got, want)
	}
	again, err := state.StripFact(factOf(t, events.KindPod, pod))
	if err != nil || !bytes.Equal(want, again) {
		t.Errorf("stripped again: %q and %v, want %q", again, err, want)
	}
}

// StripFact does not pass on a fact that it cannot read.
func TestStripFactRefuses(t *testing.T) {
	for name, f := range map[string]events.Fact{
		"no object of its kind": {Kind: events.KindPod, Op: events.OpUpsert, UID: "u", Object: []byte{0xff}},
		"of another kind":       factOf(t, events.KindNode, whole("a")),
		"of an unknown kind":    factOf(t, "widget", whole("a")),
	} {
		if got, err := state.StripFact(f); err == nil || got != nil {
			t.Errorf("%s: %q and %v, want an error", name, got, err)
		}
	}
}

// A stripped snapshot restores to the state to which the stripped facts lead.
func TestStripSnapshot(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		history := statetest.Draw(t, 20)
		history.Upsert(events.KindPod, whole("a"))
		history.Upsert(events.KindPod, whole("b"))
		stripped := make([]events.SequencedFact, len(history.Facts))
		for i, f := range history.Facts {
			if f.Op == events.OpUpsert {
				object, err := state.StripFact(f.Fact)
				if err != nil {
					t.Fatal(err)
				}
				f.Object = object
			}
			stripped[i] = f
		}
		data := snapshotOf(t, history.Facts)
		got, err := state.StripSnapshot(data)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(snapshotOf(t, stripped), got); diff != "" {
			t.Fatalf("snapshot (-of stripped facts +stripped):\n%s", diff)
		}
		if !bytes.Contains(data, []byte(canary)) || bytes.Contains(got, []byte(canary)) {
			t.Fatal("the canary was not in the snapshot, or still is")
		}
	})
}

// A snapshot that cannot be read completely is refused, and the error names the obstacle.
func TestStripSnapshotRefuses(t *testing.T) {
	good := snapshotOf(t, []events.SequencedFact{{Sequence: 1, Fact: factOf(t, events.KindPod, whole("a"))}})
	for name, c := range map[string]struct {
		data []byte
		want string
	}{
		"no snapshot":     {[]byte("snapshot"), "protobuf"},
		"cut off":         {good[:len(good)-1], "protobuf"},
		"a later version": {append([]byte{8, 99}, good[2:]...), "snapshot version 99, want 1 to 1"},
		"a later kind":    {bytes.Replace(good, []byte("\x03pod"), []byte("\x03pad"), 1), `kind "pad" is unknown`},
	} {
		if got, err := state.StripSnapshot(c.data); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %d bytes and %v, want %q", name, len(got), err, c.want)
		}
	}
	if got, err := state.StripSnapshot(nil); err != nil || got != nil {
		t.Errorf("nothing: %q and %v, want nothing", got, err)
	}
}

func factOf(t statetest.Fataler, kind events.Kind, obj state.APIObject) events.Fact {
	t.Helper()
	return events.Fact{
		Kind: kind, Op: events.OpUpsert, UID: string(obj.GetUID()), Namespace: obj.GetNamespace(), Name: obj.GetName(),
		ResourceVersion: 1, Epoch: 1, Object: written(t, obj),
	}
}

func written(t statetest.Fataler, obj state.APIObject) []byte {
	t.Helper()
	data, err := obj.Marshal()
	if err != nil {
		t.Fatalf("marshal: %v", err)
	}
	return data
}

func snapshotOf(t statetest.Fataler, facts []events.SequencedFact) []byte {
	t.Helper()
	store := state.New()
	if _, err := store.Apply(facts); err != nil {
		t.Fatalf("apply: %v", err)
	}
	data, _, err := store.Marshal()
	if err != nil {
		t.Fatalf("marshal: %v", err)
	}
	return data
}
