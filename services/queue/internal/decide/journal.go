package decide

import (
	"slices"
	"time"

	"github.com/berth-scheduler/berth/pkg/placement"
)

// The journal holds what happened lately, so that what happens while a pod is out on an
// attempt is not lost on it: a verdict is answered for from the moment it was computed
// from, and not from when it arrived (upstream's in-flight events). What the journal does
// not hold any more counts as having helped.
const (
	// journalAge is how long occurrences are kept: longer than attempts take.
	journalAge = 30 * time.Second
	// journalLimit bounds them. Each keeps an old version of an object alive.
	journalLimit = 16384
)

// occurrence is one change that can matter to a waiting pod.
type occurrence struct {
	change placement.Change
	// own: it matters to the changed pod alone. blind: it is not known which pod has gone.
	own, blind bool
	// above: a blind one about budgets helps only pods of a higher priority (see Freed).
	above int32
	// sequence is where the facts stood after it, revision the ledger (0 for facts).
	sequence uint64
	revision int64
	at       moment
}

type journal struct {
	facts  []occurrence // by sequence
	ledger []occurrence
	// sequence and revision are where what is forgotten ends.
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

// trim forgets what is old.
func (j *journal) trim(now moment) {
	for _, list := range []*[]occurrence{&j.facts, &j.ledger} {
		old := func(o occurrence) bool { return o.at.add(journalAge) < now }
		// In big steps, as what is behind is moved: once more than half of it is old.
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

// forgot says whether the journal does not reach back to what a verdict was computed from.
func (j *journal) forgot(v *verdict) bool {
	return v.astray() || v.factSequence < j.sequence || v.ledgerRevision < j.revision
}

// since visits what happened after what a verdict was computed from, until visit is false.
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
