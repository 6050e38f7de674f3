package decide

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/state"
)

// A namespace may have a budget (in an annotation), and its pods a gate (from an admission policy). A pod whose last
// gate this is waits, by priority and then by arrival, until the budget has room for it; the binder then removes the
// gate. Every pod of the namespace counts against the budget that has not ended and has no such gate, and so does
// every pod whose gate is about to be removed. A pod that would fit does not overtake the head of the queue.
//
// A decision to let a pod go is not withdrawn: binders that cannot reach the API server repeat the removal, and the
// queue requests it again. So the pod counts, under every leader, until the facts show it without its gate or gone;
// see leaving.go. The log may lose the decision, though, after a binder has read it. So binders try for a bounded
// time (events.UngateFor), and a new leader waits longer than that (quotaSettle) before it lets other pods go.
//
// Namespaces take turns by deficit round robin (Shreedhar, Varghese: Efficient Fair Queuing using Deficit Round
// Robin, 1995). With each turn a namespace may let go another quotaQuantum of CPU, so that a namespace with many pods
// does not delay the others while the binders are busy. For a pod that was let go and still has its gate after
// quotaPatience, the removal is requested again before other pods of its namespace are let go.
const (
	// QuotaAnnotation holds a namespace's budget, as "requests.cpu=4,requests.memory=8Gi,pods=10": each resource at
	// most once; a resource that is left out is not limited.
	QuotaAnnotation = "berth.dev/quota"
	// quotaQuantum is in milli-CPU; a pod costs at least quotaLeast.
	quotaQuantum = 1000
	quotaLeast   = 100
	// quotaAtOnce is how many removals may be outstanding at the same time.
	quotaAtOnce = 256
	// quotaPatience is how long the binders have to remove a gate.
	quotaPatience = events.UngateFor
	// quotaSettle is how long a new leader lets no pod go where there is a budget. It is longer than a removal can
	// take that the leader before it requested.
	quotaSettle = quotaPatience + 15*time.Second
)

// amounts are the resources that budgets limit.
type amounts struct{ milliCPU, memory, pods int64 }

func (a amounts) plus(b amounts) amounts {
	return amounts{a.milliCPU + b.milliCPU, a.memory + b.memory, a.pods + b.pods}
}

func (a amounts) minus(b amounts) amounts {
	return amounts{a.milliCPU - b.milliCPU, a.memory - b.memory, a.pods - b.pods}
}

// within reports whether a fits a budget, in which a negative amount means no limit.
func (a amounts) within(budget amounts) bool {
	fits := func(amount, limit int64) bool { return limit < 0 || amount <= limit }
	return fits(a.milliCPU, budget.milliCPU) && fits(a.memory, budget.memory) && fits(a.pods, budget.pods)
}

func (a amounts) String() string {
	return fmt.Sprintf("requests.cpu=%s requests.memory=%s pods=%d",
		resource.NewMilliQuantity(a.milliCPU, resource.DecimalSI), resource.NewQuantity(a.memory, resource.BinarySI), a.pods)
}

var unlimited = amounts{-1, -1, -1}

func asks(p *state.Pod) amounts { return amounts{p.Requests.MilliCPU, p.Requests.Memory, 1} }

// counted returns what a pod counts against the budget of its namespace.
func counted(p *state.Pod) amounts {
	if p == nil || p.Terminal || hasQuotaGate(p) {
		return amounts{}
	}
	return asks(p)
}

func hasQuotaGate(p *state.Pod) bool {
	return p.Gated && slices.ContainsFunc(p.Template.Spec.SchedulingGates, isQuotaGate)
}

// waitsForQuota reports whether the quota gate is the last gate of a pod.
func waitsForQuota(p *state.Pod) bool {
	return p.Gated && len(p.Template.Spec.SchedulingGates) == 1 && hasQuotaGate(p)
}

func isQuotaGate(g corev1.PodSchedulingGate) bool { return g.Name == events.QuotaGate }

// parseQuota parses a budget.
func parseQuota(text string) (amounts, error) {
	budget := unlimited
	for part := range strings.SplitSeq(text, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		q, err := resource.ParseQuantity(value)
		if err != nil || q.Sign() < 0 {
			return amounts{}, fmt.Errorf("%s is %q, want a quantity of 0 or more", name, value)
		}
		limit, amount := &budget.pods, q.Value()
		switch name {
		case "requests.cpu":
			limit, amount = &budget.milliCPU, q.MilliValue()
		case "requests.memory":
			limit = &budget.memory
		case "pods":
		default:
			return amounts{}, fmt.Errorf("%q is unknown, want requests.cpu, requests.memory or pods", name)
		}
		if *limit >= 0 {
			return amounts{}, fmt.Errorf("%s stands twice, want it once", name)
		}
		*limit = amount
	}
	return budget, nil
}

