package decide

import (
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
)

// evictionStep is what an eviction's effect under way is for.
type evictionStep uint8

const (
	// looking: the pod of a budget is read before anything that could spend from it.
	looking evictionStep = iota + 1
	// trying: the dry run, which asks the budget without spending.
	trying
	// evicting: the eviction itself.
	evicting
	// lookingBack: the eviction's outcome is unknown, the pod is read.
	lookingBack
)

// eviction is one decision to evict, dealt with once per (pod UID, token).
//
// The eviction subresource spends from the budget before it looks at the preconditions,
// and what a failed call has spent stays spent for two minutes. So a pod that a budget
// covers is read and tried dry first, nothing is repeated blindly, and a pod that two
// budgets cover is not tried at all: the API server answers 500 for ever.
//
// Order: read → dry run → eviction → outcome in the log. A crash before the eviction
// leaves nothing; the decision stays in the log, other binders remember it until its
// outcome, and the taker of the partition starts again. A crash after it leaves a
// terminating pod: the taker reads it first, and finds the work done. A crash before the
// outcome: the same.
type eviction struct {
	key   attempt
	asked events.Decision
	step  evictionStep
	op    OpID
	// done: an outcome is in the log; kept against redelivery since then.
	done  bool
	since time.Time
	reads int
	retry wait.Backoff
	due   time.Time
}

// askedFor is the decision that asked for a removal, if one did: a move's has the token of its
// placeholder.
func (c *Core) askedFor(r *removal) (events.Decision, bool) {
	token, err := ledger.ParseToken(planToken(r.plan))
	if err != nil {
		return events.Decision{}, false
	}
	e, ok := c.evictions[attempt{r.claim.PodUID, token}]
	if !ok {
		return events.Decision{}, false
	}
	return e.asked, true
}

func (c *Core) evictionWanted(key attempt, d events.Decision) {
	if _, known := c.evictions[key]; known {
		return
	}
	if !c.holds(key.pod) && len(c.evictions) >= c.limits.Foreign {
		c.dropped++
		return
	}
	e := &eviction{key: key, asked: d, since: c.now, retry: c.limits.Retry}
	c.evictions[key] = e
	e.advance(c)
}

// evictionSettled: an outcome stands in the log, whoever wrote it.
func (c *Core) evictionSettled(key attempt) {
	if e, ok := c.evictions[key]; ok && e.op == 0 && !e.done {
		e.done, e.since = true, c.now
	}
}

func (e *eviction) advance(c *Core) {
	if e.done || e.op != 0 || c.facts.Cluster == nil || c.now.Before(e.due) || !c.mayAct(e.key.pod) {
		return
	}
	if e.step == lookingBack {
		e.look(c, lookingBack)
		return
	}
	p, known, _ := c.pod(e.key.pod, 0)
	switch {
	case !known && c.facts.Sequence < e.asked.FactSequence:
		return // the decision saw more of the log than we have
	case !known:
		e.finish(c, events.DecisionEvicted, "the pod was gone already")
	case p.Deleting:
		e.finish(c, events.DecisionEvicted, "the pod was being deleted already")
	default:
		e.begin(c, c.facts.Cluster.BudgetsOf(p))
	}
}

func (e *eviction) begin(c *Core, budgets int) {
	switch {
	case budgets > 1:
		e.finish(c, events.DecisionEvictRefused,
			"more than one disruption budget covers the pod, which the eviction API does not support")
	case budgets == 1:
		e.look(c, looking)
	default:
		e.evict(c, false)
	}
}

func (e *eviction) look(c *Core, s evictionStep) {
	e.step = s
	e.op = c.start(e)
	c.emit(ReadPod{Op: e.op, Pod: e.asked.Pod})
}

func (e *eviction) evict(c *Core, dry bool) {
	e.step = evicting
	if dry {
		e.step = trying
	}
	e.op = c.start(e)
	c.emit(Evict{
		Op: e.op, Pod: e.asked.Pod, DryRun: dry, GracePeriodSeconds: e.asked.GracePeriodSeconds,
		Strategy: e.asked.Strategy, TraceParent: e.asked.TraceParent,
	})
}

func (e *eviction) answered(c *Core, in Input) {
	e.op = 0
	a, ok := in.(Answered)
	if !ok {
		return
	}
	switch e.step {
	case looking, lookingBack:
		e.looked(c, a)
	case trying:
		e.tried(c, a)
	case evicting:
		e.evicted(c, a)
	}
}

func (e *eviction) looked(c *Core, a Answered) {
	switch {
	case a.Result == Gone:
		e.finish(c, events.DecisionEvicted, "the pod is gone")
	case a.Result == Done && a.Pod.Deleting:
		e.finish(c, events.DecisionEvicted, "the pod is being deleted")
	case a.Result == Done && e.step == lookingBack:
		e.finish(c, events.DecisionEvictRefused, "the eviction got no answer, and the pod is still running")
	case a.Result == Done && !c.mayAct(e.key.pod):
		e.step = 0
	case a.Result == Done:
		e.evict(c, true)
	default:
		e.readAgain(c, a)
	}
}

// readAgain repeats a read, which spends nothing, a bounded number of times.
func (e *eviction) readAgain(c *Core, a Answered) {
	e.reads++
	if e.reads >= c.limits.EvictionReads {
		e.finish(c, events.DecisionEvictRefused, "the pod could not be read: "+a.Problem)
		return
	}
	var pause time.Duration
	pause, e.retry = nextTry(e.retry)
	e.due = c.now.Add(pause)
}

func (e *eviction) tried(c *Core, a Answered) {
	switch {
	case a.Result == Done && !c.mayAct(e.key.pod):
		e.step = 0
	case a.Result == Done:
		e.evict(c, false)
	case a.Result == Gone:
		e.finish(c, events.DecisionEvicted, "the pod is gone")
	default:
		e.finish(c, events.DecisionEvictRefused, "dry run: "+a.Problem)
	}
}

func (e *eviction) evicted(c *Core, a Answered) {
	switch a.Result {
	case Done:
		e.finish(c, events.DecisionEvicted, "")
	case Gone:
		e.finish(c, events.DecisionEvicted, "the pod is gone")
	case Unknown:
		e.step = lookingBack
		e.advance(c)
	default:
		e.finish(c, events.DecisionEvictRefused, a.Problem)
	}
}

func (e *eviction) finish(c *Core, kind events.DecisionKind, message string) {
	e.done, e.since = true, c.now
	d := e.asked
	d.Kind, d.Message = kind, message
	c.publish(d)
}
