package attempt

import (
	"github.com/cespare/xxhash/v2"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/events/work"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/placement/gang"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/services/scheduler/decide/step"
)

// Gang is one try to place the members of a group together: all in one transaction, or none. The queue has offered the
// lead alone; the attempts at the others are made from it, and end with the try. A try lives from its decision to the
// answer of its transaction.
type Gang struct {
	Group *gang.Group
	Lead  *Attempt
	// Members are the attempts that have a node, the lead's among them if it has one, in the order in which they were
	// decided.
	Members []*Attempt
}

// NewMember returns the attempt at another member. Its token follows from the lead's, so that each member's reservation
// has its own.
func NewMember(lead *Attempt, pod *state.Pod) *Attempt {
	offer := lead.Offer
	offer.Pod = events.PodRef{UID: pod.UID, Namespace: pod.Namespace, Name: pod.Name}
	offer.Token = memberToken(lead.Offer, pod.UID).String()
	return &Attempt{Offer: offer, Received: lead.Received, Pod: pod}
}

// GangReport returns the report, for metrics, on the end of an attempt at the gang of which this one is the lead.
func (a *Attempt) GangReport(o step.Outcome) step.Gang {
	return step.Gang{Profile: a.Pod.SchedulerName, Outcome: o, Received: a.Received}
}

// memberToken returns the token of a member's attempt: a hash of the lead's token and the pod's UID, which is as
// unlikely to repeat as a random one.
func memberToken(o work.Offer, podUID string) ledger.Token {
	d := xxhash.New()
	_, _ = d.WriteString(o.Token) // a hash never fails
	_, _ = d.WriteString(podUID)
	return ledger.Token(max(d.Sum64(), 1))
}
