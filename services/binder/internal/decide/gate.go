package decide

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/state"
)

// ungating is one pod whose quota gate must be removed.
//
// Order: decision in the log → patch. A crash before or after the patch leaves the decision to the other binders,
// which remember it, and if all forget it, to the queue, which requests the removal again while the facts show the
// gate. Removing a gate that does not exist changes nothing. The removal is begun within Limits.Ungate only, and the
// call ends at most Limits.Call after that: if the log loses the decision, the next leading queue does not know of
// it, and gives the room to another pod after a while.
type ungating struct {
	asked events.Decision
	op    OpID
	// since is when the decision was read.
	since time.Time
	retry wait.Backoff
	due   time.Time
}

func (c *Core) ungateWanted(d events.Decision) {
	u, ok := c.ungatings[d.Pod.UID]
	if !ok {
		if !c.holds(d.Pod.UID) && len(c.ungatings) >= c.limits.Foreign {
			c.dropped++
			return
		}
		u = &ungating{retry: c.limits.Retry}
		c.ungatings[d.Pod.UID] = u
	}
	if u.asked.Token != d.Token {
		u.since = c.now
	}
	u.asked = d
	u.advance(c)
}

func (u *ungating) advance(c *Core) {
	if u.op != 0 || c.facts.Cluster == nil {
		return
	}
	if u.over(c) || u.late(c) {
		delete(c.ungatings, u.asked.Pod.UID)
		return
	}
	if c.now.Before(u.due) || !c.mayAct(u.asked.Pod.UID) {
		return
	}
	if _, known, _ := c.pod(u.asked.Pod.UID, 0); !known {
		return // the decision used later facts than this binder has
	}
	u.op = c.start(u)
	c.emit(RemoveGate{
		Op: u.op, Pod: u.asked.Pod, Gate: events.QuotaGate, NotAfter: u.since.Add(c.limits.Ungate + c.limits.Call),
	})
}

// late reports whether it is too late to begin the removal; the queue requests it again.
func (u *ungating) late(c *Core) bool { return c.now.Sub(u.since) > c.limits.Ungate }

// over reports whether the facts show that nothing is left to do.
func (u *ungating) over(c *Core) bool {
	p, known, _ := c.pod(u.asked.Pod.UID, 0)
	if !known {
		return c.facts.Sequence >= u.asked.FactSequence && c.facts.PodProgressKnown
	}
	return !hasGate(p, events.QuotaGate)
}

func hasGate(p *state.Pod, name string) bool {
	return p.Gated && slices.ContainsFunc(p.Template.Spec.SchedulingGates, func(g corev1.PodSchedulingGate) bool {
		return g.Name == name
	})
}

func (u *ungating) answered(c *Core, in Input) {
	u.op = 0
	a, ok := in.(Answered)
	if !ok { // Untaken: its time has expired, at least by the wall clock, and the queue requests it again
		delete(c.ungatings, u.asked.Pod.UID)
		return
	}
	switch a.Result {
	case Refused:
		u.refused(c, a.Problem)
		delete(c.ungatings, u.asked.Pod.UID) // the queue requests it again
	case Done, Gone:
		// The facts will show the removal; if they do not, the queue requests it again.
		delete(c.ungatings, u.asked.Pod.UID)
	default:
		var pause time.Duration
		pause, u.retry = nextTry(u.retry)
		u.due = c.now.Add(pause)
	}
}

// refused informs the pod's owner that the gate stays. Most often the binder lacks the permission to change pods,
// which it needs for nothing else and does not get by default.
func (u *ungating) refused(c *Core, problem string) {
	p, known, _ := c.pod(u.asked.Pod.UID, 0)
	if !known {
		return
	}
	c.emit(Report{
		Pod: u.asked.Pod, SchedulerName: p.SchedulerName,
		Type: corev1.EventTypeWarning, Reason: "FailedUngating", Action: "Ungating",
		Note: fmt.Sprintf("Scheduling gate %s cannot be removed, although the budget has room: the API server refuses "+
			"it. If the binder has no right to patch pods, give it that (quotaGate.enabled of the chart, component "+
			"quota-gate of the kustomizations). Refused: %s", events.QuotaGate, problem),
	})
}
