package intake

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/state/statetest"
)

// gateMetrics are metrics as an API server has them, shortened.
const gateMetrics = `# HELP apiserver_request_total [STABLE] Counter of requests.
# TYPE apiserver_request_total counter
apiserver_request_total{code="200",name="kubernetes_feature_enabled{"} 7
# HELP kubernetes_feature_enabled [BETA] This metric records the data about the stage and enablement of a k8s feature.
# TYPE kubernetes_feature_enabled gauge
kubernetes_feature_enabled{name="DRADeviceTaints",stage="BETA"} 1
kubernetes_feature_enabled{name="DRANodeAllocatableResources",stage="ALPHA"} 1
kubernetes_feature_enabled{name="GenericWorkload",stage="ALPHA"} 0
kubernetes_feature_enabled{name="PodSecurity",stage=""} 1
kubernetes_feature_enabled{name="StorageCapacityScoring",stage="ALPHA"} 1
# HELP process_open_fds [ALPHA] Number of open file descriptors.
# TYPE process_open_fds gauge
process_open_fds 70
`

// TestScanGates reads the gates that are on, and stops where they end.
func TestScanGates(t *testing.T) {
	got, err := scanGates(io.MultiReader(strings.NewReader(gateMetrics), failing{}))
	if err != nil {
		t.Fatalf("%v; is the rest read as well?", err)
	}
	want := []string{"DRADeviceTaints", "DRANodeAllocatableResources", "PodSecurity", "StorageCapacityScoring"}
	if names := sortedKeys(got); !slices.Equal(names, want) {
		t.Errorf("enabled are %v, want %v", names, want)
	}
	if _, err := scanGates(strings.NewReader("process_open_fds 70\n")); !errors.Is(err, errNoGates) {
		t.Errorf("without gates the error is %v, want %v", err, errNoGates)
	}
	if _, err := scanGates(strings.NewReader(strings.Repeat("x", 2*longestMetric))); err == nil {
		t.Error("a line without an end is no error")
	}
	if _, err := scanGates(failing{}); err == nil {
		t.Error("a failing read is no error")
	}
}

func sortedKeys(set map[string]bool) []string {
	var list []string
	for name := range set {
		list = append(list, name)
	}
	slices.Sort(list)
	return list
}

// failing is a reader that fails.
type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errors.New("the connection is gone") }

// gateServer is an API server that serves some resources by group and version, and metrics.
type gateServer struct {
	resources map[string][]string
	metrics   string
	status    int
	// denied are the resources whose lists are refused.
	denied []string
}

// ServeHTTP implements http.Handler.
func (g *gateServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	group := strings.TrimPrefix(r.URL.Path, "/apis/")
	switch served, ok := g.resources[group]; {
	case r.URL.Path == "/metrics" && g.status == http.StatusOK:
		_, _ = io.WriteString(w, g.metrics)
	case r.URL.Path == "/metrics":
		refuse(w, g.status)
	case slices.Contains(g.denied, path.Base(r.URL.Path)):
		refuse(w, http.StatusForbidden)
	case ok:
		w.Header().Set("Content-Type", "application/json")
		list := metav1.APIResourceList{
			TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: group,
		}
		for _, name := range served {
			list.APIResources = append(list.APIResources, metav1.APIResource{Name: name})
		}
		_ = json.NewEncoder(w).Encode(list)
	default:
		refuse(w, http.StatusNotFound)
	}
}

// refuse answers as an API server does.
func refuse(w http.ResponseWriter, status int) {
	reason := metav1.StatusReasonNotFound
	if status == http.StatusForbidden {
		reason = metav1.StatusReasonForbidden
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusFailure, Reason: reason, Code: int32(status),
	})
}

