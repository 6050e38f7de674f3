package preempt

import (
	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/services/scheduler/decide/advice"
	"github.com/berth-scheduler/berth/services/scheduler/decide/attempt"
	"github.com/berth-scheduler/berth/services/scheduler/decide/crossnode"
	"github.com/berth-scheduler/berth/services/scheduler/decide/lifecycle"
	"github.com/berth-scheduler/berth/services/scheduler/decide/record"
	"github.com/berth-scheduler/berth/services/scheduler/decide/search"
	"github.com/berth-scheduler/berth/services/scheduler/decide/shard"
	"github.com/berth-scheduler/berth/services/scheduler/decide/step"
	"github.com/berth-scheduler/berth/services/scheduler/decide/txn"
)

// inspection is the result of an inspection of a hold.
type inspection uint8

const (
	// inspectionOpen: not decided yet.
	inspectionOpen inspection = iota
	// inspectionWaits: nothing to do until something changes.
	inspectionWaits
	// inspectionRepeats: what is known is not enough; the hold is inspected again in the next step.
	inspectionRepeats
	// inspectionSent: a transaction has been sent.
	inspectionSent
)

// reconciler manages the places that are held for this shard's pods: it promotes a pod (T3) once all its victims
// have gone, and gives up a place that has waited too long or is not needed (T8).
type reconciler struct {
	shard    *shard.State
	attempts *attempt.Queues
	record   *record.Recorder
	effects  *step.Effects
	life     *lifecycle.Attempts
	slot     *txn.Slot
	rules    *crossnode.Rules
	terms    *crossnode.Terms
	search   *search.Searcher

	consults   *advice.Consults
	performing *advice.Plugins
	holds      *Holds
	failures   *failures
	budgets    *budgetBook

	// quiet: a promotion whose rules count other pods waits until no pod is staged.
	quiet bool
	// secondChecks is for how many more holds it may check whether their pods fit elsewhere.
	secondChecks int
	// releases are the plans of moves whose place no pod will need.
	releases []string
}

// holdState is a hold together with its current state.
type holdState struct {
	by *reconciler
	*hold
	doc   ledger.NodeDoc
	entry ledger.Entry
	pod   *state.Pod
	// others are the other documents of its plan.
	others []ledger.NodeDoc
}

// decision returns a decision about the pod of a hold.
func (s *holdState) decision(kind events.DecisionKind) events.Decision {
	rc := s.by
	d := events.Decision{
		Kind: kind, Pod: podRef(s.entry), SchedulerName: s.entry.SchedulerName, Actor: rc.shard.ID,
		Attempt: s.attempt, Token: s.token.String(), PodResourceVersion: s.entry.PodRV,
		FactSequence: rc.shard.Store.Position().Sequence, LedgerRevision: rc.shard.Ledger.Revision(),
		NodeUID: s.doc.NodeUID, NodeName: s.doc.NodeName, TraceParent: s.traceParent,
	}
	if s.pod != nil {
		d.PodResourceVersion = s.pod.ResourceVersion
	}
	return d
}