// quotas are the budgets of all namespaces and the pods let go under them.
type quotas struct {
	spaces map[string]*space
	// turns are the namespaces that may let a pod go, in their order; none on a replica that does not lead.
	turns []*space
	// leaving holds the pods that were let go, by UID, and hidden those that the facts have not shown.
	leaving, hidden map[string]*leaving
	// asked counts the pods in leaving that are not late. If there are any, no removal is overdue before due.
	asked int
	due   moment
	// settles is until when a new leader waits for removals that it may not know of; 0 once it has.
	settles moment
}

// space is one namespace.
type space struct {
	name string
	// used is what the namespace's pods count for, and leaving what those count for whose gate is about to be
	// removed.
	used, leaving amounts
	budget        amounts
	// problem describes what is wrong with the annotation. No pod is let go until it is fixed.
	problem string
	// waiting are the pods that wait for room, in order.
	waiting *heapOf
	// late holds the UIDs of pods whose removal a leader must request again, the longest late first. It may also hold
	// some that are gone.
	late    []string
	deficit int64
	inTurn  bool
}

func newQuotas() quotas {
	return quotas{spaces: map[string]*space{}, leaving: map[string]*leaving{}, hidden: map[string]*leaving{}}
}

func (q *quotas) space(name string) *space {
	s, ok := q.spaces[name]
	if !ok {
		s = &space{name: name, budget: unlimited, waiting: &heapOf{slot: slotEarly, less: before}}
		q.spaces[name] = s
	}
	return s
}

// forget drops a namespace with nothing to remember. Clusters may create and delete any number of namespaces.
func (q *quotas) forget(s *space) {
	if s.used == (amounts{}) && s.leaving == (amounts{}) && s.budget == unlimited && s.problem == "" &&
		s.waiting.first() == nil && len(s.late) == 0 && !s.inTurn {
		delete(q.spaces, s.name)
	}
}

// turn gives a namespace a turn if it could use one. Only a leader gives turns.
func (c *Core) turn(s *space) {
	if !c.leases.leading || s.inTurn {
		return
	}
	if len(s.late) > 0 || c.quotas.lets(s) {
		s.inTurn = true
		c.quotas.turns = append(c.quotas.turns, s)
	}
}

// turnAll gives a turn to every namespace that could use one.
func (c *Core) turnAll() {
	for _, name := range slices.Sorted(maps.Keys(c.quotas.spaces)) {
		c.turn(c.quotas.spaces[name])
	}
}

// endTurns ends all turns with a leader's term. Removals to be requested again are overdue at once under the
// replica's next term.
func (c *Core) endTurns() {
	q := &c.quotas
	for _, l := range q.leaving {
		if l.late {
			q.ask(l, l.until)
		}
	}
	q.turns = nil
	for _, s := range q.spaces {
		s.late = nil
		s.deficit = 0
		s.inTurn = false
		q.forget(s)
	}
}

// lets reports whether the first pod in a namespace's queue may go now.
func (q *quotas) lets(s *space) bool {
	e := s.waiting.first()
	return e != nil && s.hasRoom(e) && (q.settles == 0 || s.budget == unlimited)
}

// settle ends a new leader's wait when its time is up.
func (c *Core) settle(now moment) {
	if c.quotas.settles == 0 || now < c.quotas.settles {
		return
	}
	c.quotas.settles = 0
	c.turnAll()
}

// headMoved gives a turn to a namespace in whose queue a pod has left or moved: the new head may find room.
func (c *Core) headMoved(e *entry) {
	if s, ok := c.quotas.spaces[e.pod.Namespace]; ok && e.early == s.waiting {
		c.turn(s)
		c.quotas.forget(s)
	}
}

func (s *space) hasRoom(e *entry) bool {
	return s.problem == "" && s.used.plus(s.leaving).plus(asks(e.pod)).within(s.budget)
}

// budgetChanged applies a namespace as it is now; nil if it is gone.
func (c *Core) budgetChanged(name string, now *state.Object) {
	s := c.quotas.space(name)
	s.budget, s.problem = unlimited, ""
	if now != nil {
		c.readBudget(s, now)
	}
	c.turn(s)
	c.quotas.forget(s)
}

func (c *Core) readBudget(s *space, from *state.Object) {
	text, ok := from.API.GetAnnotations()[QuotaAnnotation]
	if !ok {
		return
	}
	budget, err := parseQuota(text)
	if err != nil {
		s.problem = fmt.Sprintf("namespace %s: annotation %s: %v", s.name, QuotaAnnotation, err)
		c.out.complaints = append(c.out.complaints, Complaint{Text: s.problem})
		return
	}
	s.budget = budget
}

