package txns

import "fmt"

// Fate is the state of a claimed victim, as the facts show it.
type Fate uint8

const (
	// Staying: it runs, as far as is known.
	Staying Fate = iota + 1
	// Leaving: its deletion is under way; it still occupies its room.
	Leaving
	// Left: it is gone, or has ended, and is not counted anywhere any more.
	Left
)

// String is the word used in messages.
func (f Fate) String() string {
	switch f {
	case Staying:
		return "staying"
	case Leaving:
		return "leaving"
	case Left:
		return "gone"
	}
	return fmt.Sprintf("Fate(%d)", uint8(f))
}

// ClaimFacts is the part of a member's view of the API that the transactions about victims need.
type ClaimFacts interface {
	PodFacts
	// VictimFate returns the fate of a pod that was claimed at podRV, and for Leaving and Left a resourceVersion at
	// which the facts show it. Repeated calls should return the same resourceVersion: budget claims are settled
	// when the progress of budgets has reached it.
	VictimFate(podUID string, podRV uint64) (Fate, uint64)
	// BudgetProgress is the applied progress of disruption budgets; 0 while it is undefined.
	BudgetProgress() uint64
}

// RefusedError reports a step that documents or facts do not allow, or not yet. Nothing has happened; the caller
// decides again on what it knows at that time.
type RefusedError struct {
	// Step is the transaction ("T3 promote"); NodeUID and PodUID may be empty.
	Step, NodeUID, PodUID string
	Reason                string
}

func (e *RefusedError) Error() string {
	return fmt.Sprintf("ledger: %s: node %q, pod %q: %s", e.Step, e.NodeUID, e.PodUID, e.Reason)
}
