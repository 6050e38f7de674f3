package telemetry

import (
	"slices"
	"testing"

	"github.com/berth-scheduler/berth/pkg/telemetry/internal/declare"
)

func TestLabels(t *testing.T) {
	labels := Labels()
	if got := labels["berth_conflicts_total"]; !slices.Equal(got, []string{"reason"}) {
		t.Errorf("labels of berth_conflicts_total: %v", got)
	}
	if got, known := labels["scheduler_preemption_victims"]; !known || len(got) != 0 {
		t.Errorf("scheduler_preemption_victims: known %t, labels %v", known, got)
	}
	// One more metric comes from a collector: the expiry of certificates.
	if all := len(declare.All()) + 1; len(labels) != all {
		t.Errorf("%d metrics have labels or none, %d are registered", len(labels), all)
	}
}
