package telemetry

import "sync/atomic"

// Buckets of the descheduler's histograms, in seconds.
var (
	loopBuckets     = []float64{0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100, 250, 500}
	strategyBuckets = []float64{0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100}
)

// Names that the descheduler deprecated in 0.34 and serves in addition to the new ones (metrics/metrics.go), for
// dashboards and alerts that are older. All are vectors, so that a process that does not serve them has no series.
// The deprecated version is not declared: the registry would hide them by the version of Kubernetes' libraries.
var (
	oldPodsEvicted = descheduler.CounterVec("pods_evicted",
		"Deprecated name of descheduler_pods_evicted_total, served with --old-metric-names.",
		"result", "strategy", "profile", "namespace", "node")
	oldLoopDuration = descheduler.HistogramVec("descheduler_loop_duration_seconds",
		"Deprecated name of descheduler_loop_duration_seconds, served with --old-metric-names.", loopBuckets)
	oldStrategyDuration = descheduler.HistogramVec("descheduler_strategy_duration_seconds",
		"Deprecated name of descheduler_strategy_duration_seconds, served with --old-metric-names.",
		strategyBuckets, "strategy", "profile")
)

// oldNames is whether the descheduler's measurements are also recorded under the deprecated names
// (Config.OldNames).
var oldNames atomic.Bool
