package app

import (
	"context"

	"k8s.io/component-base/metrics/prometheus/feature"

	"github.com/berth-scheduler/berth/pkg/placement/gates"
)

// exportGates sets kubernetes_feature_enabled, which every Kubernetes component has, for the feature gates that matter
// to scheduling: 1 if Berth does what the feature is for wherever objects use it, and 0 if it refuses or ignores it.
// The API server has the same metric for what it has on.
func exportGates(ctx context.Context) {
	for _, g := range gates.All() {
		feature.RecordFeatureInfo(ctx, g.Name, g.Stage(), g.Evaluated())
	}
}
