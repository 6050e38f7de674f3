package record

import (
	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/services/scheduler/decide/attempt"
	"github.com/berth-scheduler/berth/services/scheduler/decide/step"
)

// Decision returns the record of a decision about an attempt, without the fields that only its kind has. A pod that
// gets no place loses its nomination, unless the caller finds that it stays. Source: clearNominatedNode in
// pkg/scheduler/schedule_one.go.
func (r *Recorder) Decision(kind events.DecisionKind, a *attempt.Attempt) events.Decision {
	d := events.Decision{
		Kind: kind, Pod: a.Offer.Pod, SchedulerName: a.Pod.SchedulerName, Actor: r.Shard.ID,
		Attempt: a.Offer.Attempt, Token: a.Offer.Token, PodResourceVersion: a.Pod.ResourceVersion,
		TraceParent: a.Offer.TraceParent,
	}
	if kind == events.DecisionUnplaceable || kind == events.DecisionFailed {
		d.StaleNomination = a.Pod.Status().NominatedNodeName
	}
	return d
}

// Lost records a race that an attempt has lost.
func (r *Recorder) Lost(a *attempt.Attempt, reason step.Reason) {
	if a.Pick.Evidence != nil {
		r.Effects.Lose(r.lostRecord(a, reason))
	}
}

// lostRecord returns the record of a choice that did not become a reservation.
func (r *Recorder) lostRecord(a *attempt.Attempt, reason step.Reason) events.Decision {
	d := r.Decision(events.DecisionLost, a)
	d.FactSequence = a.Pick.FactSequence
	d.LedgerRevision = a.Pick.Evidence.LedgerRevision
	d.Seed = a.Pick.Seed
	d.NodeUID, d.NodeName = a.Pick.NodeUID, a.Pick.NodeName
	d.NodesTotal, d.NodesFeasible = int32(a.Pick.Total), int32(a.Pick.Feasible)
	d.Message, d.Evidence = string(reason), r.FinalEvidence(a)
	return d
}

// Abandoned records a choice that is given up, unless it has a record: pods that were decided after it may have
// counted it.
func (r *Recorder) Abandoned(a *attempt.Attempt) {
	if e := a.Pick.Evidence; e != nil && e.Order > a.RecordedOrder {
		r.Effects.Abandon(r.lostRecord(a, step.Abandoned))
	}
}

// Placed records an attempt whose reservation can be bound.
func (r *Recorder) Placed(a *attempt.Attempt, revision int64) { r.PlacedBy(a, revision, "") }

// PlacedBy is Placed for a pod that a plugin has bound; an empty name stands for the binders.
func (r *Recorder) PlacedBy(a *attempt.Attempt, revision int64, plugin string) {
	d := r.Decision(events.DecisionPlaced, a)
	d.FactSequence, d.LedgerRevision = a.Pick.FactSequence, revision
	d.NodeUID, d.NodeName = a.Pick.NodeUID, a.Pick.NodeName
	d.NodesTotal, d.NodesFeasible = int32(a.Pick.Total), int32(a.Pick.Feasible)
	d.Seed, d.Evidence = a.Pick.Seed, r.FinalEvidence(a)
	if plugin != "" {
		d.Plugins = []string{plugin}
	}
	r.Effects.Decide(d)
	r.Effects.Report(a.Report(step.Scheduled))
}

// Failed records an attempt that ended with an error.
func (r *Recorder) Failed(a *attempt.Attempt, message string) {
	r.failed(a, events.Decision{Message: message})
}

// FailedOn is Failed for a pod whose place on a node is taken back.
func (r *Recorder) FailedOn(a *attempt.Attempt, message, nodeUID, node string) {
	r.failed(a, events.Decision{Message: message, NodeUID: nodeUID, NodeName: node})
}

// HeldBack is Failed for a pod that fits only on nodes that it avoids for now (events.Decision.Withheld).
func (r *Recorder) HeldBack(a *attempt.Attempt, message string, withheld []string) {
	r.failed(a, events.Decision{Message: message, Withheld: withheld})
}

// failed records an attempt that ended with an error, about which detail has the rest.
func (r *Recorder) failed(a *attempt.Attempt, detail events.Decision) {
	d := r.Decision(events.DecisionFailed, a)
	d.FactSequence, d.LedgerRevision = r.Shard.Store.Position().Sequence, r.Shard.Ledger.Revision()
	d.Message, d.Withheld = detail.Message, detail.Withheld
	d.NodeUID, d.NodeName = detail.NodeUID, detail.NodeName
	r.Effects.Decide(d)
	r.Effects.Report(a.Report(step.Failed))
}

// Unplaceable records an attempt that fits nowhere. The offer may have been renewed since the decision, under
// another token.
func (r *Recorder) Unplaceable(a *attempt.Attempt, d events.Decision) {
	d.Token = a.Offer.Token
	d.Attempt = a.Offer.Attempt
	d.TraceParent = a.Offer.TraceParent
	r.Effects.Decide(d)
	report := a.Report(step.Unschedulable)
	report.Nodes = int(d.NodesTotal)
	report.Plugins = d.Plugins
	report.Evidence = d.Evidence
	r.Effects.Report(report)
}
