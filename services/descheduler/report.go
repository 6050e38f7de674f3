package descheduler

import (
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/services/descheduler/internal/decide"
)

// Metrics by the names, labels and buckets of sigs.k8s.io/descheduler v0.36, so that its
// dashboards keep working. podsEvicted counts an eviction when its outcome is known, and a
// limit when it kept a pod; results are in upstream's words.
var (
	podsEvicted = newPodsEvicted("pods_evicted_total")
	// podsEvictedOld is the name from before v0.34, which upstream keeps beside the new one.
	podsEvictedOld = newPodsEvicted("pods_evicted")
	loopSeconds    = metrics.NewHistogram(&metrics.HistogramOpts{
		Subsystem:      "descheduler",
		Name:           "loop_duration_seconds",
		Help:           "Time from the start of a cycle's decision to its last ask written.",
		Buckets:        []float64{.01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 25, 50, 100, 250, 500},
		StabilityLevel: metrics.ALPHA,
	})
)

func newPodsEvicted(name string) *metrics.CounterVec {
	return metrics.NewCounterVec(&metrics.CounterOpts{
		Subsystem:      "descheduler",
		Name:           name,
		Help:           "Evictions by result, strategy, profile, namespace and node. A result of error is a refusal.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"result", "strategy", "profile", "namespace", "node"})
}

var registerMetrics = sync.OnceFunc(func() {
	legacyregistry.MustRegister(podsEvicted, podsEvictedOld, loopSeconds)
})

// count takes the label values in the order of the metric's labels.
func count(n int, labels ...string) {
	podsEvicted.WithLabelValues(labels...).Add(float64(n))
	podsEvictedOld.WithLabelValues(labels...).Add(float64(n))
}

const (
	resultSuccess = "success"
	resultError   = "error"
)

// observeSettled counts the end of an eviction that this process asked for.
func observeSettled(profile string, outcome events.Decision) {
	result := resultError
	if outcome.Kind == events.DecisionEvicted {
		result = resultSuccess
	}
	count(1, result, outcome.Strategy, profile, outcome.Pod.Namespace, outcome.NodeName)
}

// observeCycle leaves dry runs out: what they decide does not happen.
func observeCycle(out decide.Outcome, took time.Duration, dryRun bool) {
	if dryRun {
		return
	}
	loopSeconds.Observe(took.Seconds())
	for r, n := range out.Refused {
		switch r.Reason {
		case decide.NodeLimit, decide.NamespaceLimit, decide.TotalLimit:
			count(n, string(r.Reason), r.Strategy, r.Profile, r.Namespace, r.Node)
		}
	}
}

// summary is what one line says about one cycle.
type summary struct {
	out     decide.Outcome
	written int
	took    time.Duration
	// facts is the sequence the cycle was decided at.
	facts uint64
}

func (d *Descheduler) summarise(s summary) {
	attrs := []any{
		"nodes", s.out.Nodes, "picked", s.out.Picked, "decided", len(s.out.Evict), "asked", s.written,
		"dryRun", d.cfg.DryRun, "took", s.took, "facts", s.facts, refusals(s.out),
	}
	if s.out.Skipped != "" {
		attrs = append(attrs, "skipped", s.out.Skipped)
	}
	d.deps.Logger.Info("cycle", attrs...)
}

// refusals sums up who was kept, by reason, sorted.
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

// show logs every eviction of a dry run.
func (d *Descheduler) show(out decide.Outcome) {
	for _, e := range out.Evict {
		d.deps.Logger.Info("would evict", "pod", e.Decision.Pod.Namespace+"/"+e.Decision.Pod.Name,
			"node", e.Decision.NodeName, "why", e.Decision.Message)
	}
}
