package declare

import (
	"slices"

	"k8s.io/component-base/metrics"
)

// Family is a group of metrics with one prefix and one stability level. Its methods declare a metric of the family: a
// vector if it has labels, whose series appear when they are first used; otherwise a metric that is 0 from the start.
// A declaration is a package variable, and a function of the package changes it:
//
//	var turnsGiven = berth.Counter("turns_total", "Number of …")
//
//	func TurnGiven() { turnsGiven.Inc() }
//
// So callers cannot mistype a label, and do not depend on the library.
type Family struct {
	Prefix string
	Level  metrics.StabilityLevel
}

// Declaration is a declared metric with its labels.
type Declaration struct {
	Metric metrics.Registerable
	Labels []string
}

// declared are the metrics of all packages, except those of collectors. It is filled while packages are initialised,
// and only read afterwards.
var declared []Declaration

// All returns the declared metrics. The caller must not change them.
func All() []Declaration { return declared }

// declare records a metric for All.
func declare[M metrics.Registerable](metric M, labels ...string) M {
	declared = append(declared, Declaration{metric, labels})
	return metric
}

// Counter declares a counter. The help texts of all metrics are sentences of the reference.
func (f Family) Counter(name, help string) *metrics.Counter {
	return declare(metrics.NewCounter((*metrics.CounterOpts)(f.options(name, help))))
}

// CounterVec declares a counter with labels.
func (f Family) CounterVec(name, help string, labels ...string) *metrics.CounterVec {
	return declare(metrics.NewCounterVec((*metrics.CounterOpts)(f.options(name, help)), labels), labels...)
}

// Gauge declares a gauge.
func (f Family) Gauge(name, help string) *metrics.Gauge {
	return declare(metrics.NewGauge((*metrics.GaugeOpts)(f.options(name, help))))
}

// GaugeVec declares a gauge with labels.
func (f Family) GaugeVec(name, help string, labels ...string) *metrics.GaugeVec {
	return declare(metrics.NewGaugeVec((*metrics.GaugeOpts)(f.options(name, help)), labels), labels...)
}

// Histogram declares a histogram; its buckets are upper bounds, ascending.
func (f Family) Histogram(name, help string, buckets []float64) *metrics.Histogram {
	return declare(metrics.NewHistogram(f.histogramOptions(name, help, buckets)))
}

// HistogramVec declares a histogram with labels.
func (f Family) HistogramVec(name, help string, buckets []float64, labels ...string) *metrics.HistogramVec {
	return declare(metrics.NewHistogramVec(f.histogramOptions(name, help, buckets), labels), labels...)
}

// options returns the options that all types share.
func (f Family) options(name, help string) *metrics.KubeOpts {
	return &metrics.KubeOpts{Subsystem: f.Prefix, Name: name, Help: help, StabilityLevel: f.Level}
}

// histogramOptions returns the options of a histogram; buckets are upper bounds, in the metric's unit.
func (f Family) histogramOptions(name, help string, buckets []float64) *metrics.HistogramOpts {
	return &metrics.HistogramOpts{
		Subsystem: f.Prefix, Name: name, Help: help, StabilityLevel: f.Level, Buckets: buckets,
	}
}

// Start creates the series of a counter with every combination of these label values, a list for each label, in the
// order of the counter's labels.
func Start(counter *metrics.CounterVec, values ...[]string) {
	combinations := [][]string{nil}
	for _, list := range values {
		var longer [][]string
		for _, c := range combinations {
			for _, value := range list {
				longer = append(longer, append(slices.Clone(c), value))
			}
		}
		combinations = longer
	}
	for _, c := range combinations {
		counter.WithLabelValues(c...).Add(0)
	}
}
