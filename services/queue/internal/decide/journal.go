package decide

import (
	"slices"
	"time"

	"github.com/berth-scheduler/berth/pkg/placement/rule"
)

// The journal holds recent occurrences, so that a change that happens while a pod is being tried is not lost on the
// pod: a verdict is compared with what happened since the state it was computed from, not since it arrived
// (upstream's in-flight events). An occurrence that the journal has already forgotten counts as one that would have
// helped.
const (
	// journalAge is how long occurrences are kept: longer than attempts take.
	journalAge = 30 * time.Second
	// journalLimit bounds their number. Each keeps an old version of an object alive.
	journalLimit = 16384
)

// occurrence is one change that can matter to a waiting pod.
type occurrence struct {
	change rule.Change
	// own means that the occurrence matters to the changed pod alone. blind means that it is not known which pod has
	// gone.
	own, blind bool
	// above limits a blind occurrence about budgets: it helps only pods of a higher priority (see Freed).
	above int32
	// sequence is the position of the facts after the occurrence, and revision that of the ledger (0 for facts).
	sequence uint64
	revision int64
	at       moment
}

type journal struct {
	facts  []occurrence // by sequence
	ledger []occurrence
	// sequence and revision are where the forgotten occurrences end.
	sequence uint64
	revision int64
}

func (j *journal) add(o occurrence) {
	list := &j.facts
	if o.revision != 0 {
		list = &j.ledger
	}
	*list = append(*list, o)
	if len(*list) >= 2*journalLimit {
		j.forget(list, len(*list)-journalLimit)
	}
}

// trim forgets old occurrences.
func (j *journal) trim(now moment) {
	for _, list := range []*[]occurrence{&j.facts, &j.ledger} {
		old := func(o occurrence) bool { return o.at.add(journalAge) < now }
		// It works in big steps, because trimming moves the rest of the slice: only once more than half of it is old.
		if len(*list) == 0 || !old((*list)[len(*list)/2]) {
			continue
		}
		n := slices.IndexFunc(*list, func(o occurrence) bool { return !old(o) })
		if n < 0 {
			n = len(*list)
		}
		j.forget(list, n)
	}
}

func (j *journal) forget(list *[]occurrence, n int) {
	for _, o := range (*list)[:n] {
		j.revision = max(j.revision, o.revision)
		if o.revision == 0 {
			j.sequence = max(j.sequence, o.sequence)
		}
	}
	*list = slices.Delete(*list, 0, n)
}

// clear forgets everything up to a sequence of the facts.
func (j *journal) clear(sequence uint64) {
	j.facts = nil
	j.sequence = sequence
}

// forgot reports whether the journal no longer reaches back to the state from which a verdict was computed.
func (j *journal) forgot(v *verdict) bool {
	return v.astray() || v.factSequence < j.sequence || v.ledgerRevision < j.revision
}

// since visits what happened after the state from which a verdict was computed, until visit returns false.
func (j *journal) since(v *verdict, visit func(o *occurrence) bool) {
	for i := range j.ledger {
		if o := &j.ledger[i]; o.revision > v.ledgerRevision && !visit(o) {
			return
		}
	}
	first, _ := slices.BinarySearchFunc(j.facts, v.factSequence+1, func(o occurrence, s uint64) int {
		if o.sequence < s {
			return -1
		}
		return 1
	})
	for i := first; i < len(j.facts); i++ {
		if !visit(&j.facts[i]) {
			return
		}
	}
}
