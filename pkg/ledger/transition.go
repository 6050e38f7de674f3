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

// legal is the life cycle of a reservation: it starts Held or Committed, moves forward only, and may leave from any
// state (CheckSuccessor checks what a departure must prove). State 0 stands for "does not exist".
func legal(from, to State) bool {
	switch from {
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

// TransitionError reports a step that a reservation's state does not allow. From is 0 if the node holds no
// reservation of that pod with that token.
type TransitionError struct {
	NodeUID, PodUID string
	Token           Token
	From, To        State
}

func (e *TransitionError) Error() string {
	return fmt.Sprintf("ledger: reservation of pod %s (token %s) on node %s cannot go from %s to %s",
		e.PodUID, e.Token, e.NodeUID, e.From, e.To)
}
