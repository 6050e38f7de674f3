package sim

import (
	"slices"

	"github.com/berth-scheduler/berth/pkg/events/eventlog"
)

// poison appends a record that cannot be decoded, as a compromised or faulty member does.
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
		// A fact that replaces a lost one in the same epoch cannot be told apart from it: only the leader may write
		// one.
		bad.Header.Set(eventlog.HeaderSchema, "99")
	}
	if _, err = w.log.Append(w.ctx, stream, eventlog.AnySequence, []eventlog.Message{bad}); err != nil {
		return nil // not today
	}
	w.hit(what)
	w.tracef("%s", what)
	return nil
}

// hasUnreadable reports whether a fact behind the beginning of the round cannot be read. All facts are published again
// then.
func (q *queueReplica) hasUnreadable() bool {
	at, there := q.facts.Snapshot().Position().Hole()
	return there && at > q.round.behind
}
