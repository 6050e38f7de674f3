package descheduler

import (
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/berth-scheduler/berth/pkg/descheduling"
	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/telemetry"
	"github.com/berth-scheduler/berth/services/descheduler/decide"
)

// These are the results of an eviction in the descheduler's metric. A limit that kept a pod is a result too, under
// its own reason.
const (
	resultSuccess = "success"
	resultError   = "error"
	// resultBackground is an eviction that another controller carries out; its success is counted when the pod has left.
	resultBackground = "background"
)

// observeSettled counts the outcome of an eviction that this process requested, or that another controller has taken it
// on. So an eviction counts once, whichever replica leads when its outcome arrives. The outcome is the binder's; a
// request is no success yet. It is called by intake, on the goroutine that reads the decisions.
func observeSettled(profile string, outcome events.Decision) {
	result := resultError
	switch outcome.Kind {
	case events.DecisionEvicted:
		result = resultSuccess
	case events.DecisionEvictBackground:
		result = resultBackground
	}
	telemetry.PodEvicted(telemetry.Eviction{
		Result: result, Strategy: outcome.Strategy, Profile: profile,
		Namespace: outcome.Pod.Namespace, Node: outcome.NodeName,
	})
}

// observeCycle updates the metrics of a cycle. It skips dry runs, because what they decide does not happen. A limit
// that kept pods counts twice, as upstream's metric has it: as a result of an eviction, and under the reason.
func observeCycle(out decide.Outcome, took time.Duration, dryRun bool) {
	if dryRun {
		return
	}
	telemetry.DeschedulerLoop(took)
	for r, n := range out.Refused {
		telemetry.PodsKept(r.Strategy, r.Profile, string(r.Reason), n)
		switch r.Reason {
		case descheduling.NodeLimit, descheduling.NamespaceLimit, descheduling.TotalLimit:
			for range n {
				telemetry.PodEvicted(telemetry.Eviction{
					Result: string(r.Reason), Strategy: r.Strategy, Profile: r.Profile,
					Namespace: r.Namespace, Node: r.Node,
				})
			}
		}
	}
}

// timed returns a function that observes how long strategies take; nil in a dry run. The core calls it around each
// strategy, because it has no clock; what it measures does not influence the plan.
func (d *Descheduler) timed() func(profile, strategy string) (ended func()) {
	if d.cfg.DryRun {
		return nil
	}
	return func(profile, strategy string) func() {
		began := d.deps.Clock.Now()
		return func() { telemetry.DeschedulerStrategy(strategy, profile, d.deps.Clock.Since(began)) }
	}
}

// summary is the content of the log line about one cycle.
type summary struct {
	out     decide.Outcome
	written int
	// took is the time from the decision to the end of the last request.
	took time.Duration
	// facts is the sequence of the facts on which the cycle was decided.
	facts uint64
}

// summarise writes the one log line of a cycle, and a warning for each strategy that has failed.
func (d *Descheduler) summarise(s summary) {
	attrs := []any{
		"nodes", s.out.Nodes, "picked", s.out.Picked, "decided", len(s.out.Evict), "asked", s.written,
		"dryRun", d.cfg.DryRun, "took", s.took, "facts", s.facts, refusals(s.out),
	}
	for _, f := range s.out.Failed {
		d.deps.Logger.Warn("strategy failed", "profile", f.Profile, "strategy", f.Strategy, telemetry.KeyError, f.Err)
	}
	if s.out.Skipped != "" {
		attrs = append(attrs, "skipped", s.out.Skipped)
	}
	d.deps.Logger.Info("cycle", attrs...)
}

// refusals counts the pods that were kept, by reason, sorted by reason so that equal cycles have equal lines.
func refusals(out decide.Outcome) slog.Attr {
	byReason := map[string]int{}
	for r, n := range out.Refused {
		byReason[string(r.Reason)] += n
	}
	var attrs []any
	for _, reason := range slices.Sorted(maps.Keys(byReason)) {
		attrs = append(attrs, slog.Int(reason, byReason[reason]))
	}
	return slog.Group("kept", attrs...)
}

// logEvictions logs every eviction of a dry run, in the order in which they would be requested.
func (d *Descheduler) logEvictions(out decide.Outcome) {
	for _, e := range out.Evict {
		d.deps.Logger.Info("would evict", "pod", e.Decision.Pod.Namespace+"/"+e.Decision.Pod.Name,
			"node", e.Decision.NodeName, "why", e.Decision.Message)
	}
}
