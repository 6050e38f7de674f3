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
	// AtOnce is how many removals may be outstanding at the same time.
	AtOnce = 256
	// Patience is how long the binders have to remove a gate.
	Patience = events.UngateFor
	// SettleTime is how long a new leader lets no pod go where there is a budget. It is longer than a removal can take
	// that the leader before it requested.
	SettleTime = Patience + 15*time.Second
)

// Budgets are the budgets of all namespaces, the pods that wait for room in them, and the pods let go under them. It
// is for one goroutine.
type Budgets struct {
	spaces map[string]*space
	// gated holds the pods that wait for their gates, by UID.
	gated map[string]*waiter
	// leads means that this replica leads. Only a leader gives turns.
	leads bool
	// turns are the namespaces that may let a pod go, in their order; none on a replica that does not lead.
	turns []*space
	// Leaving holds the pods that were let go and still have their gate.
	Leaving Departures
	// settles is until when a new leader waits for removals that it may not know of; zero once it has.
	settles time.Time
}

// New returns the budgets of a cluster without namespaces.
func New() *Budgets {
	return &Budgets{spaces: map[string]*space{}, gated: map[string]*waiter{}, Leaving: newDepartures()}
}

func (b *Budgets) space(name string) *space {
	s, ok := b.spaces[name]
	if !ok {
		s = &space{name: name, budget: unlimited, waiting: heap.New(waitsBefore, func(w *waiter) *int32 { return &w.index })}
		b.spaces[name] = s
	}
	return s
}

// forget drops a namespace with nothing to remember. Clusters may create and delete any number of namespaces.
func (b *Budgets) forget(s *space) {
	if s.used == (Amounts{}) && s.leaving == (Amounts{}) && s.budget == unlimited && s.problem == "" &&
		s.waiting.Len() == 0 && len(s.overdue) == 0 && !s.inTurn {
		delete(b.spaces, s.name)
	}
}

// NamespaceChanged applies a namespace as it is now; nil if it is gone. It returns what is wrong with its budget, ""
// for nothing.
func (b *Budgets) NamespaceChanged(name string, now *state.Object) (problem string) {
	s := b.space(name)
	s.budget, s.problem = unlimited, ""
	if now != nil {
		s.readBudget(now)
	}
	b.turn(s)
	b.forget(s)
	return s.problem
}

// PodChanged applies a pod of any scheduler as it was and as it is.
func (b *Budgets) PodChanged(before, after *state.Pod) {
	p := after
	if p == nil {
		p = before
	}
	s := b.space(p.Namespace)
	s.used = s.used.Plus(Counted(after)).minus(Counted(before))
	b.Leaving.shown(p.UID, s, after)
	b.turn(s)
	b.forget(s)
}

// Reset recounts all pods and namespaces. Pods that were let go stay let go. The caller then enters the gated pods
// again. Reset returns what is wrong with the budgets.
func (b *Budgets) Reset(pods []*state.Pod, objects rule.Objects) (problems []string) {
	was := *b
	*b = *New()
	b.leads, b.settles = was.leads, was.settles
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
		s := b.space(p.Namespace)
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
	s := b.space(w.pod.Namespace)
	if !w.waits {
		w.waits = true
		s.waiting.Put(w)
	}
	b.turn(s)
}

func (b *Budgets) dequeue(w *waiter) {
	if !w.waits {
		return
	}
	w.waits = false
	s := b.space(w.pod.Namespace)
	s.waiting.Drop(w)
	b.headMoved(s)
}

// headMoved gives a turn to a namespace in whose queue a pod has left or moved: the new head may find room.
func (b *Budgets) headMoved(s *space) {
	b.turn(s)
	b.forget(s)
}

// turn gives a namespace a turn if it could use one. Only a leader gives turns.
func (b *Budgets) turn(s *space) {
	if !b.leads || s.inTurn {
		return
	}
	if len(s.overdue) > 0 || b.lets(s) {
		s.inTurn = true
		b.turns = append(b.turns, s)
	}
}

// turnAll gives a turn to every namespace that could use one.
func (b *Budgets) turnAll() {
	for _, name := range slices.Sorted(maps.Keys(b.spaces)) {
		b.turn(b.spaces[name])
	}
}

// Lead begins a leader's term. It lets no pod go where there is a budget before SettleTime has passed, even if the
// log is empty, because the log may have lost everything.
func (b *Budgets) Lead(now time.Time) {
	b.leads = true
	b.settles = now.Add(SettleTime)
	b.turnAll()
}

