package follow

import (
	"log/slog"
	"time"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/telemetry/aside"
)

// Alarm tells people of facts, and snapshots of them, that a service cannot read. For one goroutine.
type Alarm struct {
	notes *aside.Notes
	// told: of the hole in the store that there is.
	told bool
}

// NewAlarm returns the alarm of a service.
func NewAlarm(service string, logger *slog.Logger, now func() time.Time) *Alarm {
	return &Alarm{notes: aside.New(service, events.Facts, logger, now)}
}

// Look is called when a batch has been applied, with what the store then says of facts that cannot be read
// (state.Snapshot.Unreadable).
func (a *Alarm) Look(b Batch, unreadable error) {
	if b.Reset {
		a.told = false
	}
	if b.Unreadable != nil {
		a.notes.Write("the snapshot of the facts cannot be read: they are read without", "error", b.Unreadable)
	}
	if unreadable != nil && !a.told {
		a.told = true
		a.notes.Write("a fact cannot be read: nothing is decided until the queue that leads has told the facts anew",
			"error", unreadable)
	}
}