// connect starts the server, and returns a client of it, a logger, and what was logged so far.
func (g *gateServer) connect(t *testing.T) (*Cluster, klog.Logger, func() string) {
	t.Helper()
	server := httptest.NewServer(g)
	t.Cleanup(server.Close)
	cluster, err := Connect(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	cluster.deniedPause = time.Millisecond
	logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true)))
	sink, ok := logger.GetSink().(ktesting.Underlier)
	if !ok {
		t.Fatalf("the sink is a %T", logger.GetSink())
	}
	return cluster, logger, func() string { return sink.GetBuffer().String() }
}

// TestGatesThatAreNotFollowed: each gate that the server has on and that is not followed is logged once, with its
// effect, and is in the status for as long as the server lists it.
func TestGatesThatAreNotFollowed(t *testing.T) {
	g := &gateServer{metrics: gateMetrics, status: http.StatusOK}
	cluster, logger, logged := g.connect(t)
	if got := cluster.Unfollowed(); len(got) != 0 {
		t.Errorf("before the server was asked: %q", got)
	}
	cluster.readGates(t.Context(), logger)
	cluster.readGates(t.Context(), logger)
	got := cluster.Unfollowed()
	if len(got) != 2 || !strings.Contains(got[0], "DRANodeAllocatableResources is refused: ") ||
		!strings.Contains(got[1], "StorageCapacityScoring is not followed: ") {
		t.Fatalf("not followed: %q", got)
	}
	for _, what := range []string{"DRANodeAllocatableResources", "StorageCapacityScoring", "were read"} {
		if n := strings.Count(logged(), what); n != 1 {
			t.Errorf("%s is logged %d times, want once, in\n%s", what, n, logged())
		}
	}
	g.metrics = strings.ReplaceAll(gateMetrics, `"DRANodeAllocatableResources",stage="ALPHA"} 1`,
		`"DRANodeAllocatableResources",stage="ALPHA"} 0`)
	cluster.readGates(t.Context(), logger)
	if got := cluster.Unfollowed(); len(got) != 1 || !strings.Contains(got[0], "StorageCapacityScoring") {
		t.Errorf("after one was turned off: %q", got)
	}
}

// TestMetricsThatMayNotBeRead: without the right to read metrics, the log has one line about that, and the gates that
// served kinds and objects show are known nevertheless.
func TestMetricsThatMayNotBeRead(t *testing.T) {
	g := &gateServer{status: http.StatusForbidden, resources: map[string][]string{
		"scheduling.k8s.io/v1alpha2": {"workloads", "podgroups"},
	}}
	cluster, logger, logged := g.connect(t)
	cluster.readGates(t.Context(), logger)
	cluster.readGates(t.Context(), logger)
	if n := strings.Count(logged(), "cannot be read"); n != 1 {
		t.Errorf("%d lines about metrics that cannot be read, want one, in\n%s", n, logged())
	}
	if _, err := cluster.served(t.Context(), logger); err != nil {
		t.Fatal(err)
	}
	if got := cluster.Unfollowed(); len(got) != 0 {
		t.Errorf("by the served kinds: %q", got)
	}
	cluster.gates.notice(statetest.Pod("default", "member"), logger)
	slice := &resourcev1.ResourceSlice{Spec: resourcev1.ResourceSliceSpec{Devices: []resourcev1.Device{{Name: "a"}}}}
	cluster.gates.notice(slice, logger)
	if got := cluster.Unfollowed(); len(got) != 0 {
		t.Errorf("by an object without the field: %q", got)
	}
	slice.Spec.Devices[0].NodeAllocatableResourceMappings =
		map[corev1.ResourceName]resourcev1.NodeAllocatableResourceMapping{corev1.ResourceCPU: {}}
	cluster.gates.notice(slice, logger)
	cluster.gates.notice(slice, logger)
	if got := cluster.Unfollowed(); len(got) != 1 || !strings.Contains(got[0], gateMapped) {
		t.Errorf("by the objects: %q", got)
	}
	if n := strings.Count(logged(), gateMapped); n != 1 {
		t.Errorf("%s is logged %d times, want once, in\n%s", gateMapped, n, logged())
	}
}

