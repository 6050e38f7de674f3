package attempt

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/berth-scheduler/berth/services/scheduler/decide/claims"
)

// Phase is the state of an attempt between its offer and its end.
type Phase uint8

const (
	// deciding: the current step works on it. No attempt is in this phase between steps.
	deciding Phase = iota
	// Pending: waits to be decided.
	Pending
	// Deferred: waits until something has changed, and is then decided again.
	Deferred
	// Consulting: extenders or plugins are asked about nodes, or about victims (Consult).
	Consulting
	// Reserving: has a node and counts there; plugins are asked to reserve (ActReserve).
	Reserving
	// Staged: has a node and counts there; waits for a transaction.
	Staged
	// InFlight: its transaction has been sent and has no answer yet.
	InFlight
	// Rejected: fits nowhere; the verdict waits until the pods that it counted are settled.
	Rejected
	// Filtering: fits nowhere; PostFilter plugins are asked (ActPostFilter).
	Filtering
	// Seeking: certainly fits nowhere; waits for its turn to be considered for preemption.
	Seeking
	// ended: has its outcome, or was given back to the queue.
	ended
)

var phaseNames = [...]string{
	"deciding", "pending", "deferred", "consulting", "reserving", "staged", "in flight", "rejected", "filtering",
	"seeking", "ended",
}

func (p Phase) String() string { return phaseNames[p] }

// transitions are the legal ones. A step takes an attempt up, decides it, and puts it where it waits next. A waiting
// attempt may also end, but not one in a transaction that has no answer yet.
var transitions = [ended + 1][]Phase{
	deciding: {
		Pending, Deferred, Consulting, Reserving, Staged, InFlight, Rejected, Filtering, Seeking, ended,
	},
	Pending:    {deciding},
	Deferred:   {deciding, Pending},
	Consulting: {deciding},
	Reserving:  {deciding},
	Staged:     {deciding},
	InFlight:   {deciding},
	Rejected:   {deciding},
	Filtering:  {deciding},
	Seeking:    {deciding},
	ended:      {},
}

// Queues holds all attempts of a shard, each in one phase, and the order of the attempts within a phase. No other
// type moves an attempt.
type Queues struct {
	// ByPod maps the UID of a pod to its attempt.
	ByPod map[string]*Attempt
	// waiting are the pending, deferred and staged attempts, each list in its order.
	waiting [Staged + 1][]*Attempt
	// inFlight are the attempts of the transaction in flight.
	inFlight []*Attempt
	// ByQuestion are the attempts that are consulting, reserving or filtering, by the ID of the question.
	ByQuestion [Filtering + 1]map[uint64]*Attempt
	// rejected are the rejected attempts in their order; seekers the seeking ones, highest priority first.
	rejected, seekers []*Attempt
	// undecided is how many attempts the current step works on.
	undecided int
	// fault is the first illegal transition, nil for none.
	fault error
}

// NewQueues returns empty queues.
func NewQueues() *Queues {
	a := &Queues{ByPod: map[string]*Attempt{}}
	for _, p := range []Phase{Consulting, Reserving, Filtering} {
		a.ByQuestion[p] = map[uint64]*Attempt{}
	}
	return a
}

// move changes the phase of an attempt, and no list.
func (q *Queues) move(a *Attempt, to Phase) {
	if !slices.Contains(transitions[a.Phase], to) && q.fault == nil {
		q.fault = fmt.Errorf("scheduler: the attempt at pod %s goes from %s to %s", a.Offer.Pod.UID, a.Phase, to)
	}
	if a.Phase == deciding {
		q.undecided--
	}
	switch to {
	case deciding:
		q.undecided++
	case Pending, Deferred:
		a.Verdict = nil // it is decided from scratch
	}
	a.Phase = to
}

func (q *Queues) moveAll(list []*Attempt, to Phase) {
	for _, a := range list {
		q.move(a, to)
	}
}

// Err returns the first illegal transition, or an error if a step has left attempts undecided; nil for neither.
func (q *Queues) Err() error {
	if q.fault == nil && q.undecided != 0 {
		q.fault = fmt.Errorf("scheduler: %d attempts are in no queue", q.undecided)
	}
	return q.fault
}

// Begin adds a new attempt, in phase deciding.
func (q *Queues) Begin(a *Attempt) {
	q.ByPod[a.Offer.Pod.UID] = a
	q.undecided++
}

// End removes an attempt that has been taken up.
func (q *Queues) End(a *Attempt) {
	q.move(a, ended)
	delete(q.ByPod, a.Offer.Pod.UID)
}

// Append puts attempts behind all others in phase to, which is Pending, Deferred or Staged.
func (q *Queues) Append(to Phase, list ...*Attempt) {
	q.moveAll(list, to)
	q.waiting[to] = append(q.waiting[to], list...)
}

// Prepend puts attempts before all others in phase to, which is Pending, Deferred or Staged.
func (q *Queues) Prepend(to Phase, list ...*Attempt) {
	q.moveAll(list, to)
	q.waiting[to] = slices.Concat(list, q.waiting[to])
}

