package preempt

import (
	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger/txns"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/services/scheduler/decide/attempt"
	"github.com/berth-scheduler/berth/services/scheduler/decide/step"
)

// promotion is a T3 in flight.
type promotion struct {
	standing
	node *state.Node
	// agreed is the deal of its plugins, nil for none.
	agreed *attempt.Deal
	// supplied: it has picked volumes or devices again.
	supplied bool
}

// Resupplies implements an option of txn.Proposal.
func (p *promotion) Resupplies() bool { return p.supplied }

func (p *promotion) Kind() string { return "T3" }

func (p *promotion) Done(revision int64) {
	rc := p.by
	if deal := p.agreed; deal != nil {
		p.deal, deal.Attempt.Pod = nil, p.pod
		if deal.Delegated && !deal.Over {
			rc.performing.LetBind(deal, revision)
			return
		}
		if !deal.Over {
			rc.performing.Watch(p.podUID, deal)
		}
		rc.record.Placed(deal.Attempt, revision)
		return
	}
	d := p.decision(events.DecisionPlaced)
	d.LedgerRevision = revision
	d.NodesTotal = int32(len(rc.shard.View.Nodes()))
	d.NodesFeasible = 1
	rc.effects.Decide(d)
	rc.effects.Report(step.Attempt{
		Pod: d.Pod, Received: p.since, Decided: rc.shard.Now, Profile: p.pod.SchedulerName, Number: p.attempt,
		Outcome: step.Scheduled, NodeName: d.NodeName, Feasible: 1, Nodes: int(d.NodesTotal), Held: true,
	})
	rc.effects.Plan(step.PlanReport{
		What: step.PlanPromoted, Pod: d.Pod, Node: d.NodeName, Held: rc.shard.Now.Sub(p.since),
	})
}

// TooLarge marks the place to be given up, which needs a smaller transaction.
func (p *promotion) TooLarge(why string) {
	rc := p.by
	p.vetting.unstorable = why
	rc.holds.due[p.podUID] = struct{}{}
}

func (p *promotion) Undone(txns.Outcome) { p.by.holds.due[p.podUID] = struct{}{} }

// decision returns a decision about the pod of a hold.
func (s *standing) decision(kind events.DecisionKind) events.Decision {
	rc := s.by
	d := events.Decision{
		Kind: kind, Pod: refOf(s.entry), SchedulerName: s.entry.SchedulerName, Actor: rc.shard.ID,
		Attempt: s.attempt, Token: s.token.String(), PodResourceVersion: s.entry.PodRV,
		FactSequence: rc.shard.Store.Position().Sequence, LedgerRevision: rc.shard.Ledger.Revision(),
		NodeUID: s.doc.NodeUID, NodeName: s.doc.NodeName, TraceParent: s.traceParent,
	}
	if s.pod != nil {
		d.PodResourceVersion = s.pod.ResourceVersion
	}
	return d
}
