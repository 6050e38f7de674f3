package decide

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/berth-scheduler/berth/services/scheduler/internal/claims"
)

// phase is where an attempt stands between its offer and its end.
type phase uint8

const (
	// deciding: the current step works on it. No attempt is left in this phase between steps.
	deciding phase = iota
	// pending: waits for its turn to be decided.
	pending
	// deferred: is decided again once something has moved.
	deferred
	// consulting: extenders or plugins are asked about nodes, or about victims (Consult).
	consulting
	// reserving: has a node and counts there; plugins reserve (ActReserve).
	reserving
	// staged: has a node and counts there; waits for a transaction.
	staged
	// inFlight: its transaction has been sent and has no answer yet.
	inFlight
	// rejected: fits nowhere; the verdict waits for the pods that it has counted.
	rejected
	// filtering: fits nowhere; plugins are asked about that (ActPostFilter).
	filtering
	// seeking: fits nowhere for certain; waits to be asked about preemption.
	seeking
	// ended: has its outcome, or was given back.
	ended
)

var phaseNames = [...]string{
	"deciding", "pending", "deferred", "consulting", "reserving", "staged", "in flight", "rejected", "filtering",
	"seeking", "ended",
}

func (p phase) String() string { return phaseNames[p] }

// transitions are the legal ones. A step takes an attempt up, decides, and puts it where it waits next; what waits
// may also end there, but not a transaction without its answer.
var transitions = [ended + 1][]phase{
	deciding: {
		pending, deferred, consulting, reserving, staged, inFlight, rejected, filtering, seeking, ended,
	},
	pending:    {deciding},
	deferred:   {deciding, pending},
	consulting: {deciding},
	reserving:  {deciding},
	staged:     {deciding},
	inFlight:   {deciding},
	rejected:   {deciding},
	filtering:  {deciding},
	seeking:    {deciding},
	ended:      {},
}

// attempts are all attempts of a shard, each in one phase, and the order of those that wait in one. Nothing else
// moves an attempt.
type attempts struct {
	// byPod finds each by the UID of its pod.
	byPod map[string]*attempt
	// waiting are those that are pending, deferred, or staged, in their order.
	waiting [staged + 1][]*attempt
	// flying are those of the transaction in flight.
	flying []*attempt
	// asked are those that are consulting, reserving or filtering, by the ID of the question.
	asked [filtering + 1]map[uint64]*attempt
	// turnedDown are those that are rejected, in their order; seekers those that are seeking, the most important first.
	turnedDown, seekers []*attempt
	// undecided is how many the current step works on.
	undecided int
	// fault is the first illegal transition, nil for none.
	fault error
}

func newAttempts() attempts {
	a := attempts{byPod: map[string]*attempt{}}
	for _, p := range []phase{consulting, reserving, filtering} {
		a.asked[p] = map[uint64]*attempt{}
	}
	return a
}

// move changes the phase of an attempt, and nothing else.
func (q *attempts) move(a *attempt, to phase) {
	if !slices.Contains(transitions[a.phase], to) && q.fault == nil {
		q.fault = fmt.Errorf("scheduler: the attempt at pod %s goes from %s to %s", a.offer.Pod.UID, a.phase, to)
	}
	if a.phase == deciding {
		q.undecided--
	}
	switch to {
	case deciding:
		q.undecided++
	case pending, deferred:
		a.verdict = nil // it is decided anew
	}
	a.phase = to
}

func (q *attempts) moveAll(list []*attempt, to phase) {
	for _, a := range list {
		q.move(a, to)
	}
}

// err is the first illegal transition, or says that a step has left attempts undecided; nil for neither.
func (q *attempts) err() error {
	if q.fault == nil && q.undecided != 0 {
		q.fault = fmt.Errorf("scheduler: %d attempts are in no queue", q.undecided)
	}
	return q.fault
}

// begin takes a new attempt in, which is decided by the current step.
func (q *attempts) begin(a *attempt) {
	q.byPod[a.offer.Pod.UID] = a
	q.undecided++
}

// end forgets an attempt that has been taken up.
func (q *attempts) end(a *attempt) {
	q.move(a, ended)
	delete(q.byPod, a.offer.Pod.UID)
}

// append has attempts wait after all others that are pending, deferred, or staged.
func (q *attempts) append(to phase, list ...*attempt) {
	q.moveAll(list, to)
	q.waiting[to] = append(q.waiting[to], list...)
}

// prepend has attempts wait before all others that are pending, deferred, or staged.
func (q *attempts) prepend(to phase, list ...*attempt) {
	q.moveAll(list, to)
	q.waiting[to] = slices.Concat(list, q.waiting[to])
}

