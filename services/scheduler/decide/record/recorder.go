package record

import (
	"maps"
	"slices"
	"time"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/events/evidence"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/services/scheduler/decide/attempt"
	"github.com/berth-scheduler/berth/services/scheduler/decide/shard"
	"github.com/berth-scheduler/berth/services/scheduler/decide/step"
)

// Evaluation is the result of an evaluation of the nodes for a pod. Home: only the home nodes were evaluated, of Usable
// nodes that there were to choose from. Basis lists the state besides facts and ledger on which the result depends.
// Unsettled and DependsOnHolds: see attempt.Rejection. Withheld: see events.Decision.
type Evaluation struct {
	placement.Result
	Home           bool
	Usable         int
	Basis          evidence.Basis
	Unsettled      bool
	DependsOnHolds bool
	Withheld       []string
}

// Withheld returns a list of nodes for events.Decision.Withheld: sorted in place, or nil if it is too long.
func Withheld(names []string) []string {
	if len(names) > events.MaxWithheld {
		return nil
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Recorder keeps the state that records of decisions need, and appends the records to the effects of the step. It
// changes nothing else, but for noting in an attempt which of its choices has a record. With NoEvidence records have
// no evidence, and the rest is unchanged.
type Recorder struct {
	Shard    *shard.State
	Attempts *attempt.Queues
	Effects  *step.Effects
	// Start returns where the next search of a profile that samples begins: among all nodes, and among the home
	// nodes.
	Start func() (all, home int)
	// chosen counts decisions that chose a node, for evidence.Evidence.Order; moments counts evaluations of nodes, for
	// evidence.Basis.Moment.
	chosen, moments uint64
	// ahead lists the changes that the view of the ledger has learned ahead of its watch.
	ahead []evidence.Learned
}

// Evidence returns the record of an evaluation. The result belongs to the engine, so everything that is kept is
// copied.
func (r *Recorder) Evidence(a *attempt.Attempt, p *placement.Profile, found Evaluation, behind int) *evidence.Evidence {
	if r.Shard.NoEvidence {
		return nil
	}
	e := &evidence.Evidence{
		Config: p.Hash(), Class: found.Class, LedgerRevision: r.Shard.Ledger.Revision(), Staged: r.stagedOrders(),
		Home: found.Home, Examined: int32(found.Examined), Usable: int32(found.Usable), Stale: int32(behind),
		Cause: a.Offer.Cause, Waited: a.Offer.Waited, Considered: r.Shard.Since(a.Received),
		Basis: found.Basis,
	}
	if len(found.Feasible) == 0 {
		e.Rejected = found.Diagnosis.NodesByPlugin()
		return e
	}
	if len(found.Rejected) > 0 {
		e.Rejected = make(map[string]int32, len(found.Rejected))
		for _, by := range found.Rejected {
			e.Rejected[by.Plugin] += by.Nodes
		}
	}
	e.ScoredBy = found.Weighed.Plugins
	e.Candidates = make([]evidence.Candidate, min(len(found.Feasible), evidence.MaxCandidates))
	for i := range e.Candidates {
		e.Candidates[i] = evidence.Candidate{Node: found.Feasible[i].Node.Node.Name, Total: found.Feasible[i].Total}
		if i < len(found.Weighed.Points) {
			e.Candidates[i].Points = slices.Clone(found.Weighed.Points[i])
		}
	}
	return e
}

// NumberChoice numbers a decision that chose a node, in the order in which they were made. Later records refer to it
// by this number.
func (r *Recorder) NumberChoice(e *evidence.Evidence) *evidence.Evidence {
	if e != nil {
		r.chosen++
		e.Order = r.chosen
	}
	return e
}

// NumberAlternative numbers the choice of the next-best node by the same evaluation.
func (r *Recorder) NumberAlternative(e *evidence.Evidence, alternative int) *evidence.Evidence {
	if e == nil {
		return nil
	}
	other := *e
	other.Basis.Alternative = int32(alternative)
	return r.NumberChoice(&other)
}

// NumberVictimSearch numbers the choice of a node by a search for victims that was just made, after the evaluation
// that found no node. The record has the state of the later search; the rest is of the evaluation. spared are the
// UIDs of the pods that could not be victims; a list that is too long is cut, and the record then cannot be remade
// (Unlisted).
func (r *Recorder) NumberVictimSearch(a *attempt.Attempt, e *evidence.Evidence, spared []string) *evidence.Evidence {
	if e == nil {
		return nil
	}
	other := *e
	other.LedgerRevision, other.Staged = r.Shard.Ledger.Revision(), r.stagedOrders()
	other.Basis = r.Basis(r.Shard.Profiles[a.Pod.SchedulerName], nil)
	if other.Basis.Way = evidence.WayHeld; a.Advice.Opinions != nil || a.Advice.Victims.Answered {
		other.Basis.Way = evidence.WayAdvised
	}
	other.Basis.Spared = spared
	if most := evidence.MaxLeftAlone; len(other.Basis.Spared) > most {
		other.Basis.Spared, other.Basis.Unlisted = other.Basis.Spared[:most], true
	}
	return r.NumberChoice(&other)
}

// NumberMember numbers the choice of a place for a member of a gang that waits for victims. Decisions that count the
// member can be made again, but not this one: it depends on the places of other members.
func (r *Recorder) NumberMember(a *attempt.Attempt) *evidence.Evidence {
	if r.Shard.NoEvidence {
		return nil
	}
	profile := r.Shard.Profiles[a.Pod.SchedulerName]
	e := r.NumberVictimSearch(a, &evidence.Evidence{Config: profile.Hash()}, nil)
	e.Basis.Unlisted = true
	return e
}

// stagedOrders returns the order numbers of the decisions whose pods are staged, sorted.
func (r *Recorder) stagedOrders() []uint64 {
	n := r.Attempts.Count(attempt.Staged, attempt.InFlight, attempt.Reserving)
	if n == 0 {
		return nil
	}
	orders := make([]uint64, 0, n)
	for a := range r.Attempts.OnNodes() {
		if e := a.Pick.Evidence; e != nil && e.Order > 0 {
			orders = append(orders, e.Order)
		}
	}
	slices.Sort(orders)
	return orders
}

// FinalEvidence returns the evidence of an attempt whose transaction has been answered, with its times. It notes
// that the choice has a record now, so that it is not recorded as abandoned as well.
func (r *Recorder) FinalEvidence(a *attempt.Attempt) *evidence.Evidence {
	if a.Pick.Evidence == nil {
		return nil
	}
	a.RecordedOrder = a.Pick.Evidence.Order
	e := *a.Pick.Evidence
	e.Considered, e.Reserved = a.Pick.Decided.Sub(a.Received).Truncate(time.Microsecond), r.Shard.Since(a.Pick.Decided)
	return &e
}

// Basis returns what the decision made now depends on besides facts, ledger and pod; avoided are UIDs of nodes. Each
// call counts as a moment.
func (r *Recorder) Basis(profile *placement.Profile, avoided []string) evidence.Basis {
	r.moments++
	if r.Shard.NoEvidence {
		return evidence.Basis{}
	}
	b := evidence.Basis{
		LookNumber: r.moments, FactEpoch: r.Shard.Store.Position().Epoch, Learned: r.learnedAhead(),
		Avoided: r.Shard.NamesOf(avoided), NoHomePreference: !r.Shard.HomeFirst,
		Nominations: len(r.Shard.View.Nominated()) > 0,
	}
	if avoided := r.Shard.Gate.AvoidedNodes(); len(avoided) > 0 {
		names := r.Shard.NamesOf(slices.Collect(maps.Keys(avoided)))
		b.Unlisted = len(names) > evidence.MaxLeftAlone
		b.LeftAlone = names[:min(len(names), evidence.MaxLeftAlone)]
	}
	if usable, _ := r.Shard.Engine.Candidates(); profile.SampleSize(usable) < usable {
		all, home := r.Start()
		b.Start, b.HomeStart = int32(all), int32(home)
	}
	return b
}

// Prefer notes that the choice prefers a node.
func (r *Recorder) Prefer(e *evidence.Evidence, nodeUID string) {
	if n, ok := r.Shard.View.Node(nodeUID); ok && e != nil {
		e.Basis.Preferred = n.Node.Name
	}
}

// NoteOwnCommit notes that the view of the ledger is about to learn the shard's own transaction, ahead of its watch.
// NoteLearned does so for a lost one. (What the registry and the guards learn is omitted: no choice of a node depends
// on it.)
func (r *Recorder) NoteOwnCommit(revision int64) {
	if !r.Shard.NoEvidence && revision > r.Shard.Ledger.Revision() {
		r.ahead = append(r.ahead, evidence.Learned{Revision: revision})
	}
}

// NoteLearned records the keys that the view of the ledger is about to learn from a lost transaction, ahead of its
// watch.
func (r *Recorder) NoteLearned(current []ledger.KV) {
	if r.Shard.NoEvidence {
		return // nothing would read or shorten it
	}
	for _, kv := range current {
		l := evidence.Learned{Revision: kv.ModRevision, Key: kv.Key}
		if kv.ModRevision > r.Shard.Ledger.Revision() && !slices.Contains(r.ahead, l) {
			r.ahead = append(r.ahead, l)
		}
	}
}

// learnedAhead returns what the watch has not delivered yet, in the order of learning.
func (r *Recorder) learnedAhead() []evidence.Learned {
	watched := r.Shard.Ledger.Revision()
	r.ahead = slices.DeleteFunc(r.ahead, func(l evidence.Learned) bool { return l.Revision <= watched })
	return slices.Clone(r.ahead)
}
