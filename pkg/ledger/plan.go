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

func (p PlanRecord) key() string { return KeyPlan(p.ID) }

func (p PlanRecord) revision() int64 { return p.Revision }

func (p PlanRecord) blank() PlanRecord { return PlanRecord{ID: p.ID} }

// to returns the record in its next state.
func (p PlanRecord) to(s PlanState) PlanRecord {
	p.State = s
	return p
}

// follows reports whether a record may move from one state to another; 0 stands for "does not exist".
func (s PlanState) follows(before PlanState) bool {
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

func (p PlanRecord) check() error {
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
