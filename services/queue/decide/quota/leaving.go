package quota

import (
	"cmp"
	"iter"
	"slices"
	"time"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/state"
)

// leaving is a pod that was let go through the quota gate: the decision to remove its gate is in the log, or about to
// be appended.
//
// It counts against the budget until the facts show it without its gate, ended or gone. A decision in the log counts
// under every leader. Each replica reads these decisions, also before it leads and before the facts have shown the
// pod; a memory names those from before it; and a new leader lets no pod go before it has read what was decided until
// it led. A leader's own decision that the log does not have ends with its term. If it reaches the log after all, it
// counts again.
type leaving struct {
	space    *space
	requests Amounts
	// until is when the gate should be gone. overdue means that this time has passed and the removal has not been
	// requested again.
	until   time.Time
	overdue bool
	// recorded means that the log has the decision, or has had it.
	recorded bool
	// unread means that the decision has not been read again since the log lost records.
	unread bool
	// sequence and epoch are the position of the facts by which the decision was made.
	sequence, epoch uint64
}

// letGo counts the pod as one whose gate is about to be removed.
func (b *Budgets) letGo(w *waiter, s *space, now time.Time, at Facts) {
	if l, again := b.leaving[w.pod.UID]; again {
		s.overdue = s.overdue[1:]
		b.startRemoval(l, now.Add(Patience))
		return
	}
	s.waiting.Drop(w)
	w.waits = false
	b.countLeaving(s, w.pod, &leaving{until: now.Add(Patience), sequence: at.Sequence, epoch: at.Epoch})
}

// countLeaving counts a pod that was let go against the budget of its namespace.
func (b *Budgets) countLeaving(s *space, p *state.Pod, l *leaving) {
	l.space, l.requests = s, Requests(p)
	s.leaving = s.leaving.Plus(l.requests)
	b.leaving[p.UID] = l
	l.overdue = true
	b.startRemoval(l, l.until)
}

// startRemoval gives the binders until a given time to remove the gate of a pod that is overdue.
func (b *Budgets) startRemoval(l *leaving, until time.Time) {
	l.overdue, l.until = false, until
	b.requested++
	if b.due.IsZero() || until.Before(b.due) {
		b.due = until
	}
}

// shown applies a pod of a namespace as it is now; nil if it is gone.
func (b *Budgets) shown(uid string, s *space, now *state.Pod) {
	stays := now != nil && !now.Terminal && HasGate(now)
	l, ok := b.leaving[uid]
	switch {
	case ok && stays:
		s.leaving = s.leaving.minus(l.requests).Plus(Requests(now))
		l.requests = Requests(now)
	case ok:
		b.dropLeaving(uid, l)
	case len(b.hidden) > 0:
		if l, ok := b.hidden[uid]; ok && stays {
			b.countLeaving(s, now, l)
		}
		delete(b.hidden, uid)
	}
}

// dropLeaving drops a pod whose gate is removed or that no longer counts.
func (b *Budgets) dropLeaving(uid string, l *leaving) {
	l.space.leaving = l.space.leaving.minus(l.requests)
	if !l.overdue {
		b.requested--
	}
	delete(b.leaving, uid)
}

// markOverdue marks the pods whose gate should have been removed by now, so that their namespaces request the removal
// again.
func (b *Budgets) markOverdue(now time.Time) {
	if b.due.IsZero() || b.due.After(now) {
		return
	}
	b.due = time.Time{}
	type overdue struct {
		uid string
		*leaving
	}
	var list []overdue
	for uid, l := range b.leaving {
		switch {
		case l.overdue:
		case !l.until.After(now):
			list = append(list, overdue{uid, l})
		case b.due.IsZero() || l.until.Before(b.due):
			b.due = l.until
		}
	}
	slices.SortFunc(list, func(a, b overdue) int {
		return cmp.Or(a.until.Compare(b.until), cmp.Compare(a.uid, b.uid))
	})
	for _, l := range list {
		l.overdue = true
		b.requested--
		l.space.overdue = append(l.space.overdue, l.uid)
		b.turn(l.space)
	}
}

// Recorded records that the log has the decision to let a pod go, made by this leader or another. p is the pod, nil if
// the facts do not show it as one that waits to be placed.
func (b *Budgets) Recorded(d *events.Decision, p *state.Pod, at Facts, now time.Time) {
	uid := d.Pod.UID
	until := now.Add(Patience)
	if l, ok := b.leaving[uid]; ok {
		l.recorded, l.unread = true, false
		if l.overdue {
			b.startRemoval(l, until)
		}
		l.until = until
		return
	}
	l := &leaving{until: until, recorded: true, sequence: d.FactSequence, epoch: d.FactEpoch}
	switch {
	case p != nil && HasGate(p):
		if w, ok := b.gated[uid]; ok {
			b.dequeue(w)
		}
		b.countLeaving(b.space(p.Namespace), p, l)
	case p == nil && !l.wouldShow(at) && len(b.hidden) < hiddenLimit:
		b.hidden[uid] = l
	}
}

// wouldShow reports whether the facts would show a pod that was let go if it still existed.
func (l *leaving) wouldShow(at Facts) bool {
	if !at.Complete || at.Epoch < l.epoch {
		return false
	}
	return at.Sequence >= l.sequence || l.epoch != 0 && at.Epoch > l.epoch
}

// ForgetHidden drops the pods that were let go and that the facts would have shown by now.
func (b *Budgets) ForgetHidden(at Facts) {
	for uid, l := range b.hidden {
		if l.wouldShow(at) {
			delete(b.hidden, uid)
		}
	}
}

// forgetUnrecorded drops, at the end of a leader's term, its decisions that the log does not have.
func (b *Budgets) forgetUnrecorded() {
	var list []string
	for uid, l := range b.leaving {
		if !l.recorded {
			list = append(list, uid)
		}
	}
	slices.Sort(list)
	for _, uid := range list {
		b.dropLeaving(uid, b.leaving[uid])
		if w, ok := b.gated[uid]; ok {
			b.enqueue(w)
		}
	}
}

// LogShortened records that the log of decisions has lost records that were read.
func (b *Budgets) LogShortened() {
	for _, l := range b.leaving {
		l.unread = true
	}
}

// LogReadAgain schedules another request for each pod that was let go by a decision which the log has lost: other
// replicas and the binders may not know of the pod.
func (b *Budgets) LogReadAgain(now time.Time) {
	for _, l := range b.leaving {
		if l.unread && !l.overdue {
			l.until, b.due = now, now
		}
		l.unread = false
	}
}

// DecidedAt is the position of the facts by which a pod was released. A replica must remember it for each such pod.
type DecidedAt struct{ Sequence, Epoch uint64 }

// Leaving visits the pods that were released by decisions that are in the log, by UID.
func (b *Budgets) Leaving() iter.Seq2[string, DecidedAt] {
	return func(yield func(string, DecidedAt) bool) {
		for _, some := range []map[string]*leaving{b.leaving, b.hidden} {
			for uid, l := range some {
				if l.recorded && !yield(uid, DecidedAt{l.sequence, l.epoch}) {
					return
				}
			}
		}
	}
}

// Recall records a pod that was let go in an earlier life of a replica. If this replica leads, it requests the removal
// at once, because the binders may no longer know of it.
func (b *Budgets) Recall(uid string, was DecidedAt, now time.Time) {
	b.hidden[uid] = &leaving{recorded: true, until: now, sequence: was.Sequence, epoch: was.Epoch}
}
