package follow

// Alarm tells people of facts, and snapshots of them, that a service cannot read. For one goroutine.
type Alarm struct {
	write func(message string, attributes ...any)
	// told: of the hole in the store that there is.
	told bool
}

// NewAlarm returns an alarm that tells people by write, which bounds what it writes itself (aside.Notes does). The
// attributes are keys and values in turn, as log/slog has them.
func NewAlarm(write func(message string, attributes ...any)) *Alarm {
	return &Alarm{write: write}
}

// Look is called when a batch has been applied, with what the store then says of facts that cannot be read
// (state.Snapshot.Unreadable).
func (a *Alarm) Look(b Batch, unreadable error) {
	if b.Reset {
		a.told = false
	}
	if b.Unreadable != nil {
		a.write("the snapshot of the facts cannot be read: they are read without", "error", b.Unreadable)
	}
	if unreadable != nil && !a.told {
		a.told = true
		a.write("a fact cannot be read: nothing is decided until the queue that leads has told the facts anew",
			"error", unreadable)
	}
}
