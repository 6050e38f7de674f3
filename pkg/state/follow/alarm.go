package follow

// Alarm informs human readers of facts, and of snapshots of them, that a service cannot read. It is for use by one
// goroutine.
type Alarm struct {
	write func(message string, attributes ...any)
	// told reports whether the store's current hole has been reported already.
	told bool
}

// NewAlarm returns an alarm that reports through write, which limits its own output (as aside.Notes does). The
// attributes are keys and values in turn, as in log/slog.
func NewAlarm(write func(message string, attributes ...any)) *Alarm {
	return &Alarm{write: write}
}

// Look is called when a batch has been applied, with the store's error about facts that cannot be read
// (state.Snapshot.Unreadable).
func (a *Alarm) Look(b Batch, unreadable error) {
	if b.Reset {
		a.told = false
	}
	if b.Unreadable != nil {
		a.write("snapshot of the facts cannot be decoded; reading all facts instead", "error", b.Unreadable)
	}
	if unreadable != nil && !a.told {
		a.told = true
		a.write("fact cannot be decoded; no decisions until the leading queue has published the facts again",
			"error", unreadable)
	}
}
