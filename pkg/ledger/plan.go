package ledger

import (
	"fmt"
	"strings"
)

// PlanState is the state of a plan that has a record.
type PlanState uint8

const (
	// PlanForming: its claims are being made. None of them counts yet, and no pod may be evicted.
	PlanForming PlanState = iota + 1
	// PlanReady: all of its claims have been made.
	PlanReady
	// PlanAborted: the rest of it can be dropped, except evictions in progress.
	PlanAborted
	// PlanDone: its hold was promoted.
	PlanDone
)

// String is the name used in messages and logs.
func (s PlanState) String() string {
	switch s {
	case 0:
		return "none"
	case PlanForming:
		return "Forming"
	case PlanReady:
		return "Ready"
	case PlanAborted:
		return "Aborted"
	case PlanDone:
		return "Done"
	}
	return fmt.Sprintf("PlanState(%d)", uint8(s))
}

// PlanRecord is the commit record of a victim plan that takes more than one transaction: plan/<id>, at one
// revision. Its state applies to all of the plan's claims at once.
type PlanRecord struct {
	ID    string
	State PlanState
	// NodeUID is the node whose document has the hold.
	NodeUID string
	// PodUID is the pod the plan was made for, Shard the member that made it. Both are for human readers only.
	PodUID, Shard string
	// Victims is the number of claims the plan has when it is Ready.
	Victims int
	// Revision is the mod revision the record was read at; 0 when it does not exist.
	Revision int64
	Later    string
}

// KeyPlan is the key of a plan's record.
func KeyPlan(id string) string { return PrefixPlan + id }

// DocKey returns the key of the document.
func (p PlanRecord) DocKey() string { return KeyPlan(p.ID) }

// ReadAt returns the revision that the document was read at, 0 if it does not exist.
func (p PlanRecord) ReadAt() int64 { return p.Revision }

// Blank returns the document in the form that stands for one that does not exist.
func (p PlanRecord) Blank() PlanRecord { return PlanRecord{ID: p.ID} }

// To returns the record in its next state.
func (p PlanRecord) To(s PlanState) PlanRecord {
	p.State = s
	return p
}

// Follows reports whether a record may move from one state to another; 0 stands for "does not exist".
func (s PlanState) Follows(before PlanState) bool {
	switch s {
	case PlanForming:
		return before == 0
	case PlanReady:
		return before == PlanForming
	case PlanAborted:
		return before == PlanForming || before == PlanReady
	case PlanDone:
		return before == PlanReady
	}
	return before == PlanAborted || before == PlanDone
}

// Check returns an error unless the record is well formed.
func (p PlanRecord) Check() error {
	switch {
	case !IsRecorded(p.ID) || strings.Contains(p.ID, "/"):
		return fmt.Errorf("id %q is not that of a recorded plan", p.ID)
	case p.State < PlanForming || p.State > PlanDone:
		return fmt.Errorf("unknown state %d", p.State)
	case p.NodeUID == "":
		return fmt.Errorf("plan %s without the node of its hold", p.ID)
	case p.Victims < 0:
		return fmt.Errorf("plan %s has %d victims", p.ID, p.Victims)
	}
	return nil
}

// planRecorded is the prefix of the ids of plans that have a record.
const planRecorded = "large-"

// PlanID returns the id of the plan that starts with a hold (or placeholder) of this token. A recorded plan takes
// more than one transaction: its victims count as claimed only while plan/<id> is Ready.
func PlanID(owner Token, recorded bool) string {
	if recorded {
		return planRecorded + owner.String()
	}
	return owner.String()
}

// IsRecorded reports whether a plan has a record at plan/<id>.
func IsRecorded(plan string) bool { return strings.HasPrefix(plan, planRecorded) }

// planEviction is the prefix of the ids of evictions that make room for no pod.
const planEviction = "evict-"

// EvictionID returns the id of a plan that is one eviction and nothing else, requested with this token. Such a plan
// has no place, and its owner is the member that evicts.
func EvictionID(token Token) string { return planEviction + token.String() }

// IsEviction reports whether a plan is one eviction and nothing else.
func IsEviction(plan string) bool { return strings.HasPrefix(plan, planEviction) }
