package state

import (
	"fmt"
	"strings"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/events/eventlog"
)

// Position is the position of a Store in the log of facts, with what the store may conclude from it. It is a
// comparable value.
type Position struct {
	// Sequence is that of the last fact applied; 0 before the first.
	Sequence uint64
	// Epoch is the fact epoch of the last fact applied.
	Epoch uint64

	// barrier is the sequence that must be reached before there is progress; 0 for none. repairing is true between
	// the begin and the end of an epoch.
	barrier   uint64
	repairing bool
	// hole is the sequence of the first fact that could not be read; 0 for none.
	hole uint64
	// progress holds the progress of each kind, by the kind's index; 0 for none.
	progress [len(kinds)]uint64
}

// Progress returns the resourceVersion up to which every fact of kind k has been applied. It is undefined (ok
// false), so that no node may be used, until the start barrier has been applied, inside an epoch repair, after a
// hole, and for a kind without a statement of progress since.
//
// Example: a document in the ledger has the high-water mark 4711 for pods. A shard that has progress 4700 does not
// know yet whether the pods that the document has handed over to the facts are all in its state, so it must not
// place a pod on that node; with progress 4711 it does, and may.
func (p Position) Progress(k events.Kind) (rv uint64, ok bool) {
	i, err := kindIndex(k)
	if err != nil || p.repairing || p.hole != 0 || p.Sequence < p.barrier {
		return 0, false
	}
	return p.progress[i], p.progress[i] != 0
}

// HighestSeen returns a resourceVersion of kind k that Kubernetes has had, 0 if none is known. It does not show what
// has been applied: Progress does.
func (p Position) HighestSeen(k events.Kind) uint64 {
	i, err := kindIndex(k)
	if err != nil {
		return 0
	}
	return p.progress[i]
}

// Hole returns the sequence of a fact that could not be read. Nothing after it has been applied, since that would
// give a wrong view of the cluster; the store recovers only when facts are published again from scratch.
func (p Position) Hole() (sequence uint64, ok bool) { return p.hole, p.hole != 0 }

// String returns the line with which Describe starts.
func (p Position) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "sequence %d epoch %d", p.Sequence, p.Epoch)
	if p.Sequence < p.barrier {
		fmt.Fprintf(&b, " (behind barrier %d)", p.barrier)
	}
	if p.repairing {
		b.WriteString(" (repairing)")
	}
	if p.hole != 0 {
		fmt.Fprintf(&b, " (fact %d cannot be read)", p.hole)
	}
	b.WriteString(", progress:")
	for i, k := range kinds {
		if p.progress[i] != 0 {
			fmt.Fprintf(&b, " %s=%d", k, p.progress[i])
		}
	}
	return b.String()
}

// next returns the position after fact f, which must be the one after p: the first of the next sequence, or another
// one of the frame at p. It implements the rule about progress:
// progress comes only from the facts' Progress field, and a new epoch discards all of it. Inside the repair a kind
// has progress from its marker on, because the items before it still carry the value of the previous epoch.
//
// The cases are in order of precedence: a hole hides everything after it; an epoch may begin anywhere but must
// follow the previous one; the first fact of the log sets the epoch without a begin; any other change of the epoch
// means that a tail was lost.
func (p Position) next(f events.SequencedFact) (Position, error) {
	want := p.Sequence + 1
	if f.Index > 0 {
		want = p.Sequence
	}
	if f.Sequence != want {
		return p, &eventlog.ErrGap{Stream: eventlog.Facts, Want: want, Have: f.Sequence}
	}
	first := p.Sequence == 0
	p.Sequence = f.Sequence
	switch {
	case f.Op == events.OpUnreadable:
		return p.behindHole(), nil
	case p.hole != 0:
		p.Epoch = f.Epoch // for the writer that continues after it; a reader has checked whether the fact follows
		return p, nil
	case f.Op == events.OpEpochBegin:
		if !first && !Follows(p.Epoch, f.Fact) {
			return p, &EpochError{Sequence: f.Sequence, Have: p.Epoch, Got: f.Epoch}
		}
		p.Epoch, p.repairing = f.Epoch, true
		p.progress = [len(kinds)]uint64{}
		return p, nil
	case first:
		p.Epoch = f.Epoch
	case f.Epoch != p.Epoch:
		return p, &EpochError{Sequence: f.Sequence, Have: p.Epoch, Got: f.Epoch}
	}
	if f.Op == events.OpEpochEnd {
		p.repairing = false
		return p, nil
	}
	i, err := kindIndex(f.Kind)
	if err != nil {
		return p, nil //nolint:nilerr // a kind of a later version: the record counts, and says nothing here
	}
	if !p.repairing || f.Op == events.OpProgress || p.progress[i] != 0 {
		p.progress[i] = max(p.progress[i], f.Progress)
	}
	return p, nil
}

// behindHole returns the position at the fact just read if that fact cannot be read.
func (p Position) behindHole() Position {
	if p.hole == 0 {
		p.hole = p.Sequence
	}
	return p
}

// Follows reports whether a fact may come right after one of the given epoch: it is of the same epoch, or it begins
// a later one that names this as the previous one (if the writer names one, see events.OpEpochBegin). Otherwise the
// facts between them have been lost and replaced. A fact that starts from scratch (Fact.StartsFromScratch) follows
// only on nothing (epoch 0).
func Follows(epoch uint64, f events.Fact) bool {
	if f.StartsFromScratch() {
		return epoch == 0
	}
	if f.Op != events.OpEpochBegin {
		return f.Epoch == epoch
	}
	return f.Epoch > epoch && (f.Progress == 0 || f.Progress == epoch)
}

// EpochError reports a fact of another epoch whose begin was not seen: the log lost a tail that had been applied
// and was repaired since. The store must be rebuilt. Have is the epoch of the store, Got that of the fact.
type EpochError struct {
	Sequence, Have, Got uint64
}

func (e *EpochError) Error() string {
	return fmt.Sprintf("state: fact %d is of epoch %d, the store is in epoch %d and saw no new one begin",
		e.Sequence, e.Got, e.Have)
}
