package telemetry

import (
	"sync"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

// Subsystems, which are the prefixes of the names.
const (
	schedulerSubsystem   = "scheduler"
	deschedulerSubsystem = "descheduler"
	berthSubsystem       = "berth"
)

var registerOnce sync.Once

// Register puts all metrics into the legacy registry, once; Setup calls it. Before that they
// count nothing.
func Register() {
	registerOnce.Do(func() {
		for _, list := range [][]metrics.Registerable{schedulerMetrics, deschedulerMetrics, berthMetrics} {
			legacyregistry.MustRegister(list...)
		}
	})
}

// counter, gauge and histogram make the metrics of this package; they differ in little.
func counter(o *metrics.CounterOpts, labels ...string) *metrics.CounterVec {
	return metrics.NewCounterVec(o, labels)
}

func gauge(o *metrics.GaugeOpts, labels ...string) *metrics.GaugeVec {
	return metrics.NewGaugeVec(o, labels)
}

func histogram(o *metrics.HistogramOpts, labels ...string) *metrics.HistogramVec {
	return metrics.NewHistogramVec(o, labels)
}
