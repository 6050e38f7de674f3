package state_test

import (
	"bytes"
	"testing"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/pkg/state/statetest"
)

// FuzzRestore: whatever a snapshot of the facts contains, restoring it returns a state or an error, and a complete
// state restores to the same again.
func FuzzRestore(f *testing.F) {
	var h statetest.History
	h.Upsert(events.KindPod, statetest.Pod("default", "a", "cpu", "1"))
	h.Upsert(events.KindNode, statetest.Node("n", "cpu", "4"))
	h.Bookmark(events.KindPod)
	store := state.New()
	if _, err := store.Apply(h.Facts); err != nil {
		f.Fatal(err)
	}
	data, _, err := store.Snapshot().Marshal()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte{0x08, 0x01})
	f.Fuzz(func(t *testing.T, data []byte) {
		store, err := state.Restore(data)
		if err != nil || store.Snapshot().Partial() {
			return
		}
		first, _, err := store.Snapshot().Marshal()
		if err != nil {
			t.Fatal(err)
		}
		again, err := state.Restore(first)
		if err != nil {
			t.Fatalf("marshalled, but cannot be read: %v", err)
		}
		second, _, err := again.Snapshot().Marshal()
		if err != nil || !bytes.Equal(first, second) {
			t.Errorf("another state the second time (%v)", err)
		}
	})
}

// FuzzFacts: whatever bytes the fact of an object has, of any kind, applying it leads to a state or to a hole that
// leaves everything else unchanged.
func FuzzFacts(f *testing.F) {
	var h statetest.History
	h.Upsert(events.KindNode, statetest.Node("n", "cpu", "4"))
	h.Upsert(events.KindPod, statetest.Pod("default", "p", "cpu", "4"))
	for i := range state.Kinds() {
		f.Add(byte(i), h.Facts[0].UID, h.Facts[0].Object)
		f.Add(byte(i), h.Facts[1].UID, h.Facts[1].Object)
	}
	f.Fuzz(func(t *testing.T, kind byte, uid string, object []byte) {
		kinds := state.Kinds()
		store := state.New()
		fact := events.Fact{
			Kind: kinds[int(kind)%len(kinds)], Op: events.OpUpsert, UID: uid, ResourceVersion: 1, Progress: 1, Object: object,
		}
		changes, err := store.Apply([]events.SequencedFact{{Sequence: 1, Fact: fact}})
		if err != nil {
			t.Fatal(err)
		}
		if at, hole := store.Position().Hole(); hole {
			_, known := store.Position().Progress(fact.Kind)
			if at != 1 || known || store.Snapshot().Unreadable() == nil {
				t.Errorf("a hole at %d, progress known: %t, because %v", at, known, store.Snapshot().Unreadable())
			}
			if len(changes.Pods)+len(changes.Nodes)+len(changes.Others) > 0 {
				t.Errorf("a fact that cannot be read has changed something: %+v", changes)
			}
			return
		}
		fact.Op, fact.Object, fact.ResourceVersion = events.OpDelete, nil, 2
		if _, err := store.Apply([]events.SequencedFact{{Sequence: 2, Fact: fact}}); err != nil {
			t.Errorf("applied, but cannot be deleted: %v", err)
		}
	})
}
