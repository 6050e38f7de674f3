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

// A namespace may have a budget (an annotation of it), and its pods a gate (of an admission
// policy). A pod whose last gate this is waits, by priority and then by arrival, until the
// budget has room for it; the binder then removes the gate. What counts against a budget is
// every pod of the namespace that has not ended and has no such gate, and those whose gate
// is about to go. The head of the line is not overtaken by what would fit.
//
// A decision to let a pod go is not taken back: binders that cannot reach the API server repeat the removal, and it
// is asked for again. So the pod counts, under every leader, until the facts show it without its gate or gone: see
// leaving.go. The log may lose the decision, though, after a binder has read it. So binders try for a bounded time
// (events.UngateFor), and a new leader waits longer than that (quotaSettle) before it lets other pods go.
//
// Namespaces take turns by deficit round robin (Shreedhar, Varghese: Efficient Fair Queuing
// using Deficit Round Robin, 1995): with each turn a namespace may let go of another
// quotaQuantum of CPU, so that one with many pods does not hold up the others while the
// binders are busy. A pod that was let go and still has its gate after quotaPatience is
// asked about again, before other pods of its namespace are let go.
const (
	// QuotaAnnotation is where a namespace states its budget, as
	// "requests.cpu=4,requests.memory=8Gi,pods=10": each at most once, what is left out is
	// not limited.
	QuotaAnnotation = "berth.dev/quota"
	// quotaQuantum is in milli-CPU; a pod costs at least quotaLeast.
	quotaQuantum = 1000
	quotaLeast   = 100
	// quotaAtOnce is how many gates may be asked about at the same time.
	quotaAtOnce = 256
	// quotaPatience is how long the binders have.
	quotaPatience = events.UngateFor
	// quotaSettle is how long a new leader lets no pod go where there is a budget: longer than a removal may take
	// that the leader before asked for.
	quotaSettle = quotaPatience + 15*time.Second
)

// amounts are what budgets are about.
type amounts struct{ milliCPU, memory, pods int64 }

func (a amounts) plus(b amounts) amounts {
	return amounts{a.milliCPU + b.milliCPU, a.memory + b.memory, a.pods + b.pods}
}

func (a amounts) minus(b amounts) amounts {
	return amounts{a.milliCPU - b.milliCPU, a.memory - b.memory, a.pods - b.pods}
}

// within says whether a fits a budget, of which a negative amount is no limit.
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

// counted is what a pod counts as against the budget of its namespace.
func counted(p *state.Pod) amounts {
	if p == nil || p.Terminal || hasQuotaGate(p) {
		return amounts{}
	}
	return asks(p)
}

func hasQuotaGate(p *state.Pod) bool {
	return p.Gated && slices.ContainsFunc(p.Template.Spec.SchedulingGates, isQuotaGate)
}

// waitsForQuota says whether the quota gate is the last one of a pod.
func waitsForQuota(p *state.Pod) bool {
	return p.Gated && len(p.Template.Spec.SchedulingGates) == 1 && hasQuotaGate(p)
}

func isQuotaGate(g corev1.PodSchedulingGate) bool { return g.Name == events.QuotaGate }

// parseQuota reads a budget.
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

// quotas are the budgets.
type quotas struct {
	spaces map[string]*space
	// turns are the namespaces that may let a pod go, in their order; none on a replica that does not lead.
	turns []*space
	// leaving are the pods that were let go, by UID, hidden those of them that the facts have not shown.
	leaving, hidden map[string]*leaving
	// asked counts those of leaving that are not late. No removal is overdue before due, if there are any.
	asked int
	due   moment
	// settles is until when a new leader waits for removals that it may not know of; 0 when it has.
	settles moment
}

// space is one namespace.
type space struct {
	name string
	// used is what its pods count as, leaving what those do whose gate is about to go.
	used, leaving amounts
	budget        amounts
	// problem is what is wrong with the annotation; nobody goes until it is mended.
	problem string
	// waiting are the pods that wait for room, in order.
	waiting *heapOf
	// late are the UIDs of those that a leader is to ask about again, the longest late first, and of some that have gone.
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

// forget drops a namespace of which nothing is to be remembered. Clusters may make and delete any number of them.
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

// turnAll gives every namespace a turn that could use one.
func (c *Core) turnAll() {
	for _, name := range slices.Sorted(maps.Keys(c.quotas.spaces)) {
		c.turn(c.quotas.spaces[name])
	}
}

// endTurns ends all turns with a leader's term. Those to be asked about again are overdue under its next one.
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

// lets reports whether the first of a namespace's line may go now.
func (q *quotas) lets(s *space) bool {
	e := s.waiting.first()
	return e != nil && s.hasRoom(e) && (q.settles == 0 || s.budget == unlimited)
}

// settle ends a new leader's wait when it is over.
func (c *Core) settle(now moment) {
	if c.quotas.settles == 0 || now < c.quotas.settles {
		return
	}
	c.quotas.settles = 0
	c.turnAll()
}

// headMoved gives a namespace a turn whose line a pod has left, or moved in: who is first
// now may find room.
func (c *Core) headMoved(e *entry) {
	if s, ok := c.quotas.spaces[e.pod.Namespace]; ok && e.early == s.waiting {
		c.turn(s)
		c.quotas.forget(s)
	}
}

func (s *space) hasRoom(e *entry) bool {
	return s.problem == "" && s.used.plus(s.leaving).plus(asks(e.pod)).within(s.budget)
}

// budgetChanged takes in a namespace as it is now; nil for one that is gone.
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

// usageChanged takes in a pod of any scheduler as it was and as it is.
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

// resetUsage counts all pods again, and puts those that wait in line again. Those that were let
// go still are.
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

// queueForQuota lets a gated pod wait for room, if there is nothing else that it waits for.
// For one that waits already, it takes in that it asks for something else now.
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

// admit lets pods go whose namespaces have room, in turns, once it is known whom the leader before has let go.
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

// mayGo is the pod of a namespace that is let go next, or once more; nil for none.
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

// letGo asks for the removal of a pod's gate.
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

// quotaReason says what a pod that waits for its quota gate waits for.
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