// Count returns the number of attempts in the given phases.
func (q *Queues) Count(phases ...Phase) (n int) {
	for _, p := range phases {
		switch p {
		case InFlight:
			n += len(q.inFlight)
		case Rejected:
			n += len(q.rejected)
		case Seeking:
			n += len(q.seekers)
		case Consulting, Reserving, Filtering:
			n += len(q.ByQuestion[p])
		case Pending, Deferred, Staged:
			n += len(q.waiting[p])
		case deciding, ended:
		}
	}
	return n
}

// In returns the attempts that are pending, deferred or staged, in their order. The caller must not change the list.
func (q *Queues) In(p Phase) []*Attempt { return q.waiting[p] }

// Next takes up the first pending attempt.
func (q *Queues) Next() *Attempt {
	a := q.waiting[Pending][0]
	q.waiting[Pending] = q.waiting[Pending][1:]
	q.move(a, deciding)
	return a
}

// Resume makes all deferred attempts pending, before all others.
func (q *Queues) Resume() {
	list := q.waiting[Deferred]
	q.waiting[Deferred] = nil
	q.Prepend(Pending, list...)
}

// TakeAll takes up all attempts of a phase, in their order, or in the order of the question IDs.
func (q *Queues) TakeAll(from Phase) (list []*Attempt) {
	switch from {
	case InFlight:
		list, q.inFlight = q.inFlight, nil
	case Rejected:
		list, q.rejected = q.rejected, nil
	case Seeking:
		list, q.seekers = q.seekers, nil
	case Consulting, Reserving, Filtering:
		for _, id := range slices.Sorted(maps.Keys(q.ByQuestion[from])) {
			list = append(list, q.ByQuestion[from][id])
		}
		clear(q.ByQuestion[from])
	case Pending, Deferred, Staged:
		list, q.waiting[from] = q.waiting[from], nil
	case deciding, ended:
	}
	q.moveAll(list, deciding)
	return list
}

// Send makes attempts wait for the answer to the transaction in flight.
func (q *Queues) Send(list []*Attempt) {
	q.moveAll(list, InFlight)
	q.inFlight = list
}

// Await makes an attempt wait for the answer to a question; to is Consulting, Reserving or Filtering.
func (q *Queues) Await(a *Attempt, to Phase, id uint64) {
	q.move(a, to)
	q.ByQuestion[to][id] = a
}

// TakeAnswered takes up the attempt that waits for the answer to a question; false if none does.
func (q *Queues) TakeAnswered(from Phase, id uint64) (*Attempt, bool) {
	a, waits := q.ByQuestion[from][id]
	if !waits {
		return nil, false
	}
	delete(q.ByQuestion[from], id)
	q.move(a, deciding)
	return a, true
}

// Reject makes an attempt with its verdict wait for the pods that it has counted.
func (q *Queues) Reject(a *Attempt) {
	q.move(a, Rejected)
	q.rejected = append(q.rejected, a)
}

// Seek lines an attempt up for preemption: by priority, then in the order in which the attempts were first lined up.
func (q *Queues) Seek(a *Attempt) {
	q.move(a, Seeking)
	at, _ := slices.BinarySearchFunc(q.seekers, a, func(x, y *Attempt) int {
		return cmp.Or(cmp.Compare(y.Pod.Priority, x.Pod.Priority), cmp.Compare(x.PreemptionOrder, y.PreemptionOrder))
	})
	q.seekers = slices.Insert(q.seekers, at, a)
}

// TakeSeekers takes up the seekers with index i up to, but not including, j.
func (q *Queues) TakeSeekers(i, j int) []*Attempt {
	list := slices.Clone(q.seekers[i:j])
	q.seekers = slices.Delete(q.seekers, i, j)
	q.moveAll(list, deciding)
	return list
}

// Supplies returns what the claims get of the pods that count on their nodes without a reservation yet.
func (q *Queues) Supplies() iter.Seq[claims.Staged] {
	return func(yield func(claims.Staged) bool) {
		for a := range q.OnNodes() {
			if !yield(claims.Staged{Pod: a.Pod, Node: a.Pick.NodeName, Supply: &a.Pick.Volumes}) {
				return
			}
		}
	}
}

// OnNodes returns the attempts that count on their nodes without a reservation yet: staged, in flight, reserving.
func (q *Queues) OnNodes() iter.Seq[*Attempt] {
	return func(yield func(*Attempt) bool) {
		for _, list := range [][]*Attempt{q.waiting[Staged], q.inFlight} {
			for _, a := range list {
				if !yield(a) {
					return
				}
			}
		}
		if len(q.ByQuestion[Reserving]) == 0 {
			return
		}
		for _, id := range slices.Sorted(maps.Keys(q.ByQuestion[Reserving])) {
			if !yield(q.ByQuestion[Reserving][id]) {
				return
			}
		}
	}
}

// StagedPods returns the UIDs of the pods that count on their nodes without a reservation.
func (q *Queues) StagedPods() []string {
	var uids []string
	for a := range q.OnNodes() {
		uids = append(uids, a.Offer.Pod.UID)
	}
	return uids
}