// TestGroupsOfAnEarlierVersion: groups as 1.35 has them are ignored, and that is said in place of the gate's own line.
func TestGroupsOfAnEarlierVersion(t *testing.T) {
	g := &gateServer{
		metrics: "kubernetes_feature_enabled{name=\"GenericWorkload\",stage=\"ALPHA\"} 1\n", status: http.StatusOK,
		resources: map[string][]string{oldGroupVersion: {groups}},
	}
	cluster, logger, _ := g.connect(t)
	cluster.readGates(t.Context(), logger)
	if _, err := cluster.served(t.Context(), logger); err != nil {
		t.Fatal(err)
	}
	if got := cluster.Unfollowed(); len(got) != 1 || !strings.Contains(got[0], "spec.workloadRef") {
		t.Errorf("not followed: %q", got)
	}
}

// TestKindsThatMayNotBeListed: a kind of a feature that is off by default is not watched without the right to list it,
// which is reported, and it is watched as soon as the right is there.
func TestKindsThatMayNotBeListed(t *testing.T) {
	g := &gateServer{
		resources: map[string][]string{taintRuleVersion: {taintRules}, groupVersion: {groups, "podgroups"}},
		denied:    []string{taintRules, "podgroups"},
	}
	cluster, logger, logged := g.connect(t)
	list, err := cluster.served(t.Context(), logger)
	must(t, err)
	if len(list) != len(kinds) {
		t.Errorf("%d kinds are watched, want %d", len(list), len(kinds))
	}
	got := cluster.Unfollowed()
	if len(got) != 2 || !strings.Contains(got[0], gateTaintRules) || !strings.Contains(got[1], gateGroups) {
		t.Errorf("not followed: %q", got)
	}
	for _, resource := range g.denied {
		if n := strings.Count(logged(), "no right to list "+resource); n != 1 {
			t.Errorf("%s is logged %d times, want once, in\n%s", resource, n, logged())
		}
	}
	g.denied = nil
	list, err = cluster.served(t.Context(), logger)
	must(t, err)
	if len(list) != len(kinds)+2 || len(cluster.Unfollowed()) != 0 {
		t.Errorf("with the rights, %d kinds are watched, and not followed is %q", len(list), cluster.Unfollowed())
	}
}

// TestTaintRulesAreWatchedWhereServed: rules for devices are watched if the server serves the version that is read;
// nothing is logged if it serves none, and another version is reported.
func TestTaintRulesAreWatchedWhereServed(t *testing.T) {
	for name, test := range map[string]struct {
		resources map[string][]string
		watched   bool
		reported  bool
	}{
		"none":    {nil, false, false},
		"read":    {map[string][]string{taintRuleVersion: {taintRules, "resourceslices"}}, true, false},
		"not on":  {map[string][]string{taintRuleVersion: {"resourceslices"}}, false, false},
		"earlier": {map[string][]string{oldTaintRuleVersion: {taintRules}}, false, true},
		"both":    {map[string][]string{taintRuleVersion: {taintRules}, oldTaintRuleVersion: {taintRules}}, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			cluster, logger, logged := (&gateServer{resources: test.resources}).connect(t)
			list, err := cluster.served(t.Context(), logger)
			if err != nil {
				t.Fatal(err)
			}
			watched := slices.ContainsFunc(list, func(w watched) bool { return w.kind == events.KindDeviceTaintRule })
			if watched != test.watched {
				t.Errorf("rules are watched: %t, want %t", watched, test.watched)
			}
			got := cluster.Unfollowed()
			if reported := len(got) == 1 && strings.Contains(got[0], gateTaintRules); reported != test.reported {
				t.Errorf("not followed: %q, want a line about rules: %t", got, test.reported)
			}
			if spoken := strings.Contains(logged(), "aint"); spoken != test.reported {
				t.Errorf("the log speaks of rules: %t, want %t:\n%s", spoken, test.reported, logged())
			}
		})
	}
}
