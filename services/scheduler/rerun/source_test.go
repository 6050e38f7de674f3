package rerun

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"testing"
	"time"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/events/eventlog"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/pkg/state/statetest"
)

// kept is a log of facts whose first facts are gone, with a snapshot.
type kept struct {
	facts    []eventlog.Record
	snapshot []byte
	at       uint64
}

type list []eventlog.Record

func (l *list) Next(context.Context) (eventlog.Record, error) {
	if len(*l) == 0 {
		return eventlog.Record{}, io.EOF
	}
	r := (*l)[0]
	*l = (*l)[1:]
	return r, nil
}

func (l *list) Close() {}

func (k *kept) Open(_ context.Context, s eventlog.Stream, from uint64) (Records, error) {
	l := &list{}
	for _, r := range k.facts {
		if s == eventlog.Facts && r.Sequence >= from {
			*l = append(*l, r)
		}
	}
	return l, nil
}

func (k *kept) Snapshot(context.Context) (uint64, []byte, bool, error) {
	return k.at, k.snapshot, k.snapshot != nil, nil
}

// facts returns a log of n nodes, one fact each after the begin of the epoch, with a snapshot at a sequence (0 for
// none), whose facts before first are gone. Record n is stored at n seconds.
func facts(t *testing.T, n int, at, first uint64) *kept {
	t.Helper()
	return frames(t, 1, n, at, first)
}

// frames is facts with some facts in each frame.
func frames(t *testing.T, size, n int, at, first uint64) *kept {
	t.Helper()
	k := &kept{at: at}
	store := state.New()
	all := []events.Fact{{Op: events.OpEpochBegin, Epoch: 1}, {Op: events.OpEpochEnd, Epoch: 1}}
	for i := range n {
		node := statetest.Node(fmt.Sprintf("n%d", i), "cpu", "1")
		data, err := node.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, events.Fact{
			Kind: events.KindNode, Op: events.OpUpsert, UID: string(node.UID), Name: node.Name, Epoch: 1,
			ResourceVersion: uint64(i + 1), Progress: uint64(i + 1), Object: data,
		})
	}
	sequence := uint64(0)
	for frame := range slices.Chunk(all, size) {
		sequence++
		var facts []events.SequencedFact
		for i, f := range frame {
			facts = append(facts, events.SequencedFact{Sequence: sequence, Index: i, Fact: f})
			if sequence >= first {
				k.facts = append(k.facts, eventlog.Record{
					Message: events.EncodeFact(f), Sequence: sequence, Index: i, Time: time.Unix(int64(sequence), 0),
				})
			}
		}
		if _, err := store.Apply(facts); err != nil {
			t.Fatal(err)
		}
		if sequence == at {
			var err error
			if k.snapshot, _, err = store.Snapshot().Marshal(); err != nil {
				t.Fatal(err)
			}
		}
	}
	return k
}

func nodes(p Snapshot) (n int) {
	for range p.Facts.Snapshot().Nodes() {
		n++
	}
	return n
}

// The state can be rebuilt at any moment that the log covers: from its beginning, or from the snapshot if the
// beginning is gone. Earlier moments are refused.
func TestRebuild(t *testing.T) {
	whole, cut := facts(t, 10, 8, 1), facts(t, 10, 8, 6)
	// The frames have the nodes 1, 4, 7, 10 and 12.
	framed, framedCut := frames(t, 3, 12, 3, 1), frames(t, 3, 12, 3, 2)
	for name, c := range map[string]struct {
		log   *kept
		at    At
		nodes int // -1: refused
	}{
		"the end":                    {whole, At{}, 10},
		"a sequence":                 {whole, At{Sequence: 5}, 3},
		"before the snapshot":        {whole, At{Sequence: 7}, 5},
		"a time":                     {whole, At{Time: time.Unix(6, 0)}, 4},
		"behind the end":             {whole, At{Sequence: 99}, -1},
		"cut off, the end":           {cut, At{}, 10},
		"cut off, behind snapshot":   {cut, At{Sequence: 10}, 8},
		"cut off, before snapshot":   {cut, At{Sequence: 7}, -1},
		"cut off, a time":            {cut, At{Time: time.Unix(11, 0)}, 9},
		"cut off, without snapshots": {&kept{facts: cut.facts}, At{}, -1},

		"frames, the end":                   {framed, At{}, 12},
		"frames, the first":                 {framed, At{Sequence: 1}, 1},
		"frames, one of them":               {framed, At{Sequence: 4}, 10},
		"frames, the last":                  {framed, At{Sequence: 5}, 12},
		"frames, behind the end":            {framed, At{Sequence: 6}, -1},
		"frames, a time":                    {framed, At{Time: time.Unix(2, 0)}, 4},
		"frames cut off, the snapshot":      {framedCut, At{Sequence: 3}, 7},
		"frames cut off, behind snapshot":   {framedCut, At{Sequence: 4}, 10},
		"frames cut off, before snapshot":   {framedCut, At{Sequence: 2}, -1},
		"frames cut off, without snapshots": {&kept{facts: framedCut.facts}, At{}, -1},
	} {
		p, err := Rebuild(t.Context(), c.log, c.at)
		var not *NotThereError
		switch {
		case c.nodes < 0 && !errors.As(err, &not):
			t.Errorf("%s: %v, want it refused", name, err)
		case c.nodes >= 0 && err != nil:
			t.Errorf("%s: %v", name, err)
		case c.nodes >= 0 && nodes(p) != c.nodes:
			t.Errorf("%s: %d nodes, want %d", name, nodes(p), c.nodes)
		}
	}
}

// A decision that the log does not cover does not affect later ones.
func TestCursorGoesOnBehindAHole(t *testing.T) {
	cut := facts(t, 10, 8, 6)
	c, err := openFacts(t.Context(), cut, 3)
	if err != nil {
		t.Fatal(err)
	}
	var not *NotThereError
	for _, gone := range []uint64{3, 6, 7} {
		if _, err := c.batchesTo(t.Context(), gone); !errors.As(err, &not) {
			t.Fatalf("fact %d: %v, want it refused", gone, err)
		}
	}
	batches, err := c.batchesTo(t.Context(), 9)
	if err != nil || len(batches) != 2 || !batches[0].Reset || batches[0].Behind != 8 || len(batches[1].Facts) != 1 {
		t.Fatalf("fact 9: %+v, %v, want the snapshot at 8 and one fact", batches, err)
	}
}
