package ledger

import "fmt"

// String is the name used in messages and logs.
func (s State) String() string {
	switch s {
	case 0:
		return "none"
	case Held:
		return "Held"
	case Committed:
		return "Committed"
	case Fencing:
		return "Fencing"
	case Evicting:
		return "Evicting"
	}
	return fmt.Sprintf("State(%d)", uint8(s))
}

// String is the name used in messages and logs.
func (r Role) String() string {
	switch r {
	case RoleReservation:
		return "Reservation"
	case RoleVictim:
		return "Victim"
	case RoleKeeper:
		return "Keeper"
	case RoleMove:
		return "Move"
	}
	return fmt.Sprintf("Role(%d)", uint8(r))
}

// MayBecome reports whether a reservation may go from this state to another. A reservation starts Held or Committed,
// moves forward only, and may leave from any state (invariant.CheckSuccessor checks what a departure must prove). State
// 0 stands for "does not exist".
func (s State) MayBecome(to State) bool {
	switch s {
	case 0:
		return to == Held || to == Committed
	case Held:
		return to == Committed || to == 0
	case Committed:
		return to == Fencing || to == 0
	case Fencing:
		return to == 0
	}
	return false
}
