package decide

import (
	"cmp"
	"slices"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/state"
)

// leaving is a pod that was let go through the quota gate: the decision to remove its gate is in the log, or about to
// be appended.
//
// It counts against the budget until the facts show it without its gate, ended or gone. A decision in the log counts
// under every leader. Each replica reads these decisions, also before it leads and before the facts have shown the
// pod; a memory names those from before it (memory.go); and a new leader lets no pod go before it has read what was
// decided until it led. A leader's own decision that the log does not have ends with its term. If it reaches the log
// after all, it counts again.
type leaving struct {
	space *space
	asks  amounts
	// until is when the gate should be gone. late means that this time has passed and the removal has not been
	// requested again.
	until moment
	late  bool
	// recorded means that the log has the decision, or has had it.
	recorded bool
	// unread means that the decision has not been read again since the log lost records.
	unread bool
	// sequence and epoch are the position of the facts by which the decision was made.
	sequence, epoch uint64
}

// goes counts a pod that was let go against the budget of its namespace.
func (q *quotas) goes(s *space, p *state.Pod, l *leaving) {
	l.space, l.asks = s, asks(p)
	s.leaving = s.leaving.plus(l.asks)
	q.leaving[p.UID] = l
	l.late = true
	q.ask(l, l.until)
}

// ask gives the binders until a given moment to remove the gate of a pod that is late.
func (q *quotas) ask(l *leaving, until moment) {
	l.late, l.until = false, until
	q.asked++
	if q.due == 0 || until < q.due {
		q.due = until
	}
}

// shown applies a pod of a namespace as it is now; nil if it is gone.
func (q *quotas) shown(uid string, s *space, now *state.Pod) {
	stays := now != nil && !now.Terminal && hasQuotaGate(now)
	l, ok := q.leaving[uid]
	switch {
	case ok && stays:
		s.leaving = s.leaving.minus(l.asks).plus(asks(now))
		l.asks = asks(now)
	case ok:
		q.gone(uid, l)
	case len(q.hidden) > 0:
		if l, ok := q.hidden[uid]; ok && stays {
			q.goes(s, now, l)
		}
		delete(q.hidden, uid)
	}
}

// gone drops a pod whose gate is removed or that no longer counts.
func (q *quotas) gone(uid string, l *leaving) {
	l.space.leaving = l.space.leaving.minus(l.asks)
	if !l.late {
		q.asked--
	}
	delete(q.leaving, uid)
}

// overdue marks the pods whose gate should have been removed by now, so that their namespaces request the removal
// again.
func (c *Core) overdue(now moment) {
	q := &c.quotas
	if q.due == 0 || q.due > now {
		return
	}
	q.due = 0
	type overdue struct {
		uid string
		*leaving
	}
	var list []overdue
	for uid, l := range q.leaving {
		switch {
		case l.late:
		case l.until <= now:
			list = append(list, overdue{uid, l})
		case q.due == 0 || l.until < q.due:
			q.due = l.until
		}
	}
	slices.SortFunc(list, func(a, b overdue) int {
		return cmp.Or(cmp.Compare(a.until, b.until), cmp.Compare(a.uid, b.uid))
	})
	for _, l := range list {
		l.late = true
		q.asked--
		l.space.late = append(l.space.late, l.uid)
		c.turn(l.space)
	}
}

// ungateSeen records that the log has the decision to let a pod go, made by this leader or another.
func (c *Core) ungateSeen(d *events.Decision, now moment) {
	q := &c.quotas
	uid := d.Pod.UID
	until := now.add(quotaPatience)
	if l, ok := q.leaving[uid]; ok {
		l.recorded, l.unread = true, false
		if l.late {
			q.ask(l, until)
		}
		l.until = until
		return
	}
	l := &leaving{until: until, recorded: true, sequence: d.FactSequence, epoch: d.FactEpoch}
	e, known := c.pods[uid]
	switch {
	case known && hasQuotaGate(e.pod):
		c.notEarly(e)
		q.goes(q.space(e.pod.Namespace), e.pod, l)
	case !known && !c.wouldShow(l) && len(q.hidden) < ghostLimit:
		q.hidden[uid] = l
	}
}

// wouldShow reports whether the facts would show a pod that was let go if it still existed.
func (c *Core) wouldShow(l *leaving) bool {
	f := &c.world.facts
	if !c.history.primed || !f.ProgressKnown || f.Epoch < l.epoch {
		return false
	}
	return f.Sequence >= l.sequence || l.epoch != 0 && f.Epoch > l.epoch
}

// forgetHidden drops the pods that were let go and that the facts would have shown by now.
func (c *Core) forgetHidden() {
	for uid, l := range c.quotas.hidden {
		if c.wouldShow(l) {
			delete(c.quotas.hidden, uid)
		}
	}
}

// forgetUnrecorded drops, at the end of a leader's term, its decisions that the log does not have.
func (c *Core) forgetUnrecorded() {
	var list []string
	for uid, l := range c.quotas.leaving {
		if !l.recorded {
			list = append(list, uid)
		}
	}
	slices.Sort(list)
	for _, uid := range list {
		c.quotas.gone(uid, c.quotas.leaving[uid])
		if e, ok := c.pods[uid]; ok && e.in == c.bags.gated {
			c.queueForQuota(e)
		}
	}
}