// StepDown ends a leader's term, and all turns with it. Decisions of the term that the log does not have are dropped.
// Removals to be requested again are overdue at once under the replica's next term.
func (b *Budgets) StepDown() {
	b.leads = false
	b.forgetUnrecorded()
	b.Leaving.restart()
	b.turns = nil
	for _, s := range b.spaces {
		s.overdue = nil
		s.deficit = 0
		s.inTurn = false
		b.forget(s)
	}
}

// lets reports whether the first pod in a namespace's queue may go now.
func (b *Budgets) lets(s *space) bool {
	w := s.waiting.First()
	return w != nil && s.hasRoom(w) && (b.settles.IsZero() || s.budget == unlimited)
}

// Settle ends a new leader's wait when its time is up.
func (b *Budgets) Settle(now time.Time) {
	if b.settles.IsZero() || now.Before(b.settles) {
		return
	}
	b.settles = time.Time{}
	b.turnAll()
}

// Admit returns the pods whose gate is to be removed now, in order: those whose namespaces have room, in turns, and
// those whose removal is overdue. The caller has read all decisions of earlier leaders.
func (b *Budgets) Admit(now time.Time, at Facts) (pods []*state.Pod) {
	b.Settle(now)
	for _, s := range b.Leaving.markOverdue(now) {
		b.turn(s)
	}
	for len(b.turns) > 0 && b.Leaving.requested < AtOnce {
		s := b.turns[0]
		b.turns = b.turns[1:]
		s.inTurn = false
		s.deficit += quantum
		for w := b.next(s); w != nil && b.Leaving.requested < AtOnce; w = b.next(s) {
			cost := max(w.pod.Requests.MilliCPU, leastCost)
			if cost > s.deficit {
				break
			}
			s.deficit -= cost
			b.letGo(w, s, now, at)
			pods = append(pods, w.pod)
		}
		if b.turn(s); !s.inTurn {
			s.deficit = 0
			b.forget(s)
		}
	}
	return pods
}

// next returns the pod of a namespace that is let go next, or once more; nil for none.
func (b *Budgets) next(s *space) *waiter {
	for len(s.overdue) > 0 {
		uid := s.overdue[0]
		if l, ok := b.Leaving.known[uid]; ok && l.overdue {
			if w, ok := b.gated[uid]; ok {
				return w
			}
		}
		s.overdue = s.overdue[1:]
	}
	if b.lets(s) {
		return s.waiting.First()
	}
	return nil
}

// letGo counts the pod as one whose gate is about to be removed.
func (b *Budgets) letGo(w *waiter, s *space, now time.Time, at Facts) {
	if l, again := b.Leaving.known[w.pod.UID]; again {
		s.overdue = s.overdue[1:]
		b.Leaving.startRemoval(l, now.Add(Patience))
		return
	}
	s.waiting.Drop(w)
	w.waits = false
	b.Leaving.add(s, w.pod, &leaving{until: now.Add(Patience), sequence: at.Sequence, epoch: at.Epoch})
}

// Recorded records that the log has the decision to let a pod go, made by this leader or another. p is the pod, nil if
// the facts do not show it as one that waits to be placed.
func (b *Budgets) Recorded(d *events.Decision, p *state.Pod, at Facts, now time.Time) {
	uid := d.Pod.UID
	until := now.Add(Patience)
	if b.Leaving.confirm(uid, until) {
		return
	}
	l := &leaving{until: until, recorded: true, sequence: d.FactSequence, epoch: d.FactEpoch}
	switch {
	case p != nil && HasGate(p):
		if w, ok := b.gated[uid]; ok {
			b.dequeue(w)
		}
		b.Leaving.add(b.space(p.Namespace), p, l)
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
	for _, at := range []time.Time{b.Leaving.due, b.settles} {
		if at.After(now) && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	return next
}

// Reason explains what a pod behind its quota gate waits for.
func (b *Budgets) Reason(p *state.Pod) string {
	s := b.space(p.Namespace)
	if s.problem != "" {
		return s.problem
	}
	if _, going := b.Leaving.known[p.UID]; going {
		return "its namespace has room for it; its gate is about to go"
	}
	return fmt.Sprintf("waits for room in the budget of namespace %s, in use: %s", s.name, s.used.Plus(s.leaving))
}
