package ledger

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func reservation(uid string, s State, token Token) Entry {
	return Entry{PodUID: uid, Role: RoleReservation, State: s, PodRV: 100, Token: token}
}

func docOf(entries ...Entry) NodeDoc {
	return NodeDoc{NodeUID: "n1", NodeName: "node-1", HW: map[string]uint64{KindPod: 50}, Entries: entries, Revision: 7}
}

// frozen runs step and requires that it left its input unchanged.
func frozen(t *testing.T, d NodeDoc, step func(NodeDoc) (NodeDoc, error)) (NodeDoc, error) {
	t.Helper()
	before := d.copy()
	out, err := step(d)
	if diff := cmp.Diff(before, d); diff != "" {
		t.Errorf("the step changed its input:\n%s", diff)
	}
	return out, err
}

func TestPlace(t *testing.T) {
	d := docOf(reservation("old", Committed, 1))
	out, err := frozen(t, d, func(d NodeDoc) (NodeDoc, error) {
		return Place(d, reservation("a", Committed, 2), reservation("b", Held, 3))
	})
	if err != nil || len(out.Entries) != 3 || out.Revision != 7 {
		t.Fatalf("%+v, %v", out, err)
	}
	if v := CheckSuccessor(d, at(out, d.Revision+1)); len(v) > 0 {
		t.Error(v)
	}
	for want, e := range map[string]Entry{
		"already holds":                 reservation("old", Committed, 9),
		"from none to Fencing":          reservation("x", Fencing, 9),
		"without token":                 reservation("x", Committed, 0),
		"without the pod's resource":    {PodUID: "x", Role: RoleReservation, State: Committed, Token: 9},
		"without pod UID":               reservation("", Committed, 9),
		"unknown role":                  {PodUID: "x"},
		"request of -1 cpu is negative": {PodUID: "x", Role: RoleVictim, Requests: map[string]int64{"cpu": -1}},
	} {
		if _, err := Place(d, e); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("place %+v: %v, want an error that says %q", e, err, want)
		}
	}
	if _, err := Place(d, Entry{PodUID: "old", Role: RoleVictim, Plan: "p"}); err != nil {
		t.Errorf("a claim on a reserved pod: %v", err)
	}
}

// oneFact is a view that shows the same for every pod.
type oneFact struct {
	boundRV      uint64
	bound, known bool
	progress     uint64
}

func (f oneFact) PodFact(string) (uint64, bool, bool) { return f.boundRV, f.bound, f.known }
func (f oneFact) PodProgress() uint64                 { return f.progress }

func TestFinish(t *testing.T) {
	for _, c := range []struct {
		name   string
		fact   oneFact
		wantHW uint64 // 0: the entry stays
	}{
		{"bound", oneFact{boundRV: 120, bound: true, known: true, progress: 110}, 120},
		{"pending", oneFact{known: true, progress: 500}, 0},
		{"deleted", oneFact{progress: 300}, 300},
		{"deleted at the very revision", oneFact{progress: 100}, 100},
		{"not arrived yet", oneFact{progress: 99}, 0},
		{"progress undefined", oneFact{boundRV: 120, bound: true, known: true}, 0},
	} {
		d := docOf(reservation("p", Committed, 1))
		var changed bool
		out, _ := frozen(t, d, func(d NodeDoc) (NodeDoc, error) {
			var out NodeDoc
			out, changed = Finish(d, c.fact)
			return out, nil
		})
		switch {
		case changed != (c.wantHW != 0):
			t.Errorf("%s: changed %v", c.name, changed)
		case changed && (len(out.Entries) != 0 || out.HW[KindPod] != c.wantHW):
			t.Errorf("%s: %+v, want no entry and high-water %d", c.name, out, c.wantHW)
		}
		if v := CheckSuccessor(d, at(out, d.Revision+1)); len(v) > 0 {
			t.Errorf("%s: %v", c.name, v)
		}
	}
	high := docOf(reservation("p", Committed, 1), Entry{PodUID: "v", Role: RoleVictim})
	high.HW[KindPod] = 1000
	out, changed := Finish(high, oneFact{boundRV: 120, bound: true, known: true, progress: 130})
	if !changed || out.HW[KindPod] != 1000 || len(out.Entries) != 1 {
		t.Errorf("%+v, want the claim left and the high-water where it was", out)
	}
}

