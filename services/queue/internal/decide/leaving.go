package decide

import (
	"cmp"
	"slices"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/state"
)

// leaving is a pod that was let go: the log has a decision that its quota gate is to go, or is about to get it.
//
// It counts against the budget until the facts show it without its gate, ended or gone. A decision that is in the log
// counts under every leader: each replica reads them, also before it leads and before the facts have shown the pod, a
// memory names those from before it (memory.go), and a new leader lets nobody go before it has read what was decided
// until it led. A decision of a leader's own that the log does not have ends with its term. Should the log get it after
// all, it counts again.
type leaving struct {
	space *space
	asks  amounts
	// until is when its gate should be gone; late: it should have been, and nobody has asked again.
	until moment
	late  bool
	// recorded: the log has the decision, or has had it.
	recorded bool
	// unread: it has not been read again since the log has lost records.
	unread bool
	// sequence and epoch are where the facts stood that the decision was made by.
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

// ask gives the binders time to remove the gate of a pod that is late.
func (q *quotas) ask(l *leaving, until moment) {
	l.late, l.until = false, until
	q.asked++
	if q.due == 0 || until < q.due {
		q.due = until
	}
}

// shown takes in a pod of a namespace as it is now, nil for one that is gone.
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

// gone ends that a pod is about to go.
func (q *quotas) gone(uid string, l *leaving) {
	l.space.leaving = l.space.leaving.minus(l.asks)
	if !l.late {
		q.asked--
	}
	delete(q.leaving, uid)
}

// overdue has those asked about again whose gate should have gone by now.
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

// ungateSeen takes in that the log has the decision to let a pod go, this leader's or another's.
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

// wouldShow says whether the facts would show a pod that was let go, if it was not gone.
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

// forgetUnrecorded ends, with a leader's term, what it has decided and the log does not have.
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
