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
	// hiddenLimit bounds the pods that were let go and that the facts have not shown.
	hiddenLimit = 1 << 20
)

// Facts is how far the facts have been applied. Complete means that a pod which they do not show by then does not
// exist.
type Facts struct {
	Sequence, Epoch uint64
	Complete        bool
}

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
	// leaving holds the pods that were let go, by UID, and hidden those that the facts have not shown.
	leaving, hidden map[string]*leaving
	// requested counts the pods in leaving that are not overdue. If there are any, no removal is overdue before due.
	requested int
	due       time.Time
	// settles is until when a new leader waits for removals that it may not know of; zero once it has.
	settles time.Time
}

// space is one namespace.
type space struct {
	name string
	// used is the usage of the namespace's pods, and leaving that of the pods whose gate is about to be removed.
	used, leaving Amounts
	budget        Amounts
	// problem describes what is wrong with the annotation. No pod is let go until it is fixed.
	problem string
	// waiting are the pods that wait for room, in order.
	waiting *heap.Heap[*waiter]
	// overdue holds the UIDs of pods whose removal a leader must request again, the longest overdue first. It may also
	// hold some that are gone.
	overdue []string
	deficit int64
	inTurn  bool
}

// waiter is a pod with gates. It waits for room if the quota gate is its last one and it has not been let go.
type waiter struct {
	pod    *state.Pod
	queued time.Time
	serial uint64
	// waits means that the pod is in the queue of its namespace, and index is its position there.
	waits bool
	index int32
}

// waitsBefore is the order in which the pods of a namespace are let go: priority, then time, then arrival.
func waitsBefore(a, b *waiter) bool {
	if a.pod.Priority != b.pod.Priority {
		return a.pod.Priority > b.pod.Priority
	}
	if d := a.queued.Compare(b.queued); d != 0 {
		return d < 0
	}
	return a.serial < b.serial
}

// New returns the budgets of a cluster without namespaces.
func New() *Budgets {
	return &Budgets{
		spaces: map[string]*space{}, gated: map[string]*waiter{},
		leaving: map[string]*leaving{}, hidden: map[string]*leaving{},
	}
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

func (s *space) readBudget(from *state.Object) {
	text, ok := from.API.GetAnnotations()[Annotation]
	if !ok {
		return
	}
	budget, err := Parse(text)
	if err != nil {
		s.problem = fmt.Sprintf("namespace %s: annotation %s: %v", s.name, Annotation, err)
		return
	}
	s.budget = budget
}

// PodChanged applies a pod of any scheduler as it was and as it is.
func (b *Budgets) PodChanged(before, after *state.Pod) {
	p := after
	if p == nil {
		p = before
	}
	s := b.space(p.Namespace)
	s.used = s.used.Plus(Counted(after)).minus(Counted(before))
	b.shown(p.UID, s, after)
	b.turn(s)
	b.forget(s)
}

// Reset recounts all pods and namespaces. Pods that were let go stay let go. The caller then enters the gated pods
// again. Reset returns what is wrong with the budgets.
func (b *Budgets) Reset(pods []*state.Pod, objects rule.Objects) (problems []string) {
	was := *b
	*b = *New()
	b.leads, b.settles = was.leads, was.settles
	for _, some := range []map[string]*leaving{was.leaving, was.hidden} {
		maps.Copy(b.hidden, some)
	}
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
	if _, going := b.leaving[w.pod.UID]; going || !Waits(w.pod) {
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
	for _, l := range b.leaving {
		if l.overdue {
			b.startRemoval(l, l.until)
		}
	}
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

func (s *space) hasRoom(w *waiter) bool {
	return s.problem == "" && s.used.Plus(s.leaving).Plus(Requests(w.pod)).Within(s.budget)
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
	b.markOverdue(now)
	for len(b.turns) > 0 && b.requested < AtOnce {
		s := b.turns[0]
		b.turns = b.turns[1:]
		s.inTurn = false
		s.deficit += quantum
		for w := b.next(s); w != nil && b.requested < AtOnce; w = b.next(s) {
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
		if l, ok := b.leaving[uid]; ok && l.overdue {
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

// Next returns the next time after now at which Admit may let a pod go without another input; zero for never.
func (b *Budgets) Next(now time.Time) (next time.Time) {
	if !b.leads {
		return next
	}
	for _, at := range []time.Time{b.due, b.settles} {
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
	if _, going := b.leaving[p.UID]; going {
		return "its namespace has room for it; its gate is about to go"
	}
	return fmt.Sprintf("waits for room in the budget of namespace %s, in use: %s", s.name, s.used.Plus(s.leaving))
}
