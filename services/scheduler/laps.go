package scheduler

import (
	"time"

	"k8s.io/utils/clock"

	"github.com/berth-scheduler/berth/pkg/placement/rule"
	"github.com/berth-scheduler/berth/pkg/telemetry"
)

// statusError is upstream's status for a result that is neither success nor a rejection.
const statusError = "Error"

// laps measures the time of the parts of evaluations. For the deciding goroutine.
type laps struct {
	clock   clock.PassiveClock
	profile string
	// begin is when the extension point began, last when the last rule of it ended.
	begin, last time.Time
}

// Begin implements engine.Laps.
func (l *laps) Begin(profile string) {
	l.profile, l.begin = profile, l.clock.Now()
	l.last = l.begin
}

// Lap implements engine.Laps.
func (l *laps) Lap(point, plugin string, code rule.Code) {
	now := l.clock.Now()
	if plugin != "" {
		telemetry.PluginExecution(plugin, point, code.String(), now.Sub(l.last))
	} else {
		telemetry.ExtensionPoint(point, code.String(), l.profile, now.Sub(l.begin))
		l.begin = now
	}
	l.last = now
}
