package app

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/component-base/metrics/legacyregistry"
)

// The metric has the name, the labels and the stability level that Kubernetes' components have.
func TestGatesAreExported(t *testing.T) {
	exportGates(t.Context())
	w := httptest.NewRecorder()
	legacyregistry.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	for _, want := range []string{
		"# HELP kubernetes_feature_enabled [BETA] ",
		"# TYPE kubernetes_feature_enabled gauge",
		`kubernetes_feature_enabled{name="DRADeviceTaintRules",stage="BETA"} 1`,
		`kubernetes_feature_enabled{name="GangScheduling",stage="ALPHA"} 1`,
		`kubernetes_feature_enabled{name="WorkloadAwarePreemption",stage="ALPHA"} 0`,
		`kubernetes_feature_enabled{name="PodSchedulingReadiness",stage=""} 1`,
		`kubernetes_feature_enabled{name="SchedulerAsyncAPICalls",stage="BETA"} 1`,
		`kubernetes_feature_enabled{name="StorageCapacityScoring",stage="ALPHA"} 0`,
	} {
		if !strings.Contains(w.Body.String(), "\n"+want) {
			t.Errorf("no line %s", want)
		}
	}
}
