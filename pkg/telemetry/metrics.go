package telemetry

import (
	"sync"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/berth-scheduler/berth/pkg/telemetry/internal/declare"
)

// Families of metrics; a family's methods declare a metric.
var (
	// Upstream's metrics keep upstream's stability; the others may change.
	schedulerStable = declare.Family{Prefix: "scheduler", Level: metrics.STABLE}
	schedulerBeta   = declare.Family{Prefix: "scheduler", Level: metrics.BETA}
	schedulerAlpha  = declare.Family{Prefix: "scheduler", Level: metrics.ALPHA}
	descheduler     = declare.Family{Prefix: "descheduler", Level: metrics.ALPHA}
	berth           = declare.Family{Prefix: "berth", Level: metrics.ALPHA}
)

// registerOnce makes Register idempotent: Setup calls it, and so do tests.
var registerOnce sync.Once

// Register puts all metrics into the legacy registry, once; Setup calls it. Before that they count nothing.
func Register() {
	registerOnce.Do(func() {
		for _, d := range declare.All() {
			legacyregistry.MustRegister(d.Metric)
		}
		legacyregistry.CustomMustRegister(processCertificates)
	})
}

// Labels returns the labels of every metric, by its full name, for tools that check queries. The caller owns the map.
func Labels() map[string][]string {
	all := map[string][]string{certificateExpiry: certificateLabels}
	for _, d := range declare.All() {
		all[d.Metric.FQName()] = d.Labels
	}
	return all
}
