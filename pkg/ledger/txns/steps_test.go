package txns

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/invariant"
	"github.com/berth-scheduler/berth/pkg/ledger/roster"
	"github.com/berth-scheduler/berth/pkg/ledger/sampletest"
)

func TestPlace(t *testing.T) {
	d := sampletest.DocOf(sampletest.Reservation("old", ledger.Committed, 1))
	out, err := sampletest.Frozen(t, d, func(d ledger.NodeDoc) (ledger.NodeDoc, error) {
		return Place(d, sampletest.Reservation("a", ledger.Committed, 2), sampletest.Reservation("b", ledger.Held, 3))
	})
	if err != nil || len(out.Entries) != 3 || out.Revision != 7 {
		t.Fatalf("%+v, %v", out, err)
	}
	if v := invariant.CheckSuccessor(d, sampletest.At(out, d.Revision+1)); len(v) > 0 {
		t.Error(v)
	}
	for want, e := range map[string]ledger.Entry{
		"already holds":                 sampletest.Reservation("old", ledger.Committed, 9),
		"from none to Fencing":          sampletest.Reservation("x", ledger.Fencing, 9),
		"without token":                 sampletest.Reservation("x", ledger.Committed, 0),
		"without the pod's resource":    {PodUID: "x", Role: ledger.RoleReservation, State: ledger.Committed, Token: 9},
		"without pod UID":               sampletest.Reservation("", ledger.Committed, 9),
		"unknown role":                  {PodUID: "x"},
		"request of -1 cpu is negative": {PodUID: "x", Role: ledger.RoleVictim, Requests: map[string]int64{"cpu": -1}},
	} {
		if _, err := Place(d, e); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("place %+v: %v, want an error that says %q", e, err, want)
		}
	}
	if _, err := Place(d, ledger.Entry{PodUID: "old", Role: ledger.RoleVictim, Plan: "p"}); err != nil {
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
		d := sampletest.DocOf(sampletest.Reservation("p", ledger.Committed, 1))
		var changed bool
		out, _ := sampletest.Frozen(t, d, func(d ledger.NodeDoc) (ledger.NodeDoc, error) {
			var out ledger.NodeDoc
			out, changed = Finish(d, c.fact)
			return out, nil
		})
		switch {
		case changed != (c.wantHW != 0):
			t.Errorf("%s: changed %v", c.name, changed)
		case changed && (len(out.Entries) != 0 || out.HW[ledger.KindPod] != c.wantHW):
			t.Errorf("%s: %+v, want no entry and high-water %d", c.name, out, c.wantHW)
		}
		if v := invariant.CheckSuccessor(d, sampletest.At(out, d.Revision+1)); len(v) > 0 {
			t.Errorf("%s: %v", c.name, v)
		}
	}
	high := sampletest.DocOf(sampletest.Reservation("p", ledger.Committed, 1),
		ledger.Entry{PodUID: "v", Role: ledger.RoleVictim})
	high.HW[ledger.KindPod] = 1000
	out, changed := Finish(high, oneFact{boundRV: 120, bound: true, known: true, progress: 130})
	if !changed || out.HW[ledger.KindPod] != 1000 || len(out.Entries) != 1 {
		t.Errorf("%+v, want the claim left and the high-water where it was", out)
	}
}

