package telemetry

import (
	"sync"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

// family is a group of metrics with one prefix and one stability level. Its methods declare a metric of the family: a
// vector if it has labels, whose series appear when they are first used; otherwise a metric that is 0 from the start.
// A declaration is a package variable, and a function of the package changes it:
//
//	var turnsGiven = berth.counter("turns_total", "Number of …")
//
//	func TurnGiven() { turnsGiven.Inc() }
//
// So callers cannot mistype a label, and do not depend on the library.
type family struct {
	prefix string
	level  metrics.StabilityLevel
}

var (
	// Upstream's metrics keep upstream's stability; the others may change.
	schedulerStable = family{"scheduler", metrics.STABLE}
	schedulerBeta   = family{"scheduler", metrics.BETA}
	schedulerAlpha  = family{"scheduler", metrics.ALPHA}
	schedulerVolume = family{"scheduler_volume", metrics.ALPHA}
	descheduler     = family{"descheduler", metrics.ALPHA}
	berth           = family{"berth", metrics.ALPHA}
)

// declaration is a declared metric with its labels.
type declaration struct {
	metric metrics.Registerable
	labels []string
}

// declared are the metrics of this package, except those of collectors. It is filled while the package is initialised,
// and only read afterwards.
var declared []declaration

// declare records a metric of this package for Register and Labels.
func declare[M metrics.Registerable](metric M, labels ...string) M {
	declared = append(declared, declaration{metric, labels})
	return metric
}

// counter and the methods after it declare a metric of each type. Help texts are sentences of the reference.
func (f family) counter(name, help string) *metrics.Counter {
	return declare(metrics.NewCounter((*metrics.CounterOpts)(f.options(name, help))))
}

func (f family) counterVec(name, help string, labels ...string) *metrics.CounterVec {
	return declare(metrics.NewCounterVec((*metrics.CounterOpts)(f.options(name, help)), labels), labels...)
}

func (f family) gauge(name, help string) *metrics.Gauge {
	return declare(metrics.NewGauge((*metrics.GaugeOpts)(f.options(name, help))))
}

func (f family) gaugeVec(name, help string, labels ...string) *metrics.GaugeVec {
	return declare(metrics.NewGaugeVec((*metrics.GaugeOpts)(f.options(name, help)), labels), labels...)
}

func (f family) histogram(name, help string, buckets []float64) *metrics.Histogram {
	return declare(metrics.NewHistogram(f.histogramOptions(name, help, buckets)))
}

func (f family) histogramVec(name, help string, buckets []float64, labels ...string) *metrics.HistogramVec {
	return declare(metrics.NewHistogramVec(f.histogramOptions(name, help, buckets), labels), labels...)
}

// options returns the options that all types share.
func (f family) options(name, help string) *metrics.KubeOpts {
	return &metrics.KubeOpts{Subsystem: f.prefix, Name: name, Help: help, StabilityLevel: f.level}
}

// histogramOptions returns the options of a histogram; buckets are upper bounds, in the metric's unit.
func (f family) histogramOptions(name, help string, buckets []float64) *metrics.HistogramOpts {
	return &metrics.HistogramOpts{
		Subsystem: f.prefix, Name: name, Help: help, StabilityLevel: f.level, Buckets: buckets,
	}
}

// registerOnce makes Register idempotent: Setup calls it, and so do tests.
var registerOnce sync.Once

// Register puts all metrics into the legacy registry, once; Setup calls it. Before that they count nothing.
func Register() {
	registerOnce.Do(func() {
		for _, d := range declared {
			legacyregistry.MustRegister(d.metric)
		}
		legacyregistry.CustomMustRegister(processCertificates)
	})
}

// Labels returns the labels of every metric of this package, by its full name, for tools that check queries. The
// caller owns the map.
func Labels() map[string][]string {
	all := map[string][]string{certificateExpiry: certificateLabels}
	for _, d := range declared {
		all[d.metric.FQName()] = d.labels
	}
	return all
}
