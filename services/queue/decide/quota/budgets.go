package quota

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/placement/rule"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/services/queue/decide/heap"
)

const (
	// quantum is how much a namespace may release in each turn, in milli-CPU; a pod costs at least leastCost.
	quantum   = 1000
	leastCost = 100
	// MaxOutstanding is how many removals may be outstanding at the same time.
	MaxOutstanding = 256
	// RemovalTime is how long the binders have to remove a gate.
	RemovalTime = events.UngateFor
	// SettleTime is how long a new leader lets no pod go where there is a budget. It is longer than a removal can take
	// that the leader before it requested.
	SettleTime = RemovalTime + 15*time.Second
)

// Budgets are the budgets of all namespaces, the pods that wait for room in them, and the pods let go under them. It
// is for one goroutine.
type Budgets struct {
	namespaces map[string]*namespace
	// gated holds the pods that wait for their gates, by UID.
	gated map[string]*waiter
	// leads means that this replica leads. Only a leader gives turns.
	leads bool
	// turns are the namespaces that may let a pod go, in their order; none on a replica that does not lead.
	turns []*namespace
	// Leaving holds the pods that were let go and still have their gate.
	Leaving Departures
	// settleUntil is until when a new leader waits for removals that it may not know of; zero once it has.
	settleUntil time.Time
}

// New returns the budgets of a cluster without namespaces.
func New() *Budgets {
	return &Budgets{namespaces: map[string]*namespace{}, gated: map[string]*waiter{}, Leaving: newDepartures()}
}

// namespaceOf returns a namespace by name. One that is not known is added, without a limit.
func (b *Budgets) namespaceOf(name string) *namespace {
	s, ok := b.namespaces[name]
	if !ok {
		at := func(w *waiter) *int32 { return &w.index }
		s = &namespace{name: name, budget: unlimited, waiting: heap.New(waitsBefore, at)}
		b.namespaces[name] = s
	}
	return s
}

// forget drops a namespace with nothing to remember. Clusters may create and delete any number of namespaces.
func (b *Budgets) forget(s *namespace) {
	if s.used == (Amounts{}) && s.leaving == (Amounts{}) && s.budget == unlimited && s.problem == "" &&
		s.waiting.Len() == 0 && len(s.overdue) == 0 && !s.inTurn {
		delete(b.namespaces, s.name)
	}
}

// NamespaceChanged applies a namespace as it is now; nil if it is gone. It returns what is wrong with its budget, ""
// for nothing.
func (b *Budgets) NamespaceChanged(name string, now *state.Object) (problem string) {
	s := b.namespaceOf(name)
	s.budget, s.problem = unlimited, ""
	if now != nil {
		s.readBudget(now)
	}
	b.enqueueTurn(s)
	b.forget(s)
	return s.problem
}

// PodChanged applies a pod of any scheduler as it was and as it is.
func (b *Budgets) PodChanged(before, after *state.Pod) {
	p := after
	if p == nil {
		p = before
	}
	s := b.namespaceOf(p.Namespace)
	s.used = s.used.Plus(Counted(after)).minus(Counted(before))
	b.Leaving.shown(p.UID, s, after)
	b.enqueueTurn(s)
	b.forget(s)
}

// Reset recounts all pods and namespaces. Pods that were let go stay let go. The caller then enters the gated pods
// again. Reset returns what is wrong with the budgets.
func (b *Budgets) Reset(pods []*state.Pod, objects rule.Objects) (problems []string) {
	was := *b
	*b = *New()
	b.leads, b.settleUntil = was.leads, was.settleUntil
	b.Leaving.hide(was.Leaving)
	if objects != nil {
		for o := range objects.Objects(events.KindNamespace) {
			if problem := b.NamespaceChanged(o.Name, o); problem != "" {
				problems = append(problems, problem)
			}
		}
	}
	for _, p := range pods {
		b.PodChanged(nil, p)
	}
	return problems
}

// Enter records a pod that now waits for its gates. queued and serial order pods of one priority.
func (b *Budgets) Enter(p *state.Pod, queued time.Time, serial uint64) {
	w := &waiter{pod: p, queued: queued, serial: serial}
	b.gated[p.UID] = w
	b.enqueue(w)
}

