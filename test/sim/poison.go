package sim

import (
	"slices"

	"github.com/berth-scheduler/berth/pkg/events/eventlog"
)

// poison appends a record that nobody can decode, as a member does that was taken over, or has a fault.
func (w *world) poison() error {
	stream, what := eventlog.Decisions, "poison among the decisions"
	if w.chance(50) {
		stream, what = eventlog.Facts, "poison among the facts"
	}
	last, err := w.log.Last(w.ctx, stream)
	if err != nil || last == 0 {
		return err // there is nothing that it could look like
	}
	like, err := w.records(stream, last)
	if err != nil || len(like) == 0 {
		return nil // retention has taken it
	}
	bad := like[0].Message
	bad.Header, bad.Data = slices.Clone(bad.Header), []byte("\xff\xff\xff no message of this or a later version")
	if w.chance(50) || w.lostTail {
		// Nothing tells a fact that takes the place of a lost one, in the same epoch, from that: only the leader
		// may write it.
		bad.Header.Set(eventlog.HeaderSchema, "99")
	}
	if _, err = w.log.Append(w.ctx, stream, eventlog.AnySequence, []eventlog.Message{bad}); err != nil {
		return nil // not today
	}
	w.hit(what)
	w.tracef("%s", what)
	return nil
}

// holed reports whether a fact behind the beginning of the round cannot be read: then everything is told anew.
func (q *queueReplica) holed() bool {
	at, there := q.facts.Snapshot().Position().Hole()
	return there && at > q.round.behind
}
