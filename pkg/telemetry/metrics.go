package telemetry

import (
	"maps"
	"sync"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

// Subsystems, which are the prefixes of the metric names.
const (
	schedulerSubsystem   = "scheduler"
	deschedulerSubsystem = "descheduler"
	berthSubsystem       = "berth"
)

var registerOnce sync.Once

// Register puts all metrics into the legacy registry, once; Setup calls it. Before that they count nothing.
func Register() {
	registerOnce.Do(func() {
		for _, list := range [][]metrics.Registerable{schedulerMetrics, deschedulerMetrics, berthMetrics} {
			legacyregistry.MustRegister(list...)
		}
		legacyregistry.CustomMustRegister(processCertificates)
	})
}

// declared holds the labels of the metrics that have any, by full name: it is filled while this package is
// initialised, and only read afterwards.
var declared = map[string][]string{}

func declare(subsystem, name string, labels []string) {
	declared[metrics.BuildFQName("", subsystem, name)] = labels
}

// Labels returns the labels of every metric of this package, by its full name, for tools that check queries. The
// caller owns the map.
func Labels() map[string][]string {
	all := maps.Clone(declared)
	for _, list := range [][]metrics.Registerable{schedulerMetrics, deschedulerMetrics, berthMetrics} {
		for _, m := range list {
			if _, labelled := all[m.FQName()]; !labelled {
				all[m.FQName()] = nil
			}
		}
	}
	return all
}

// counter, gauge and histogram create the metrics of this package and declare their labels.
func counter(o *metrics.CounterOpts, labels ...string) *metrics.CounterVec {
	declare(o.Subsystem, o.Name, labels)
	return metrics.NewCounterVec(o, labels)
}

func gauge(o *metrics.GaugeOpts, labels ...string) *metrics.GaugeVec {
	declare(o.Subsystem, o.Name, labels)
	return metrics.NewGaugeVec(o, labels)
}

func histogram(o *metrics.HistogramOpts, labels ...string) *metrics.HistogramVec {
	declare(o.Subsystem, o.Name, labels)
	return metrics.NewHistogramVec(o, labels)
}
