package scale

import (
	"time"

	"github.com/berth-scheduler/berth/pkg/events/work"
	"github.com/berth-scheduler/berth/pkg/ledger"
)

// factsPerStep bounds the facts that a shard applies at once.
const factsPerStep = 1024

// decider makes the decisions of a shard: the real core or its twin.
type decider interface {
	// step applies events and decides every pod that can be decided. Its output takes effect after the step's
	// duration.
	step(in input, now time.Duration) (output, error)
}

// input holds the events since the last step.
type input struct {
	// facts and ledgers are new ones, by stream and by store.
	facts   [][]fact
	ledgers [][]revision
	offers  []offer
	answers []answer
	turns   []work.Turn
	beat    bool
}

// answer is that of a store to the commit in flight there.
type answer struct {
	store  int
	id     uint64
	result ledger.TxnResult
}

// output holds the actions that a step requests.
type output struct {
	commits []decided
	placed  []int32
	failed  []offer
	// returned are offers that are given back untried.
	returned []offer
	turns    []work.Turn
	// tried counts searches for a node.
	tried int
	// more reports that there is work left without input, soon that there will be after a while.
	more, soon bool
}

// decided is a transaction and the number that its answer comes back with.
type decided struct {
	id uint64
	commit
}

// cursor is how far a stream has been delivered, and how far it has been applied.
//
// bound is how many of the applied facts were of bound pods.
type cursor struct{ told, taken, bound int }

// soonAfter is when a shard looks again that waits for time to pass, as shardcore has it.
const soonAfter = 50 * time.Millisecond

// shard is one scheduler shard.
type shard struct {
	world   *world
	id      int
	proc    *process
	decider decider
	// facts and ledgers are where it is in each stream.
	facts, ledgers []cursor
	offers         []offer
	answers        []answer
	turns          []work.Turn
	// stepping: a step is being worked on. more: another has work to do. beat: one is due.
	stepping, more, beat bool
}

// told notes that a stream has been delivered up to end.
func (s *shard) told(c *cursor, end int) {
	c.told = max(c.told, end)
	s.wake()
}

func (s *shard) offered(o []offer) {
	s.offers = append(s.offers, o...)
	s.wake()
}

func (s *shard) beatLater() {
	s.world.after(heartbeat, func() {
		if s.world.open == 0 {
			return
		}
		s.beat = true
		s.wake()
		s.beatLater()
	})
}

// wake steps the shard if there is anything to do and it is not at work.
func (s *shard) wake() {
	if s.stepping {
		return
	}
	in, docs, facts, some := s.gather()
	if !some && !s.more {
		return
	}
	w := s.world
	out, err := s.decider.step(in, w.now)
	if err != nil {
		w.breaks(err)
		return
	}
	if out.tried > 0 {
		s.noteAge(out.tried)
	}
	s.stepping, s.more = true, out.more
	cost := w.costs.of(costDecision, out.tried) + time.Duration(float64(out.tried)*w.perSearch()) +
		w.costs.of(costFact, facts) + w.costs.of(costRevision, docs)
	s.proc.do(cost, func() {
		s.stepping = false
		s.effect(out)
		s.wake()
	})
}

// perSearch is the duration of a search over the nodes that a shard sees, in nanoseconds.
func (w *world) perSearch() float64 {
	nodes := w.Nodes
	if w.OwnRange {
		nodes /= w.groups()
	}
	return w.costs[costDecisionNode].Micros * 1000 * float64(nodes)
}

// gather takes the inputs that have arrived; some reports whether there are any.
func (s *shard) gather() (in input, docs, facts int, some bool) {
	w := s.world
	in = input{
		facts: make([][]fact, len(s.facts)), ledgers: make([][]revision, len(s.ledgers)),
		offers: s.offers, answers: s.answers, turns: s.turns, beat: s.beat,
	}
	some = len(s.offers)+len(s.answers)+len(s.turns) > 0 || s.beat
	s.offers, s.answers, s.turns, s.beat = nil, nil, nil, false
	for i := range s.facts {
		c := &s.facts[i]
		end := min(c.told, c.taken+factsPerStep)
		in.facts[i] = w.leaders[i].facts[c.taken:end]
		facts += end - c.taken
		for _, f := range in.facts[i] {
			if f.node >= 0 {
				c.bound++
			}
		}
		c.taken = end
	}
	for i := range s.ledgers {
		c := &s.ledgers[i]
		in.ledgers[i] = w.stores[i].history[c.taken:c.told]
		for _, r := range in.ledgers[i] {
			docs += len(r.events.Events)
		}
		c.taken = c.told
	}
	return in, docs, facts, some || facts+docs > 0
}

// effect carries out what a step has decided.
func (s *shard) effect(out output) {
	w := s.world
	for _, d := range out.commits {
		d.answered = func(r ledger.TxnResult) {
			s.answers = append(s.answers, answer{store: d.store, id: d.id, result: r})
			s.wake()
		}
		w.stores[d.store].send(s.id, d.commit)
	}
	if len(out.placed)+len(out.failed)+len(out.returned) > 0 {
		w.leaders[w.logOf(s.id)].outcomes(int32(s.id), out.placed, out.failed, out.returned)
	}
	if len(out.turns) > 0 {
		for _, other := range w.shards {
			if other != s {
				w.after(w.hop(), func() {
					other.turns = append(other.turns, out.turns...)
					other.wake()
				})
			}
		}
	}
	if out.soon {
		w.after(soonAfter, func() {
			s.more = true
			s.wake()
		})
	}
}

// noteAge notes the age of the view that decisions are being made on: since when there has been an event in a ledger
// that the shard has not applied, or a bind in the API server.
func (s *shard) noteAge(decisions int) {
	w := s.world
	var ledgerAge, factAge time.Duration
	behind := 0
	for i, c := range s.ledgers {
		if !w.reads(s.id, i) {
			continue
		}
		for _, r := range w.stores[i].history[c.taken:] {
			if r.shard != s.id { // its own changes it knows from the answer
				ledgerAge = max(ledgerAge, w.now-r.at)
				behind++
			}
		}
	}
	for i, c := range s.facts {
		if binds := w.leaders[i].bindings; w.reads(s.id, i) && c.bound < len(binds) {
			factAge = max(factAge, w.now-binds[c.bound])
		}
	}
	w.tallyAge(ledgerAge, factAge, behind, decisions)
}