// count is how many attempts are in some phases.
func (q *attempts) count(phases ...phase) (n int) {
	for _, p := range phases {
		switch p {
		case inFlight:
			n += len(q.flying)
		case rejected:
			n += len(q.turnedDown)
		case seeking:
			n += len(q.seekers)
		case consulting, reserving, filtering:
			n += len(q.asked[p])
		case pending, deferred, staged:
			n += len(q.waiting[p])
		case deciding, ended:
		}
	}
	return n
}

// in are those that are pending, deferred, or staged, in their order; not to be changed.
func (q *attempts) in(p phase) []*attempt { return q.waiting[p] }

// next takes up the first that is pending.
func (q *attempts) next() *attempt {
	a := q.waiting[pending][0]
	q.waiting[pending] = q.waiting[pending][1:]
	q.move(a, deciding)
	return a
}

// resume makes all deferred attempts pending, before all others.
func (q *attempts) resume() {
	list := q.waiting[deferred]
	q.waiting[deferred] = nil
	q.prepend(pending, list...)
}

// takeAll takes up all that are in a phase, in their order, or that of the questions.
func (q *attempts) takeAll(from phase) (list []*attempt) {
	switch from {
	case inFlight:
		list, q.flying = q.flying, nil
	case rejected:
		list, q.turnedDown = q.turnedDown, nil
	case seeking:
		list, q.seekers = q.seekers, nil
	case consulting, reserving, filtering:
		for _, id := range slices.Sorted(maps.Keys(q.asked[from])) {
			list = append(list, q.asked[from][id])
		}
		clear(q.asked[from])
	case pending, deferred, staged:
		list, q.waiting[from] = q.waiting[from], nil
	case deciding, ended:
	}
	q.moveAll(list, deciding)
	return list
}

// send has attempts wait for the answer to the transaction in flight.
func (q *attempts) send(list []*attempt) {
	q.moveAll(list, inFlight)
	q.flying = list
}

// ask has an attempt wait for the answer to a question; to is consulting, reserving, or filtering.
func (q *attempts) ask(a *attempt, to phase, id uint64) {
	q.move(a, to)
	q.asked[to][id] = a
}

// answered takes up the attempt that waits for the answer to a question; false if none does.
func (q *attempts) answered(from phase, id uint64) (*attempt, bool) {
	a, waits := q.asked[from][id]
	if !waits {
		return nil, false
	}
	delete(q.asked[from], id)
	q.move(a, deciding)
	return a, true
}

// reject has the verdict of an attempt wait.
func (q *attempts) reject(a *attempt) {
	q.move(a, rejected)
	q.turnedDown = append(q.turnedDown, a)
}

// seek has an attempt wait for its turn to be asked about preemption: by priority, then by when it first was.
func (q *attempts) seek(a *attempt) {
	q.move(a, seeking)
	at, _ := slices.BinarySearchFunc(q.seekers, a, func(x, y *attempt) int {
		return cmp.Or(cmp.Compare(y.pod.Priority, x.pod.Priority), cmp.Compare(x.sought, y.sought))
	})
	q.seekers = slices.Insert(q.seekers, at, a)
}

// takeSeekers takes up the seekers from i to j.
func (q *attempts) takeSeekers(i, j int) []*attempt {
	list := slices.Clone(q.seekers[i:j])
	q.seekers = slices.Delete(q.seekers, i, j)
	q.moveAll(list, deciding)
	return list
}

// stagedSupplies are what the claims of those get that count on their nodes without a reservation yet.
func (c *Core) stagedSupplies() iter.Seq[claims.Staged] {
	return func(yield func(claims.Staged) bool) {
		for a := range c.attempts.onNodes() {
			if !yield(claims.Staged{Pod: a.pod, Node: a.pick.nodeName, Supply: &a.pick.volumes}) {
				return
			}
		}
	}
}

// onNodes are those that count on their nodes without a reservation yet: staged, in flight, reserving.
func (q *attempts) onNodes() iter.Seq[*attempt] {
	return func(yield func(*attempt) bool) {
		for _, list := range [][]*attempt{q.waiting[staged], q.flying} {
			for _, a := range list {
				if !yield(a) {
					return
				}
			}
		}
		if len(q.asked[reserving]) == 0 {
			return
		}
		for _, id := range slices.Sorted(maps.Keys(q.asked[reserving])) {
			if !yield(q.asked[reserving][id]) {
				return
			}
		}
	}
}