// Update applies a change of a pod that waits for its gates.
func (b *Budgets) Update(p *state.Pod) {
	w := b.gated[p.UID]
	w.pod = p
	if !Waits(p) {
		b.dequeue(w)
	}
	b.enqueue(w)
}

// Reorder applies a change of a pod's priority, if the pod waits for its gates.
func (b *Budgets) Reorder(p *state.Pod) {
	if w, ok := b.gated[p.UID]; ok && w.waits {
		w.pod = p
		s := b.namespaceOf(p.Namespace)
		s.waiting.Fix(w)
		b.headMoved(s)
	}
}

// Leave records that a pod no longer waits for its gates.
func (b *Budgets) Leave(uid string) {
	if w, ok := b.gated[uid]; ok {
		b.dequeue(w)
		delete(b.gated, uid)
	}
}

// enqueue queues a gated pod for room, if it waits for nothing else. For one that is queued already, it applies a
// change of its requests.
func (b *Budgets) enqueue(w *waiter) {
	if _, going := b.Leaving.known[w.pod.UID]; going || !Waits(w.pod) {
		return
	}
	s := b.namespaceOf(w.pod.Namespace)
	if !w.waits {
		w.waits = true
		s.waiting.Put(w)
	}
	b.enqueueTurn(s)
}

// dequeue takes a pod out of the queue of its namespace, if it is in it.
func (b *Budgets) dequeue(w *waiter) {
	if !w.waits {
		return
	}
	w.waits = false
	s := b.namespaceOf(w.pod.Namespace)
	s.waiting.Drop(w)
	b.headMoved(s)
}

// headMoved gives a turn to a namespace in whose queue a pod has left or moved: the new head may find room.
func (b *Budgets) headMoved(s *namespace) {
	b.enqueueTurn(s)
	b.forget(s)
}

// enqueueTurn gives a namespace a turn if it could use one. Only a leader gives turns.
func (b *Budgets) enqueueTurn(s *namespace) {
	if !b.leads || s.inTurn {
		return
	}
	if len(s.overdue) > 0 || b.mayRelease(s) {
		s.inTurn = true
		b.turns = append(b.turns, s)
	}
}

// enqueueTurns gives a turn to every namespace that could use one.
func (b *Budgets) enqueueTurns() {
	for _, name := range slices.Sorted(maps.Keys(b.namespaces)) {
		b.enqueueTurn(b.namespaces[name])
	}
}

// Lead begins a leader's term. It lets no pod go where there is a budget before SettleTime has passed, even if the
// log is empty, because the log may have lost everything.
func (b *Budgets) Lead(now time.Time) {
	b.leads = true
	b.settleUntil = now.Add(SettleTime)
	b.enqueueTurns()
}

// StepDown ends a leader's term, and all turns with it. Decisions of the term that the log does not have are dropped.
// Removals to be requested again are overdue at once under the replica's next term.
func (b *Budgets) StepDown() {
	b.leads = false
	b.forgetUnrecorded()
	b.Leaving.restart()
	b.turns = nil
	for _, s := range b.namespaces {
		s.overdue = nil
		s.deficit = 0
		s.inTurn = false
		b.forget(s)
	}
}

// mayRelease reports whether the first pod in a namespace's queue may go now.
func (b *Budgets) mayRelease(s *namespace) bool {
	w := s.waiting.First()
	return w != nil && s.hasRoom(w) && (b.settleUntil.IsZero() || s.budget == unlimited)
}

// EndWait ends a new leader's wait when its time is up.
func (b *Budgets) EndWait(now time.Time) {
	if b.settleUntil.IsZero() || now.Before(b.settleUntil) {
		return
	}
	b.settleUntil = time.Time{}
	b.enqueueTurns()
}