func TestFenceSteps(t *testing.T) {
	type step = func(ledger.NodeDoc) (ledger.NodeDoc, error)
	mark := func(token ledger.Token) step {
		return func(d ledger.NodeDoc) (ledger.NodeDoc, error) { return MarkFencing(d, "p", token, ledger.FenceByPod) }
	}
	release := func(token ledger.Token, rv uint64) step {
		return func(d ledger.NodeDoc) (ledger.NodeDoc, error) { return ReleaseFenced(d, "p", token, rv) }
	}
	want := func(token ledger.Token) step {
		return func(d ledger.NodeDoc) (ledger.NodeDoc, error) {
			out, _, err := MarkWanted(d, "p", token)
			return out, err
		}
	}
	for _, c := range []struct {
		name  string
		state ledger.State
		step  step
		legal bool
	}{
		{"mark committed", ledger.Committed, mark(1), true},
		{"mark held", ledger.Held, mark(1), false},
		{"mark fencing", ledger.Fencing, mark(1), false},
		{"mark another token", ledger.Committed, mark(2), false},
		{"release fencing", ledger.Fencing, release(1, 101), true},
		{"release committed", ledger.Committed, release(1, 101), false},
		{"release held", ledger.Held, release(1, 101), false},
		{"release another token", ledger.Fencing, release(2, 101), false},
		{"want committed", ledger.Committed, want(1), true},
		{"want another token", ledger.Committed, want(2), false},
	} {
		d := sampletest.DocOf(sampletest.Reservation("other", ledger.Committed, 5), sampletest.Reservation("p", c.state, 1))
		out, err := sampletest.Frozen(t, d, c.step)
		var illegal *TransitionError
		if c.legal != (err == nil) || (err != nil && !errors.As(err, &illegal)) {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if v := invariant.CheckSuccessor(d, sampletest.At(out, d.Revision+1)); c.legal && len(v) > 0 {
			t.Errorf("%s: %v", c.name, v)
		}
		if _, ok := out.Find("other"); c.legal && !ok {
			t.Errorf("%s: took another pod's entry along", c.name)
		}
	}
	if _, err := ReleaseFenced(sampletest.DocOf(sampletest.Reservation("p", ledger.Fencing, 1)), "p", 1, 100); err == nil {
		t.Error("released although the fence did not move the pod")
	}
	wanted := sampletest.DocOf(ledger.Entry{PodUID: "p", Role: ledger.RoleReservation, Token: 1, Wanted: true})
	if _, changed, err := MarkWanted(wanted, "p", 1); changed || err != nil {
		t.Errorf("marked twice: changed %v, %v", changed, err)
	}
}

func TestCheckSuccessorFinds(t *testing.T) {
	committed := sampletest.DocOf(sampletest.Reservation("p", ledger.Committed, 1))
	born := sampletest.Reservation("q", ledger.Fencing, 3)
	with := func(change func(*ledger.NodeDoc)) ledger.NodeDoc {
		d := committed.Clone()
		d.Revision++
		change(&d)
		return d
	}
	for name, c := range map[string]struct {
		after ledger.NodeDoc
		want  string
	}{
		"a lowered high-water": {with(func(d *ledger.NodeDoc) { d.HW[ledger.KindPod] = 49 }), "S12"},
		"an older revision":    {with(func(d *ledger.NodeDoc) { d.Revision = 7 }), "S12"},
		"another node":         {with(func(d *ledger.NodeDoc) { d.NodeUID = "n2" }), "S12"},
		"a silent departure":   {with(func(d *ledger.NodeDoc) { d.Entries = nil }), "S4"},
		"a step back":          {with(func(d *ledger.NodeDoc) { d.Entries[0].State = ledger.Held }), "S4"},
		"a grown request": {with(func(d *ledger.NodeDoc) { d.Entries[0].Requests = map[string]int64{"cpu": 1} }),
			"S4"},
		"a refreshed revision":    {with(func(d *ledger.NodeDoc) { d.Entries[0].PodRV++ }), "S4"},
		"an exchanged token":      {with(func(d *ledger.NodeDoc) { d.Entries[0].Token = 2 }), "S4"},
		"a birth in Fencing":      {with(func(d *ledger.NodeDoc) { d.Entries = append(d.Entries, born) }), "S4"},
		"a departure by the rule": {with(func(d *ledger.NodeDoc) { d.Entries, d.HW[ledger.KindPod] = nil, 100 }), ""},
		"the next state":          {with(func(d *ledger.NodeDoc) { d.Entries[0].State = ledger.Fencing }), ""},
		"a mark":                  {with(func(d *ledger.NodeDoc) { d.Entries[0].Wanted = true }), ""},
	} {
		var got []string
		for _, v := range invariant.CheckSuccessor(committed, c.after) {
			got = append(got, v.Invariant)
		}
		if want := strings.Fields(c.want); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
	held := sampletest.DocOf(sampletest.Reservation("p", ledger.Held, 1))
	if v := invariant.CheckSuccessor(held, sampletest.DocOf()); len(v) > 0 && v[0].Invariant == "S4" {
		t.Errorf("a held reservation may not go: %v", v)
	}
}

func TestCheckDocFinds(t *testing.T) {
	twice := sampletest.DocOf(sampletest.Reservation("p", ledger.Committed, 1),
		sampletest.Reservation("p", ledger.Fencing, 2))
	if v := invariant.CheckDoc(twice); len(v) != 1 || v[0].Invariant != "S3" {
		t.Errorf("two live reservations: %v, want S3", v)
	}
	if v := invariant.CheckDoc(sampletest.DocOf(sampletest.Reservation("p", ledger.Committed, 1),
		sampletest.Reservation("p", ledger.Held, 2))); len(v) != 0 {
		t.Errorf("one live, one held: %v", v)
	}
	if v := invariant.CheckDoc(sampletest.Full()); len(v) != 0 {
		t.Errorf("a sound document: %v", v)
	}
	if v := invariant.CheckDoc(ledger.NodeDoc{Entries: make([]ledger.Entry, ledger.MaxEntries+1)}); len(v) == 0 ||
		v[0].Error() == "" {
		t.Error("an oversized document without UID is sound")
	}
}

func TestPlaceBatchRefusesContradictions(t *testing.T) {
	d := sampletest.DocOf(sampletest.Reservation("p", ledger.Committed, 1))
	p := d.Entries[0].Partition()
	good := PlaceBatch{Epochs: map[int32]int64{p: 3}, Docs: []ledger.NodeDoc{d}, Placed: []ledger.Token{1}}
	if _, err := good.Txn(); err != nil {
		t.Fatal(err)
	}
	other := (p + 1) % ledger.Partitions
	for want, b := range map[string]PlaceBatch{
		"places nothing":           {Epochs: good.Epochs, Docs: good.Docs},
		"whose epoch is not given": {Epochs: map[int32]int64{other: 3}, Docs: good.Docs, Placed: good.Placed},
		"only 0 of them are":       {Epochs: good.Epochs, Docs: good.Docs, Placed: []ledger.Token{2}},
		"want a revision above 0":  {Epochs: map[int32]int64{p: 0}, Docs: good.Docs, Placed: good.Placed},
		"key n/n1 is written twice": {Epochs: good.Epochs, Docs: []ledger.NodeDoc{d, sampletest.DocOf()},
			Placed: good.Placed},
		"document of node \"\" has no n": {Epochs: good.Epochs, Docs: []ledger.NodeDoc{d, {}}, Placed: good.Placed},
	} {
		if _, err := b.Txn(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want an error that says %q", b, err, want)
		}
	}
}

func TestPartitionTransactionsRefuse(t *testing.T) {
	for _, err := range []error{
		sampletest.ErrorOf(roster.TakePartition(ledger.Partitions, roster.Owner{Member: "m"}, 1)),
		sampletest.ErrorOf(roster.TakePartition(-1, roster.Owner{Member: "m"}, 1)),
		sampletest.ErrorOf(roster.TakePartition(1, roster.Owner{}, 1)),
		sampletest.ErrorOf(roster.TakePartition(1, roster.Owner{Member: "m"}, 0)),
		sampletest.ErrorOf(roster.ReleasePartition(ledger.Partitions, 1)), sampletest.ErrorOf(roster.ReleasePartition(1, 0)),
	} {
		if err == nil {
			t.Error("a malformed partition transaction was built")
		}
	}
}
