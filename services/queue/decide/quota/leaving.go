package quota

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/berth-scheduler/berth/pkg/state"
)

// hiddenLimit bounds the pods that were let go and that the facts have not shown.
const hiddenLimit = 1 << 20

// Facts is how far the facts have been applied. Complete means that a pod which they do not show by then does not
// exist.
type Facts struct {
	Sequence, Epoch uint64
	Complete        bool
}

// departure is a pod that was let go through the quota gate: the decision to remove its gate is in the log, or about to
// be appended.
//
// It counts against the budget until the facts show it without its gate, ended or gone. A decision in the log counts
// under every leader. Each replica reads these decisions, also before it leads and before the facts have shown the
// pod; a memory names those from before it; and a new leader lets no pod go before it has read what was decided until
// it led. A leader's own decision that the log does not have ends with its term. If it reaches the log after all, it
// counts again.
type departure struct {
	space    *namespace
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

// Departures holds the pods that were let go and still have their gate, and alone changes them. It is for one
// goroutine.
type Departures struct {
	// known holds the pods that the facts show, by UID, and hidden those that the facts have not shown yet.
	known, hidden map[string]*departure
	// requested counts the pods in known that are not overdue. If there are any, no removal is overdue before due.
	requested int
	due       time.Time
}

func newDepartures() Departures {
	return Departures{known: map[string]*departure{}, hidden: map[string]*departure{}}
}

// add counts a pod that was let go against the budget of its namespace.
func (d *Departures) add(s *namespace, p *state.Pod, l *departure) {
	l.space, l.requests = s, Requests(p)
	s.leaving = s.leaving.Plus(l.requests)
	d.known[p.UID] = l
	l.overdue = true
	d.startRemoval(l, l.until)
}

// addHidden records a pod that was let go and that the facts have not shown. It counts once they show it.
func (d *Departures) addHidden(uid string, l *departure) {
	if len(d.hidden) < hiddenLimit {
		d.hidden[uid] = l
	}
}

// confirm records that the log has the decision about a pod, which begins the binders' time anew, until the given
// time. It reports whether the pod is known.
func (d *Departures) confirm(uid string, until time.Time) bool {
	l, ok := d.known[uid]
	if !ok {
		return false
	}
	l.recorded, l.unread = true, false
	if l.overdue {
		d.startRemoval(l, until)
	}
	l.until = until
	return true
}

// startRemoval gives the binders until a given time to remove the gate of a pod that is overdue.
func (d *Departures) startRemoval(l *departure, until time.Time) {
	l.overdue, l.until = false, until
	d.requested++
	if d.due.IsZero() || until.Before(d.due) {
		d.due = until
	}
}

// shown applies a pod of a namespace as it is now; nil if it is gone.
func (d *Departures) shown(uid string, s *namespace, now *state.Pod) {
	stays := now != nil && !now.Terminal && HasGate(now)
	l, ok := d.known[uid]
	switch {
	case ok && stays:
		s.leaving = s.leaving.minus(l.requests).Plus(Requests(now))
		l.requests = Requests(now)
	case ok:
		d.remove(uid, l)
	case len(d.hidden) > 0:
		if l, ok := d.hidden[uid]; ok && stays {
			d.add(s, now, l)
		}
		delete(d.hidden, uid)
	}
}

// remove drops a pod whose gate is removed or that no longer counts.
func (d *Departures) remove(uid string, l *departure) {
	l.space.leaving = l.space.leaving.minus(l.requests)
	if !l.overdue {
		d.requested--
	}
	delete(d.known, uid)
}

// markOverdue marks the pods whose gate should have been removed by now, so that their namespaces request the removal
// again. It returns these namespaces in the order of their pods' times, some of them several times.
func (d *Departures) markOverdue(now time.Time) (spaces []*namespace) {
	if d.due.IsZero() || d.due.After(now) {
		return nil
	}
	d.due = time.Time{}
	type overdue struct {
		uid string
		*departure
	}
	var list []overdue
	for uid, l := range d.known {
		switch {
		case l.overdue:
		case !l.until.After(now):
			list = append(list, overdue{uid, l})
		case d.due.IsZero() || l.until.Before(d.due):
			d.due = l.until
		}
	}
	slices.SortFunc(list, func(a, b overdue) int {
		return cmp.Or(a.until.Compare(b.until), cmp.Compare(a.uid, b.uid))
	})
	for _, l := range list {
		l.overdue = true
		d.requested--
		l.space.overdue = append(l.space.overdue, l.uid)
		spaces = append(spaces, l.space)
	}
	return spaces
}

// restart gives the binders until each overdue pod's old time, which has passed: the removals are overdue again at the
// replica's next term.
func (d *Departures) restart() {
	for _, l := range d.known {
		if l.overdue {
			d.startRemoval(l, l.until)
		}
	}
}

// hide takes over all pods of earlier departures, as pods that the facts have not shown yet.
func (d *Departures) hide(earlier Departures) {
	for _, some := range []map[string]*departure{earlier.known, earlier.hidden} {
		maps.Copy(d.hidden, some)
	}
}

// dropUnrecorded drops the pods whose decisions the log does not have, and returns their UIDs, sorted.
func (d *Departures) dropUnrecorded() (uids []string) {
	for uid, l := range d.known {
		if !l.recorded {
			uids = append(uids, uid)
		}
	}
	slices.Sort(uids)
	for _, uid := range uids {
		d.remove(uid, d.known[uid])
	}
	return uids
}

// wouldShow reports whether the facts would show a pod that was let go if it still existed.
func (l *departure) wouldShow(at Facts) bool {
	if !at.Complete || at.Epoch < l.epoch {
		return false
	}
	return at.Sequence >= l.sequence || l.epoch != 0 && at.Epoch > l.epoch
}

// ForgetHidden drops the pods that were let go and that the facts would have shown by now.
func (d *Departures) ForgetHidden(at Facts) {
	for uid, l := range d.hidden {
		if l.wouldShow(at) {
			delete(d.hidden, uid)
		}
	}
}

// LogShortened records that the log of decisions has lost records that were read.
func (d *Departures) LogShortened() {
	for _, l := range d.known {
		l.unread = true
	}
}

// LogReadAgain schedules another request for each pod that was let go by a decision which the log has lost: other
// replicas and the binders may not know of the pod.
func (d *Departures) LogReadAgain(now time.Time) {
	for _, l := range d.known {
		if l.unread && !l.overdue {
			l.until, d.due = now, now
		}
		l.unread = false
	}
}

// DecidedAt is the position of the facts by which a pod was released. A replica must remember it for each such pod.
type DecidedAt struct{ Sequence, Epoch uint64 }

// All visits the pods that were released by decisions that are in the log, by UID.
func (d *Departures) All() iter.Seq2[string, DecidedAt] {
	return func(yield func(string, DecidedAt) bool) {
		for _, some := range []map[string]*departure{d.known, d.hidden} {
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
func (d *Departures) Recall(uid string, was DecidedAt, now time.Time) {
	d.hidden[uid] = &departure{recorded: true, until: now, sequence: was.Sequence, epoch: was.Epoch}
}