// usageChanged applies a pod of any scheduler as it was and as it is.
func (c *Core) usageChanged(before, after *state.Pod) {
	p := after
	if p == nil {
		p = before
	}
	s := c.quotas.space(p.Namespace)
	s.used = s.used.plus(counted(after)).minus(counted(before))
	c.quotas.shown(p.UID, s, after)
	c.turn(s)
	c.quotas.forget(s)
}

// resetUsage recounts all pods and queues those that wait again. Pods that were let go stay let go.
func (c *Core) resetUsage(in FactsReset) {
	was := c.quotas
	for _, e := range c.bags.gated.all {
		c.notEarly(e)
	}
	c.quotas = newQuotas()
	c.quotas.settles = was.settles
	for _, some := range []map[string]*leaving{was.leaving, was.hidden} {
		maps.Copy(c.quotas.hidden, some)
	}
	if in.Objects != nil {
		for o := range in.Objects.Objects(events.KindNamespace) {
			c.budgetChanged(o.Name, o)
		}
	}
	for _, p := range in.Pods {
		c.usageChanged(nil, p)
	}
	for _, e := range c.bags.gated.all {
		c.queueForQuota(e)
	}
}

// queueForQuota queues a gated pod for room, if it waits for nothing else. For one that is queued already, it applies
// a change of its requests.
func (c *Core) queueForQuota(e *entry) {
	if _, going := c.quotas.leaving[e.pod.UID]; going || !waitsForQuota(e.pod) {
		return
	}
	s := c.quotas.space(e.pod.Namespace)
	if e.early == nil {
		e.early = s.waiting
		s.waiting.put(e)
	}
	c.turn(s)
}

// admit lets pods go whose namespaces have room, in turns, once all decisions of earlier leaders have been read.
func (c *Core) admit(now moment) {
	if !c.leases.leading || !c.history.caughtUp || c.history.sequence < c.leases.decided {
		return
	}
	q := &c.quotas
	c.settle(now)
	c.overdue(now)
	for len(q.turns) > 0 && q.asked < quotaAtOnce {
		s := q.turns[0]
		q.turns = q.turns[1:]
		s.inTurn = false
		s.deficit += quotaQuantum
		for e := c.mayGo(s); e != nil && q.asked < quotaAtOnce; e = c.mayGo(s) {
			cost := max(e.pod.Requests.MilliCPU, quotaLeast)
			if cost > s.deficit {
				break
			}
			s.deficit -= cost
			c.letGo(e, s, now)
		}
		if c.turn(s); !s.inTurn {
			s.deficit = 0
			q.forget(s)
		}
	}
}

// mayGo returns the pod of a namespace that is let go next, or once more; nil for none.
func (c *Core) mayGo(s *space) *entry {
	for len(s.late) > 0 {
		uid := s.late[0]
		if l, ok := c.quotas.leaving[uid]; ok && l.late {
			if e, ok := c.pods[uid]; ok && e.in == c.bags.gated {
				return e
			}
		}
		s.late = s.late[1:]
	}
	if c.quotas.lets(s) {
		return s.waiting.first()
	}
	return nil
}

// letGo requests the removal of a pod's gate.
func (c *Core) letGo(e *entry, s *space, now moment) {
	if l, again := c.quotas.leaving[e.pod.UID]; again {
		s.late = s.late[1:]
		c.quotas.ask(l, now.add(quotaPatience))
	} else {
		s.waiting.drop(e)
		e.early = nil
		f := c.world.facts
		c.quotas.goes(s, e.pod, &leaving{until: now.add(quotaPatience), sequence: f.Sequence, epoch: f.Epoch})
	}
	c.out.records = append(c.out.records, Record{Decision: events.Decision{
		Kind: events.DecisionUngate, Pod: podRef(e), SchedulerName: e.pod.SchedulerName, Actor: c.cfg.Queue,
		Token: c.newToken().String(), FactSequence: c.world.facts.Sequence, FactEpoch: c.world.facts.Epoch,
		LedgerRevision: c.world.revision, PodResourceVersion: e.pod.ResourceVersion,
	}})
}

// quotaReason explains what a pod behind its quota gate waits for.
func (c *Core) quotaReason(e *entry) string {
	s := c.quotas.space(e.pod.Namespace)
	if s.problem != "" {
		return s.problem
	}
	if _, going := c.quotas.leaving[e.pod.UID]; going {
		return "its namespace has room for it; its gate is about to go"
	}
	return fmt.Sprintf("waits for room in the budget of namespace %s, in use: %s", s.name, s.used.plus(s.leaving))
}

func nameOf(o state.ObjectChange) string {
	if o.After != nil {
		return o.After.Name
	}
	return o.Before.Name
}