// Admit returns the pods whose gate is to be removed now, in order: those whose namespaces have room, in turns, and
// those whose removal is overdue. The caller has read all decisions of earlier leaders, and records a decision for each
// pod that is returned. at is the position of the facts that these decisions name.
//
// Each turn adds a quantum to the namespace's deficit, and each pod costs its CPU, so that a pod that is more expensive
// than a quantum waits for several turns and not for ever. A namespace that could go on is enqueued again at the end of
// the turns. Admit stops at MaxOutstanding removals: the binders would only queue more of them, in this order, while
// later pods of a higher priority could no longer overtake.
func (b *Budgets) Admit(now time.Time, at Facts) (pods []*state.Pod) {
	b.EndWait(now)
	for _, s := range b.Leaving.markOverdue(now) {
		b.enqueueTurn(s)
	}
	for len(b.turns) > 0 && b.Leaving.requested < MaxOutstanding {
		s := b.turns[0]
		b.turns = b.turns[1:]
		s.inTurn = false
		s.deficit += quantum
		for w := b.next(s); w != nil && b.Leaving.requested < MaxOutstanding; w = b.next(s) {
			cost := max(w.pod.Requests.MilliCPU, leastCost)
			if cost > s.deficit {
				break
			}
			s.deficit -= cost
			b.release(w, s, now, at)
			pods = append(pods, w.pod)
		}
		if b.enqueueTurn(s); !s.inTurn {
			s.deficit = 0
			b.forget(s)
		}
	}
	return pods
}

// next returns the pod of a namespace that is let go next, or once more; nil for none.
func (b *Budgets) next(s *namespace) *waiter {
	for len(s.overdue) > 0 {
		uid := s.overdue[0]
		if l, ok := b.Leaving.known[uid]; ok && l.overdue {
			if w, ok := b.gated[uid]; ok {
				return w
			}
		}
		s.overdue = s.overdue[1:]
	}
	if b.mayRelease(s) {
		return s.waiting.First()
	}
	return nil
}

// release counts the pod as one whose gate is about to be removed.
func (b *Budgets) release(w *waiter, s *namespace, now time.Time, at Facts) {
	if l, again := b.Leaving.known[w.pod.UID]; again {
		s.overdue = s.overdue[1:]
		b.Leaving.startRemoval(l, now.Add(RemovalTime))
		return
	}
	s.waiting.Drop(w)
	w.waits = false
	b.Leaving.add(s, w.pod, &departure{until: now.Add(RemovalTime), sequence: at.Sequence, epoch: at.Epoch})
}

// Recorded records that the log has the decision to let a pod go, made by this leader or another. p is the pod, nil if
// the facts do not show it as one that waits to be placed.
func (b *Budgets) Recorded(d *events.Decision, p *state.Pod, at Facts, now time.Time) {
	uid := d.Pod.UID
	until := now.Add(RemovalTime)
	if b.Leaving.confirm(uid, until) {
		return
	}
	l := &departure{until: until, recorded: true, sequence: d.FactSequence, epoch: d.FactEpoch}
	switch {
	case p != nil && HasGate(p):
		if w, ok := b.gated[uid]; ok {
			b.dequeue(w)
		}
		b.Leaving.add(b.namespaceOf(p.Namespace), p, l)
	case p == nil && !l.wouldShow(at):
		b.Leaving.addHidden(uid, l)
	}
}

// forgetUnrecorded drops, at the end of a leader's term, its decisions that the log does not have. Their pods wait for
// room again.
func (b *Budgets) forgetUnrecorded() {
	for _, uid := range b.Leaving.dropUnrecorded() {
		if w, ok := b.gated[uid]; ok {
			b.enqueue(w)
		}
	}
}

// Next returns the next time after now at which Admit may let a pod go without another input; zero for never.
func (b *Budgets) Next(now time.Time) (next time.Time) {
	if !b.leads {
		return next
	}
	for _, at := range []time.Time{b.Leaving.due, b.settleUntil} {
		if at.After(now) && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	return next
}

// Reason explains what a pod behind its quota gate waits for.
func (b *Budgets) Reason(p *state.Pod) string {
	s := b.namespaceOf(p.Namespace)
	if s.problem != "" {
		return s.problem
	}
	if _, going := b.Leaving.known[p.UID]; going {
		return "its namespace has room for it; its gate is about to go"
	}
	return fmt.Sprintf("waits for room in the budget of namespace %s, in use: %s", s.name, s.used.Plus(s.leaving))
}
