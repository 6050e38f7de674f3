package nodeuse

import (
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"github.com/berth-scheduler/berth/pkg/descheduling/plan"
	"github.com/berth-scheduler/berth/pkg/descheduling/policy"
	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/events/eventlog"
	"github.com/berth-scheduler/berth/pkg/events/memlog"
	"github.com/berth-scheduler/berth/pkg/ledger/mem"
	"github.com/berth-scheduler/berth/pkg/state/feed"
	"github.com/berth-scheduler/berth/pkg/state/statetest"
	"github.com/berth-scheduler/berth/services/descheduler"
)

// busy is a query as people write it: the part of its processors that each node uses, by the name
// of the node instead of the exporter's address.
const busy = `label_replace(1 - avg by (instance) (rate(node_cpu_seconds_total{mode="idle"}[5m])),
"instance", "$1", "instance", "(.+):.+")`

const (
	// podsEach is how many pods every node runs, each of an owner of its own.
	podsEach = 4
	// perNode is how many of them the policy evicts in a cycle.
	perNode = 2
)

// cluster is a log with three nodes and the pods on them.
func cluster(t *testing.T) *memlog.Log {
	t.Helper()
	var facts statetest.History
	for _, name := range []string{"a", "b", "c"} {
		facts.Upsert(events.KindNode, statetest.Node(name, "cpu", "8", "memory", "16Gi", "pods", "20"))
		for i := range podsEach {
			pod := statetest.Pod("default", fmt.Sprint(name, i), "cpu", "100m")
			pod.Spec.NodeName = name
			pod.OwnerReferences = []metav1.OwnerReference{{Kind: "Job", Name: pod.Name, UID: "job-" + pod.UID}}
			facts.Upsert(events.KindPod, pod)
		}
	}
	for _, k := range []events.Kind{
		events.KindPod, events.KindNode, events.KindDisruptionBudget, events.KindReplicaSet, events.KindStatefulSet,
	} {
		facts.Bookmark(k)
	}
	var msgs []eventlog.Message
	for _, f := range facts.Facts {
		msgs = append(msgs, events.EncodeFact(f.Fact))
	}
	log := memlog.New(memlog.Options{})
	if _, err := log.Append(t.Context(), eventlog.Facts, eventlog.Tail{}, msgs); err != nil {
		t.Fatal(err)
	}
	return log
}

