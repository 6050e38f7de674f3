package preempt

import (
	"errors"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/txns"
	"github.com/berth-scheduler/berth/pkg/placement/gang"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/services/scheduler/decide/advice"
	"github.com/berth-scheduler/berth/services/scheduler/decide/attempt"
	"github.com/berth-scheduler/berth/services/scheduler/decide/budgets"
	"github.com/berth-scheduler/berth/services/scheduler/decide/crossnode"
	"github.com/berth-scheduler/berth/services/scheduler/decide/failures"
	"github.com/berth-scheduler/berth/services/scheduler/decide/lifecycle"
	"github.com/berth-scheduler/berth/services/scheduler/decide/record"
	"github.com/berth-scheduler/berth/services/scheduler/decide/search"
	"github.com/berth-scheduler/berth/services/scheduler/decide/shard"
	"github.com/berth-scheduler/berth/services/scheduler/decide/step"
	"github.com/berth-scheduler/berth/services/scheduler/decide/txn"
)

// inspection is the result of an inspection of a hold. The zero value means that the step of the inspection that
// returned it has no objection, and the next step follows.
type inspection uint8

const (
	// inspectionOpen: not decided yet.
	inspectionOpen inspection = iota
	// inspectionWaits: nothing to do until something changes. The hold is no longer due.
	inspectionWaits
	// inspectionRepeats: what is known is not enough; the hold stays due, and is inspected again in the next step
	// with a free slot.
	inspectionRepeats
	// inspectionSent: a transaction about the hold has been sent.
	inspectionSent
)

// resultOf returns the result of an inspection that has built and sent a transaction, by the error of that: a refused
// one is built again later. inspectionOpen means that it can never be sent.
func resultOf(err error) inspection {
	var refused *txns.RefusedError
	switch {
	case err == nil:
		return inspectionSent
	case errors.As(err, &refused):
		return inspectionRepeats
	}
	return inspectionOpen
}

// reconciler manages the places that are held for this shard's pods: it promotes a pod (T3) once all its victims
// have gone, and gives up a place that has waited too long or is not needed (T8). It keeps nothing about single
// holds: that is in Holds, and the hold itself in the ledger.
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
	failures   *failures.Memory
	budgets    *budgets.Book

	// quiet: a promotion whose rules count other pods waits until no pod is staged. The core stages no further
	// attempt while it is set, as otherwise there would always be one; each round of reconcile sets it again if it
	// is still needed.
	quiet bool
	// secondChecks is for how many more holds it may check, until the next heartbeat, whether their pods fit
	// elsewhere.
	secondChecks int
	// releases are the plans of moves whose place no pod will need, in the order in which they were noted. They are
	// hints: what is lost with the process is released by binders.
	releases []string
}

// holdState is a hold together with its current state, as read at the beginning of one inspection. It is the value
// that the steps of the inspection pass on, and that a transaction in flight keeps.
type holdState struct {
	by *reconciler
	*hold
	// doc is the document of the place, entry the hold in it. pod is nil if the facts do not have the pod.
	doc   ledger.NodeDoc
	entry ledger.Entry
	pod   *state.Pod
	// gang is the gang whose members are placed together with the pod; nil for a pod that is placed alone.
	gang *gang.Group
	// otherDocs are the other documents of its plan.
	otherDocs []ledger.NodeDoc
}

// decision returns a decision about the pod of a hold, as of the current facts and ledger. The attempt is 0 if
// another shard made the hold.
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
