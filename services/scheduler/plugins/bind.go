package plugins

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/berth-scheduler/berth/pkg/ledger/txns"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/services/scheduler/decide/step"
)

// binds reports whether plugins must be asked to bind a pod: not if an extender binds it, which has precedence.
// Source: bind in pkg/scheduler/schedule_one.go.
func (s *Set) binds(d *openCycle) bool {
	return len(s.bind) > 0 && (s.extenders == nil || !s.extenders.BindsPod(state.NewPod(d.pod)))
}

// bindFor is the end of a binding cycle: it asks plugins in their order until one does not skip the pod. If plugins
// heed their context, it takes no longer than binders leave the pod to them (txns.DelegatedFor). Whether the pod is
// bound is decided by the API server alone: binders check it before they take the place back.
func (s *Set) bindFor(ctx context.Context, key cycleKey, answer *step.PluginResult) {
	s.during(ctx, key, txns.DelegatedFor, answer, func(until context.Context, d *openCycle) {
		answer.By, answer.Err = s.bindBy(until, d)
	})
}

// bindBy returns the plugin that has bound the pod, empty if the bind is left to the binders. Source: RunBindPlugins
// in pkg/scheduler/framework/runtime/framework.go, from which the messages are taken.
func (s *Set) bindBy(ctx context.Context, d *openCycle) (plugin string, err error) {
	for _, p := range s.bind {
		begin := time.Now()
		status := p.Bind(ctx, d.cycle, d.pod, d.node)
		d.timeCall("Bind", p.Name(), status, begin)
		// A plugin that skips leaves the pod to the next one; any other answer ends the search.
		switch {
		case status.IsSkip():
			continue
		case status.IsSuccess():
			return p.Name(), nil
		case status.IsRejected():
			return "", status.AsError()
		}
		return "", fmt.Errorf("running Bind plugin %q: %w", p.Name(), status.AsError())
	}
	if s.noBinder {
		return "", errors.New("all Bind plugins skip the pod, and DefaultBinder is disabled")
	}
	return "", nil
}
