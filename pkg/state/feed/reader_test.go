package feed

import (
	"errors"
	"testing"

	"github.com/berth-scheduler/berth/pkg/state"
)

// TestPendingSteps: steps that wait become one, and too many of them one Reset.
func TestPendingSteps(t *testing.T) {
	snapshots := map[uint64]*state.Snapshot{}
	at := func(sequence uint64) *state.Snapshot {
		if snapshots[sequence] == nil {
			store := state.New()
			store.StartBehind(sequence)
			snapshots[sequence] = store.Snapshot()
		}
		return snapshots[sequence]
	}
	plain := func(sequence uint64) Step {
		changes := state.Changes{Pods: []state.PodChange{{DeletedRV: sequence}}, Position: at(sequence).Position()}
		return Step{Snapshot: at(sequence), Changes: changes}
	}
	reset := func(sequence uint64) Step {
		return Step{Reset: true, Snapshot: at(sequence), Unreadable: errors.New("stored snapshot")}
	}
	for name, test := range map[string]struct {
		add    []Step
		resets []bool
		sizes  []int
		last   uint64
	}{
		"plain steps become one": {[]Step{plain(1), plain(2)}, []bool{false}, []int{2}, 2},
		"up to a bound":          {[]Step{plain(1), plain(2), plain(3)}, []bool{false, false}, []int{2, 1}, 3},
		"too many become a reset": {
			[]Step{plain(1), plain(2), plain(3), plain(4), plain(5), plain(6), plain(7)}, []bool{true}, []int{0}, 7,
		},
		"a reset replaces what waits":  {[]Step{plain(1), reset(2)}, []bool{true}, []int{0}, 2},
		"a reset takes later steps in": {[]Step{reset(1), plain(2), plain(3), plain(4)}, []bool{true}, []int{0}, 4},
	} {
		r := &reader{added: make(chan struct{}, 1), maxPending: 3, maxMerged: 2}
		for _, s := range test.add {
			before := len(s.Changes.Pods)
			r.add(s, reset(s.Snapshot.Position().Sequence))
			if len(s.Changes.Pods) != before {
				t.Errorf("%s: a step that other readers have was changed", name)
			}
		}
		steps := r.take()
		if len(steps) != len(test.resets) {
			t.Errorf("%s: %d steps wait, want %d", name, len(steps), len(test.resets))
			continue
		}
		for i, s := range steps {
			if s.Reset != test.resets[i] || s.size() != test.sizes[i] {
				t.Errorf("%s: step %d: reset %v with %d changes", name, i, s.Reset, s.size())
			}
		}
		if last := steps[len(steps)-1].Snapshot.Position().Sequence; last != test.last {
			t.Errorf("%s: the last step leads to %d, want %d", name, last, test.last)
		}
		if name == "too many become a reset" && steps[0].Unreadable != nil {
			t.Errorf("%s: it reports the stored snapshot again", name)
		}
	}
}
