package feed

// Alarm reports facts, and stored snapshots of them, that a service cannot read. A hole is reported once, until a
// Reset ends it. It is for use by one goroutine.
type Alarm struct {
	write func(message string, attributes ...any)
	// reported means that the current hole has been reported already.
	reported bool
}

// NewAlarm returns an alarm that reports through write, which limits its own output (as unreadable.Notes does). The
// attributes are keys and values in turn, as in log/slog.
func NewAlarm(write func(message string, attributes ...any)) *Alarm {
	return &Alarm{write: write}
}

// Observe is called with each step.
func (a *Alarm) Observe(step Step) {
	if step.Reset {
		a.reported = false
	}
	if step.Unreadable != nil {
		a.write("snapshot of the facts cannot be decoded; reading all facts instead", "error", step.Unreadable)
	}
	if err := step.Snapshot.Unreadable(); err != nil && !a.reported {
		a.reported = true
		a.write("fact cannot be decoded; no decisions until the leading queue has published the facts again",
			"error", err)
	}
}
