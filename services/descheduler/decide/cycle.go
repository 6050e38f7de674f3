package decide

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"strconv"
	"time"

	"github.com/berth-scheduler/berth/pkg/descheduling"
	"github.com/berth-scheduler/berth/pkg/descheduling/plan"
	"github.com/berth-scheduler/berth/pkg/descheduling/policy"
	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/view"
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/state"
)

// Input is everything on which a cycle depends. Equal inputs give equal outcomes; Promises must not have been used
// by another cycle.
type Input struct {
	Cluster *state.Snapshot
	Policy  *policy.Policy
	// Promises is the content of the ledger; nil if it is not known (a dry run without a ledger).
	Promises *Promises
	// History is that of earlier cycles; read-only.
	History *plan.History
	// Placement returns the profile by which a pod of this scheduler would be placed (nodeFit).
	Placement func(schedulerName string) *placement.Profile
	// Usage is the actual usage, for strategies that need it. Core.Step adds to it what the facts show.
	Usage descheduling.Usage
	// Averages smooth the usage that the facts show; nil for none.
	Averages *Averages
	// Actor is the member that requests the evictions.
	Actor string
	// Now is compared with the times in History, and with pods' start times (minPodAge). Core.Step sets it.
	Now time.Time
	// Explain requests a report.
	Explain bool
	// Timed, if set, is called when a strategy begins, and the function that it returns when the strategy has ended.
	Timed func(profile, strategy string) (ended func())
}

// Eviction is one pod to evict.
type Eviction struct {
	// Profile is the policy's profile whose strategy picked the pod.
	Profile  string
	Decision events.Decision
	// Keep is the place to keep for the replacement before the eviction is requested; nil for none, because the
	// policy wants no place kept or no controller replaces the pod.
	Keep *Place
}

// Outcome holds the decisions of a cycle. Nothing of it has happened yet.
type Outcome struct {
	descheduling.Outcome
	// Evict holds the evictions in the order in which to request them.
	Evict []Eviction
	// Returned reports pods that came back to the node which the pods they replace had left, and that have not been
	// reported yet.
	Returned []events.Decision
	// Report is nil unless it was requested.
	Report *plan.Report
}

// Cycle plans one cycle and turns the plan into requests. It changes nothing: Promises is only read, and the nodes
// that the plan changes are copies.
//
// Without Promises, as in a dry run without a ledger, the plan sees only pods in the facts and the status of
// budgets: it may contain moves that a real cycle would not make.
func Cycle(in Input) Outcome {
	ask := plan.Input{
		Cluster: in.Cluster, Policy: in.Policy, Placement: in.Placement, History: in.History, Now: in.Now,
		Timed: in.Timed, Usage: in.Usage,
		Pinned: true,
	}
	if in.Promises != nil {
		ask.Nodes, ask.Promised = in.Promises.nodes(), in.Promises.promised
		ask.Claimed, ask.Spare = in.Promises.claimed(), in.Promises.spare
	}
	var out Outcome
	var p plan.Plan
	if in.Explain {
		out.Report = &plan.Report{}
		p, *out.Report = plan.Explain(ask)
	} else {
		p = plan.Make(ask)
	}
	out.Outcome = p.Outcome
	for i := range p.Moves {
		m := &p.Moves[i]
		out.Evict = append(out.Evict, Eviction{Profile: m.Profile, Decision: in.decision(m), Keep: in.place(m)})
	}
	for _, pod := range p.Returned {
		if !in.History.ReturnReported(pod.UID) {
			out.Returned = append(out.Returned, in.returned(pod))
		}
	}
	return out
}

// returned is the report of a pod that came back. Its token has the number 0, which no eviction has.
func (in *Input) returned(pod *state.Pod) events.Decision {
	return events.Decision{
		Kind:               events.DecisionReturned,
		Pod:                events.PodRef{UID: pod.UID, Namespace: pod.Namespace, Name: pod.Name},
		SchedulerName:      pod.SchedulerName,
		Actor:              in.Actor,
		Token:              token(pod.UID, 0).String(),
		FactSequence:       in.Cluster.Position().Sequence,
		PodResourceVersion: pod.ResourceVersion,
		NodeName:           pod.NodeName,
		Owner:              view.OwnerOf(pod),
		Message: fmt.Sprintf("The pod is on node %s, from which the pod that it replaces was moved: no pod of its owner "+
			"will be moved for %s.", pod.NodeName, in.Policy.Berth.MaxCooldown),
	}
}

// place returns the place to keep for the replacement of a moved pod; nil if the move has no landing, or no
// controller creates a replacement that can be recognised.
func (in *Input) place(m *plan.Move) *Place {
	r, replaced := view.ReplacementOf(m.Pod.Pod)
	if m.To == nil || !replaced {
		return nil
	}
	return &Place{
		Node: m.To, Replacement: m.Replacement, For: r, Pod: m.Pod.Pod, Budgets: m.Budgets,
		profile: in.Placement(m.Pod.SchedulerName),
	}
}

// decision is the request for an eviction. NotAfter bounds how late binders may start it, so that a request which
// was lost for a while is not carried out together with the one that replaces it.
func (in *Input) decision(m *plan.Move) events.Decision {
	pod, n := m.Pod, m.Pod.Node
	attempt := in.History.Next(pod.UID)
	d := events.Decision{
		Kind:               events.DecisionEvict,
		Pod:                events.PodRef{UID: pod.UID, Namespace: pod.Namespace, Name: pod.Name},
		SchedulerName:      pod.SchedulerName,
		Actor:              in.Actor,
		Attempt:            attempt,
		Token:              token(pod.UID, attempt).String(),
		FactSequence:       in.Cluster.Position().Sequence,
		PodResourceVersion: pod.ResourceVersion,
		NodeUID:            n.UID,
		NodeName:           n.Name,
		Message:            fmt.Sprintf("triggered by %s/%s: %s", m.Profile, m.Strategy, m.Reason),
		Strategy:           m.Strategy,
		GracePeriodSeconds: in.Policy.GracePeriodSeconds,
		Owner:              m.Owner,
		Youngest:           m.Youngest,
		EventOnFailure:     in.Policy.FailureEvents,
		FactEpoch:          in.Cluster.Position().Epoch,
		NotAfter:           in.Now.Add(plan.RequestTTL).Truncate(time.Millisecond).Round(0),
	}
	if m.To != nil {
		d.Landing = m.To.Name
	}
	return d
}

// token names one request. It is derived rather than random, so that every replica that makes the same request gives
// it the same name.
func token(uid string, attempt int32) ledger.Token {
	sum := sha256.Sum256([]byte("evict/" + uid + "/" + strconv.Itoa(int(attempt))))
	return ledger.Token(max(binary.BigEndian.Uint64(sum[:]), 1)) // 0 is not a token
}
