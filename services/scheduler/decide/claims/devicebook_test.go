package claims

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/replica"
	_ "github.com/berth-scheduler/berth/pkg/seedtest" // seed of rapid
	"github.com/berth-scheduler/berth/pkg/state"
)

// bookWorld is the input of a book: claims, documents and staged pods.
type bookWorld struct {
	store    *state.Store
	sequence uint64
	tokens   ledger.Token
	docs     map[string]ledger.NodeDoc
	staged   []Staged
}

func drawDevices(t *rapid.T) *resourcev1.AllocationResult {
	return &resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{
		Results: []resourcev1.DeviceRequestAllocationResult{{
			Request: "r", Driver: "d", Pool: "n", Device: fmt.Sprint(rapid.IntRange(0, 4).Draw(t, "device")),
		}},
	}}
}

func drawPicks(t *rapid.T) (picks []ledger.DevicePick) {
	for range rapid.IntRange(0, 2).Draw(t, "picks") {
		name := fmt.Sprintf("c%d", rapid.IntRange(0, 3).Draw(t, "of"))
		pick := ledger.DevicePick{Claim: name, ClaimUID: "uid-" + name}
		switch rapid.IntRange(0, 6).Draw(t, "kind") {
		case 0: // it has its devices already
		case 1:
			pick.Allocation = []byte("no allocation")
		default:
			data, err := drawDevices(t).Marshal()
			if err != nil {
				t.Fatal(err)
			}
			pick.Allocation = data
		}
		if !slices.ContainsFunc(picks, func(p ledger.DevicePick) bool { return p.Claim == pick.Claim }) {
			picks = append(picks, pick)
		}
	}
	return picks
}

// claim changes a claim, or ends it.
func (w *bookWorld) claim(t *rapid.T) []state.ObjectChange {
	name := fmt.Sprintf("c%d", rapid.IntRange(0, 3).Draw(t, "claim"))
	claim := &resourcev1.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "x", Name: name, UID: types.UID("uid-" + name)},
	}
	if rapid.Bool().Draw(t, "has") {
		claim.Status.Allocation = drawDevices(t)
	}
	w.sequence++
	fact := events.Fact{
		Kind: events.KindResourceClaim, Op: events.OpUpsert, UID: string(claim.UID), Namespace: "x", Name: name,
		ResourceVersion: w.sequence, Progress: w.sequence,
	}
	var err error
	if fact.Object, err = claim.Marshal(); err != nil {
		t.Fatal(err)
	}
	if rapid.IntRange(0, 3).Draw(t, "gone") == 0 {
		fact.Op, fact.Object = events.OpDelete, nil
	}
	changes, err := w.store.Apply([]events.SequencedFact{{Sequence: w.sequence, Fact: fact}})
	if err != nil {
		t.Fatal(err)
	}
	return changes.Others
}

// doc writes a new version of a document, with some of its entries unchanged, or deletes it.
func (w *bookWorld) doc(t *rapid.T) replica.DocChange {
	uid := fmt.Sprintf("n%d", rapid.IntRange(0, 1).Draw(t, "node"))
	before := w.docs[uid]
	after := ledger.NodeDoc{NodeUID: uid, NodeName: uid}
	for _, e := range before.Entries {
		if rapid.Bool().Draw(t, "stays") {
			if picks := drawPicks(t); len(picks) > 0 && rapid.IntRange(0, 3).Draw(t, "again") == 0 {
				e.Devices = picks // a hold becomes a reservation
			}
			after.Entries = append(after.Entries, e)
		}
	}
	if picks := drawPicks(t); len(picks) > 0 {
		w.tokens++
		after.Entries = append(after.Entries, ledger.Entry{
			PodUID: fmt.Sprint("pod-", w.tokens), Token: w.tokens, Namespace: "x", Devices: picks,
		})
	}
	if rapid.IntRange(0, 5).Draw(t, "dropped") == 0 {
		delete(w.docs, uid)
		return replica.DocChange{Before: before}
	}
	w.docs[uid] = after
	return replica.DocChange{Before: before, After: after}
}

// stage draws which pods are staged, some of them with other picks than before.
func (w *bookWorld) stage(t *rapid.T) {
	w.staged = slices.DeleteFunc(w.staged, func(Staged) bool { return rapid.Bool().Draw(t, "lands") })
	s := Staged{Pod: &state.Pod{}, Supply: &Supply{}}
	if len(w.staged) > 0 && rapid.Bool().Draw(t, "again") {
		s = w.staged[0]
	} else {
		w.staged = append(w.staged, s)
	}
	s.Supply.Devices = slices.DeleteFunc(drawPicks(t), func(p ledger.DevicePick) bool {
		return string(p.Allocation) == "no allocation" // a shard's own staged picks can always be read
	})
}

// freshBook returns a book that has just read everything.
func (w *bookWorld) freshBook(t *rapid.T, facts *state.Snapshot) *deviceBook {
	b := &deviceBook{}
	b.read(facts, replica.NewView())
	for _, uid := range slices.Sorted(maps.Keys(w.docs)) {
		b.followDoc(replica.DocChange{After: w.docs[uid]}, facts)
	}
	if err := b.stage(w.staged, facts); err != nil {
		t.Fatal(err)
	}
	return b
}

// TestDeviceBookFollows checks that a book that applied every change agrees with one that reads everything from
// scratch.
func TestDeviceBookFollows(t *testing.T) {
	broken := 0
	rapid.Check(t, func(t *rapid.T) {
		w := &bookWorld{store: state.New(), docs: map[string]ledger.NodeDoc{}}
		b := &deviceBook{}
		b.read(w.store.Snapshot(), replica.NewView())
		for step := range rapid.IntRange(1, 30).Draw(t, "steps") {
			switch rapid.IntRange(0, 2).Draw(t, "what") {
			case 0:
				changes := w.claim(t)
				b.followFacts(changes, w.store.Snapshot())
			case 1:
				b.followLedger(replica.Changes{Docs: []replica.DocChange{w.doc(t)}}, w.store.Snapshot())
			case 2:
				w.stage(t)
			}
			facts := w.store.Snapshot()
			if err := b.stage(w.staged, facts); err != nil {
				t.Fatal(err)
			}
			want := w.freshBook(t, facts)
			if diff := cmp.Diff(want.index.String(), b.index.String()); diff != "" {
				t.Fatalf("step %d: anew (-) and followed (+) differ:\n%s", step, diff)
			}
			if diff := cmp.Diff(want.unseen, b.unseen); diff != "" {
				t.Fatalf("step %d: unseen anew (-) and followed (+) differ:\n%s", step, diff)
			}
			if got, want := fmt.Sprint(b.problem()), fmt.Sprint(want.problem()); got != want {
				t.Fatalf("step %d: problem %s, want %s", step, got, want)
			}
			if b.problem() != nil {
				broken++
			}
		}
	})
	if broken == 0 {
		t.Error("no promise that cannot be read was tried")
	}
}