func TestFenceSteps(t *testing.T) {
	type step = func(NodeDoc) (NodeDoc, error)
	mark := func(token Token) step {
		return func(d NodeDoc) (NodeDoc, error) { return MarkFencing(d, "p", token, FenceByPod) }
	}
	release := func(token Token, rv uint64) step {
		return func(d NodeDoc) (NodeDoc, error) { return ReleaseFenced(d, "p", token, rv) }
	}
	want := func(token Token) step {
		return func(d NodeDoc) (NodeDoc, error) {
			out, _, err := MarkWanted(d, "p", token)
			return out, err
		}
	}
	for _, c := range []struct {
		name  string
		state State
		step  step
		legal bool
	}{
		{"mark committed", Committed, mark(1), true},
		{"mark held", Held, mark(1), false},
		{"mark fencing", Fencing, mark(1), false},
		{"mark another token", Committed, mark(2), false},
		{"release fencing", Fencing, release(1, 101), true},
		{"release committed", Committed, release(1, 101), false},
		{"release held", Held, release(1, 101), false},
		{"release another token", Fencing, release(2, 101), false},
		{"want committed", Committed, want(1), true},
		{"want another token", Committed, want(2), false},
	} {
		d := docOf(reservation("other", Committed, 5), reservation("p", c.state, 1))
		out, err := frozen(t, d, c.step)
		var illegal *TransitionError
		if c.legal != (err == nil) || (err != nil && !errors.As(err, &illegal)) {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if v := CheckSuccessor(d, at(out, d.Revision+1)); c.legal && len(v) > 0 {
			t.Errorf("%s: %v", c.name, v)
		}
		if _, ok := out.Find("other"); c.legal && !ok {
			t.Errorf("%s: took another pod's entry along", c.name)
		}
	}
	if _, err := ReleaseFenced(docOf(reservation("p", Fencing, 1)), "p", 1, 100); err == nil {
		t.Error("released although the fence did not move the pod")
	}
	wanted := docOf(Entry{PodUID: "p", Role: RoleReservation, Token: 1, Wanted: true})
	if _, changed, err := MarkWanted(wanted, "p", 1); changed || err != nil {
		t.Errorf("marked twice: changed %v, %v", changed, err)
	}
}

func TestCheckSuccessorFinds(t *testing.T) {
	committed := docOf(reservation("p", Committed, 1))
	born := reservation("q", Fencing, 3)
	with := func(change func(*NodeDoc)) NodeDoc {
		d := committed.copy()
		d.Revision++
		change(&d)
		return d
	}
	for name, c := range map[string]struct {
		after NodeDoc
		want  string
	}{
		"a lowered high-water":    {with(func(d *NodeDoc) { d.HW[KindPod] = 49 }), "S12"},
		"an older revision":       {with(func(d *NodeDoc) { d.Revision = 7 }), "S12"},
		"another node":            {with(func(d *NodeDoc) { d.NodeUID = "n2" }), "S12"},
		"a silent departure":      {with(func(d *NodeDoc) { d.Entries = nil }), "S4"},
		"a step back":             {with(func(d *NodeDoc) { d.Entries[0].State = Held }), "S4"},
		"a grown request":         {with(func(d *NodeDoc) { d.Entries[0].Requests = map[string]int64{"cpu": 1} }), "S4"},
		"a refreshed revision":    {with(func(d *NodeDoc) { d.Entries[0].PodRV++ }), "S4"},
		"an exchanged token":      {with(func(d *NodeDoc) { d.Entries[0].Token = 2 }), "S4"},
		"a birth in Fencing":      {with(func(d *NodeDoc) { d.Entries = append(d.Entries, born) }), "S4"},
		"a departure by the rule": {with(func(d *NodeDoc) { d.Entries, d.HW[KindPod] = nil, 100 }), ""},
		"the next state":          {with(func(d *NodeDoc) { d.Entries[0].State = Fencing }), ""},
		"a mark":                  {with(func(d *NodeDoc) { d.Entries[0].Wanted = true }), ""},
	} {
		var got []string
		for _, v := range CheckSuccessor(committed, c.after) {
			got = append(got, v.Invariant)
		}
		if want := strings.Fields(c.want); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
	held := docOf(reservation("p", Held, 1))
	if v := CheckSuccessor(held, docOf()); len(v) > 0 && v[0].Invariant == "S4" {
		t.Errorf("a held reservation may not go: %v", v)
	}
}

func TestCheckDocFinds(t *testing.T) {
	twice := docOf(reservation("p", Committed, 1), reservation("p", Fencing, 2))
	if v := CheckDoc(twice); len(v) != 1 || v[0].Invariant != "S3" {
		t.Errorf("two live reservations: %v, want S3", v)
	}
	if v := CheckDoc(docOf(reservation("p", Committed, 1), reservation("p", Held, 2))); len(v) != 0 {
		t.Errorf("one live, one held: %v", v)
	}
	if v := CheckDoc(full()); len(v) != 0 {
		t.Errorf("a sound document: %v", v)
	}
	if v := CheckDoc(NodeDoc{Entries: make([]Entry, MaxEntries+1)}); len(v) == 0 || v[0].Error() == "" {
		t.Error("an oversized document without UID is sound")
	}
}

func TestPlaceBatchRefusesContradictions(t *testing.T) {
	d := docOf(reservation("p", Committed, 1))
	p := d.Entries[0].Partition()
	good := PlaceBatch{Epochs: map[int32]int64{p: 3}, Docs: []NodeDoc{d}, Placed: []Token{1}}
	if _, err := good.Txn(); err != nil {
		t.Fatal(err)
	}
	other := (p + 1) % Partitions
	for want, b := range map[string]PlaceBatch{
		"places nothing":                 {Epochs: good.Epochs, Docs: good.Docs},
		"whose epoch is not given":       {Epochs: map[int32]int64{other: 3}, Docs: good.Docs, Placed: good.Placed},
		"only 0 of them are":             {Epochs: good.Epochs, Docs: good.Docs, Placed: []Token{2}},
		"want a revision above 0":        {Epochs: map[int32]int64{p: 0}, Docs: good.Docs, Placed: good.Placed},
		"key n/n1 is written twice":      {Epochs: good.Epochs, Docs: []NodeDoc{d, docOf()}, Placed: good.Placed},
		"document of node \"\" has no n": {Epochs: good.Epochs, Docs: []NodeDoc{d, {}}, Placed: good.Placed},
	} {
		if _, err := b.Txn(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want an error that says %q", b, err, want)
		}
	}
}

func TestPartitionTransactionsRefuse(t *testing.T) {
	for _, err := range []error{
		second(TakePartition(Partitions, Owner{Member: "m"}, 1)), second(TakePartition(-1, Owner{Member: "m"}, 1)),
		second(TakePartition(1, Owner{}, 1)), second(TakePartition(1, Owner{Member: "m"}, 0)),
		second(ReleasePartition(Partitions, 1)), second(ReleasePartition(1, 0)),
	} {
		if err == nil {
			t.Error("a malformed partition transaction was built")
		}
	}
}

func second(_ Txn, err error) error { return err }
