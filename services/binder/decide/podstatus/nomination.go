package podstatus

import (
	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/services/binder/decide/basis"
	"github.com/berth-scheduler/berth/services/binder/decide/effect"
)

// nomination is a pod's status.nominatedNodeName, which shows other components the place that is held for it. It is
// written after the hold is in the ledger, never while a bind may be in flight (the write would move the
// resourceVersion that the bind relies on), and cleared when the place is lost. (A bind clears it in the API server.)
// The ledger does not record who wrote the field. A binder that starts treats the name of a node with a hold as its
// own. What was left by a binder that died between the end of a hold and its own write is cleared with the condition of
// the decision that ended the hold, or of the pod's next attempt, like a name that another component has left
// (condition.mustClear).
//
// The decision that nominates the pod requires a condition as well. Whichever comes first, the hold or the decision,
// waits for the other, and one patch writes both (condition.nominate); a hold whose decision does not arrive is
// mirrored alone.
type nomination struct {
	pod events.PodRef
	// node is the intended value of the field while the pod is held there; empty to clear it.
	node string
	// lastName is the last name that was found or written, and writtenRV the pod's resourceVersion after that. unconfirmed
	// means that the write got no answer.
	lastName    string
	writtenRV   uint64
	unconfirmed bool
	op          effect.OpID
	// sent is the value that the write in flight sets.
	sent string
	basis.Pacing
}

// Nominate maintains the field for a pod that has a hold with a plan.
func (s *Writer) Nominate(doc ledger.NodeDoc, owner ledger.Entry) {
	if owner.Role != ledger.RoleReservation || owner.State != ledger.Held {
		return
	}
	m, ok := s.nominations[owner.PodUID]
	if !ok {
		m = &nomination{
			pod:    events.PodRef{UID: owner.PodUID, Namespace: owner.Namespace, Name: owner.Name},
			Pacing: basis.Pacing{Retry: s.Limits.Retry, Due: s.Now.Add(s.Limits.NominateAlone)},
		}
		s.nominations[owner.PodUID] = m
	}
	m.node = doc.NodeName
	if w, ok := s.conditions[owner.PodUID]; ok {
		w.advance(s)
	}
	m.advance(s)
}

// advance brings the field in line with the hold, if it is time. A name that this binder has neither written nor found
// for a hold is another component's, and is not cleared.
func (m *nomination) advance(s *Writer) {
	if m.op != 0 || s.Facts.Cluster == nil || s.Now.Before(m.Due) {
		return
	}
	if !s.Holds(m.pod.UID) {
		delete(s.nominations, m.pod.UID) // another binder's now
		return
	}
	p, known, gone := s.Pod(m.pod.UID, 0)
	if gone || known && (p.NodeName != "" || p.Deleting || p.Terminal) {
		delete(s.nominations, m.pod.UID)
		return
	}
	if !known || !s.MayAct(m.pod.UID) {
		return
	}
	current := p.Status().NominatedNodeName
	_, entry, reserved := s.Ledger.Entry(m.pod.UID)
	switch {
	case reserved && entry.State != ledger.Held:
		// A bind may be in flight, and clears the field.
	case reserved && current == m.node:
		m.lastName = m.node
	case reserved && (m.lastName != m.node || current == ""):
		m.write(s, m.node)
	case reserved:
	case current != "" && current == m.lastName, current == "" && m.unconfirmed:
		m.write(s, "")
	case p.ResourceVersion < m.writtenRV:
		// The facts do not show this binder's write yet.
	default:
		delete(s.nominations, m.pod.UID)
	}
}

// write emits a write of the field; an empty node clears it.
func (m *nomination) write(s *Writer, node string) {
	m.op, m.sent = s.begin(m), node
	s.Emit(effect.Nominate{Op: m.op, Pod: m.pod, NodeName: node})
}

// joinsCondition reports whether the name can be written together with the condition of a decision: the decision is
// about the hold that the nomination is for, and the name has yet to be written.
func (m *nomination) joinsCondition(s *Writer, d events.Decision, p *state.Pod) bool {
	if m.op != 0 || d.Kind != events.DecisionNominated || m.node == p.Status().NominatedNodeName {
		return false
	}
	doc, e, reserved := s.Ledger.Entry(m.pod.UID)
	return reserved && e.State == ledger.Held && e.Token.String() == d.Token && doc.NodeName == m.node
}

func (m *nomination) answered(s *Writer, in effect.Input) {
	if a, ok := in.(effect.Answered); ok {
		m.written(s, a)
		return
	}
	m.op = 0 // NotStarted: the obstacle is evaluated with the next change
}

// written handles the outcome of the write in flight, which may be the nomination's own or a condition's.
func (m *nomination) written(s *Writer, a effect.Answered) {
	m.op = 0
	if m.sent != "" && (a.Result == effect.Done || a.Result == effect.Unknown) {
		m.lastName = m.sent
	}
	m.unconfirmed = a.Result == effect.Unknown
	m.writtenRV = max(m.writtenRV, a.ResourceVersion)
	// The facts show the outcome. Until then, and after a refusal, the name is not written again.
	m.Due = s.Now.Add(s.Limits.Idle)
	if a.Result == effect.Unknown {
		m.Pause(s.Now)
	}
}