// cycle plans one cycle by a query to a server.
func cycle(t *testing.T, reach descheduler.Prometheus, url, query string) plan.Report {
	t.Helper()
	p, err := policy.ParseStrict("policy.yaml", fmt.Appendf(nil, `
apiVersion: descheduler/v1alpha2
kind: DeschedulerPolicy
berth: {cooldown: 0s}
metricsProviders:
- source: Prometheus
  prometheus:
    url: %s
    authToken: {secretReference: {namespace: monitoring, name: token}}
profiles:
- name: measured
  pluginConfig:
  - name: LowNodeUtilization
    args:
      thresholds: {MetricResource: 20}
      targetThresholds: {MetricResource: 50}
      metricsUtilization: {source: Prometheus, prometheus: {query: %q}}
      evictionLimits: {node: %d}
  plugins: {balance: {enabled: [LowNodeUtilization]}}
- name: requested
  pluginConfig:
  - name: LowNodeUtilization
    args: {thresholds: {cpu: 1}, targetThresholds: {cpu: 2}}
  plugins: {balance: {enabled: [LowNodeUtilization]}}
`, url, query, perNode))
	if err != nil {
		t.Fatal(err)
	}
	log := cluster(t)
	var report *plan.Report
	d, err := descheduler.New(descheduler.Config{
		ID: "d1", Policy: p, DryRun: true, Prometheus: reach, Report: func(r plan.Report) { report = &r },
	}, descheduler.Deps{
		Log: log, Facts: feed.New(log, log), Ledger: mem.New(), Clock: clock.RealClock{},
		Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Run(t.Context()); err != nil || report == nil {
		t.Fatalf("no plan: %v", err)
	}
	return *report
}

// served is how a client has to reach the server.
func (s *server) served() descheduler.Prometheus {
	return descheduler.Prometheus{TokenFile: s.tokenFile, CAFile: s.caFile}
}

// By what Prometheus has measured, pods leave the node that is busy for one that is not, though all
// nodes are the same by requests; and when the load is elsewhere, they leave that.
func TestMovesFromBusyNodes(t *testing.T) {
	for _, tt := range []struct {
		load map[string]float64
		hot  string
	}{
		{load: map[string]float64{"a": 0.9, "b": 0.4, "c": 0.1}, hot: "a"},
		{load: map[string]float64{"a": 0.05, "b": 0.4, "c": 0.7}, hot: "c"},
		{load: map[string]float64{"a": 0.4, "b": 0.4, "c": 0.4}},
		{load: map[string]float64{"a": 0.9, "b": 0.4, "c": 0.4}}, // there is no node to move to
	} {
		s := newServer(t)
		for node, part := range tt.load {
			s.scrape(t, node, part, time.Now())
		}
		r := cycle(t, s.served(), s.url, busy)
		want := 0
		if tt.hot != "" {
			want = perNode
		}
		if len(r.Evict) != want || len(r.Failed) > 0 {
			t.Errorf("load %v: %d evictions, want %d; failed: %v", tt.load, len(r.Evict), want, r.Failed)
		}
		for _, m := range r.Evict {
			if m.Node != tt.hot || m.Landing == "" || m.Landing == tt.hot {
				t.Errorf("load %v: %s from %s to %q", tt.load, m.Pod, m.Node, m.Landing)
			}
		}
	}
}

// A source that does not serve, or whose answer says nothing of the nodes, fails the strategy
// that names it, in words; the other runs.
func TestFailuresAreReported(t *testing.T) {
	s := newServer(t)
	now := time.Now()
	for node, part := range map[string]float64{"a": 0.9, "b": 0.4} {
		s.scrape(t, node, part, now)
	}
	s.scrape(t, "c", 0.1, now.Add(-scraped)) // its exporter is gone
	wrong := filepath.Join(t.TempDir(), "token")
	write(t, wrong, []byte("another"))
	reach := s.served()
	constant := func(value string) string {
		return fmt.Sprintf(`label_replace(vector(%s), "instance", "a", "", "")`, value)
	}
	for _, tt := range []struct {
		name, query, want string
		reach             descheduler.Prometheus
	}{
		{"a node without samples", busy, "unable to find metric entry for c", reach},
		{"wrong token", busy, "client error: 401", descheduler.Prometheus{TokenFile: wrong, CAFile: s.caFile}},
		{"no certificate", busy, "certificate", descheduler.Prometheus{TokenFile: s.tokenFile}},
		{"no PromQL", "sum by (", "parse error", reach},
		{"no vector", "1", "result is a scalar: want an instant vector", reach},
		{"a range", "node_cpu_seconds_total[5m]", "result is a matrix: want an instant vector", reach},
		{"no instance", `vector(0.5)`, `no label "instance"`, reach},
		{"address of the exporter", strings.Split(busy, ",\n")[0][len("label_replace("):],
			"unable to find metric entry for a", reach},
		{"series of one node", `node_cpu_seconds_total`, "more than one sample", reach},
		{"percents", constant("90"), `"a" has value 90`, reach},
		{"not a number", constant("0/0"), `"a" has value NaN`, reach},
		{"too much", `max_over_time(rate(node_cpu_seconds_total[5m])[2h:1s])`, "too many samples", reach},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := cycle(t, tt.reach, s.url, tt.query)
			if len(r.Failed) != 1 || r.Failed[0].Profile != "measured" || !strings.Contains(r.Failed[0].Error, tt.want) {
				t.Errorf("failed: %+v, want %q in it", r.Failed, tt.want)
			}
			if len(r.Strategies) == 0 || len(r.Evict) > 0 {
				t.Errorf("%d strategies ran, %d evictions", len(r.Strategies), len(r.Evict))
			}
		})
	}
	t.Run("nobody listens", func(t *testing.T) {
		r := cycle(t, reach, "https://127.0.0.1:1", busy)
		if len(r.Failed) != 1 || !strings.Contains(r.Failed[0].Error, "connection refused") {
			t.Errorf("failed: %+v", r.Failed)
		}
	})
}
