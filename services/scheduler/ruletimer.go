package scheduler

import (
	"time"

	"k8s.io/utils/clock"

	"github.com/berth-scheduler/berth/pkg/placement/rule"
	"github.com/berth-scheduler/berth/pkg/telemetry"
)

// statusError is upstream's status for a result that is neither success nor a rejection.
const statusError = "Error"

// ruleTimer measures the time of the parts of evaluations. The core has no clock: it calls ruleTimer at the points
// where kube-scheduler's framework measures (plugin_execution_duration_seconds and
// framework_extension_point_duration_seconds), and what is measured has no influence on it. For the deciding
// goroutine.
type ruleTimer struct {
	clock   clock.PassiveClock
	profile string
	// begin is when the extension point began, last when the last rule of it ended.
	begin, last time.Time
}

// Begin implements engine.Laps.
func (l *ruleTimer) Begin(profile string) {
	l.profile, l.begin = profile, l.clock.Now()
	l.last = l.begin
}

// Lap implements engine.Laps. An empty plugin ends the extension point as a whole.
func (l *ruleTimer) Lap(point, plugin string, code rule.Code) {
	now := l.clock.Now()
	if plugin != "" {
		telemetry.PluginExecution(plugin, point, code.String(), now.Sub(l.last))
	} else {
		telemetry.ExtensionPoint(point, code.String(), l.profile, now.Sub(l.begin))
		l.begin = now
	}
	l.last = now
}
