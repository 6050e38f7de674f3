//go:build e2e

package e2e_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/test/e2e/harness"
)

// family holds the parts of one metric that dashboards and alerts rely on.
type family struct {
	Type, Stability string
	Labels          []string
	// Buckets are the upper bounds of a histogram.
	Buckets []float64
}

// alerted are the ALPHA metrics of kube-scheduler that are used in alerts.
var alerted = []string{
	"scheduler_plugin_execution_duration_seconds", "scheduler_scheduling_algorithm_duration_seconds",
	"scheduler_queueing_hint_execution_duration_seconds", "scheduler_cache_size", "scheduler_goroutines",
	"scheduler_pod_scheduled_after_flush_total",
}

// The same workload on two clusters, under kube-scheduler and under Berth: both expose the same STABLE and BETA
// metrics, of the same type and stability, with the same labels and buckets; and the resources of the same pods are
// the same numbers.
func TestMetricsAreKubeSchedulers(t *testing.T) {
	t.Parallel()
	var upstream, ours [2]string
	t.Run("kube-scheduler", func(t *testing.T) {
		s := newStack(t, "")
		get := s.startMetricsPeer()
		upstream = s.liveThrough(get)
	})
	t.Run("berth", func(t *testing.T) {
		s := newStack(t, "")
		berth := s.up(harness.UpConfig{
			Policy: s.file("policy.yaml", taintPolicy), Args: []string{"--descheduling-interval", "1s"},
		})
		ours = s.liveThrough(func(path string) (string, error) { return scrape("http://" + berth.Address + path) })
	})
	if t.Failed() {
		return
	}
	keep(t, "kube-scheduler.prom", upstream[0])
	keep(t, "berth.prom", ours[0])
	want, got := familiesIn(t, upstream[0]), familiesIn(t, ours[0])
	compared := 0
	for _, name := range slices.Sorted(maps.Keys(want)) {
		w := want[name]
		must := w.Stability == "STABLE" || w.Stability == "BETA" || slices.Contains(alerted, name)
		if !strings.HasPrefix(name, "scheduler_") || !must {
			continue
		}
		g, ok := got[name]
		if !ok {
			t.Errorf("%s (%s) is missing", name, w.Stability)
			continue
		}
		compared++
		if diff := cmp.Diff(w, g); diff != "" {
			t.Errorf("%s (-kube-scheduler +berth):\n%s", name, diff)
		}
		t.Logf("%s: %s %s %v", name, w.Stability, w.Type, w.Labels)
	}
	if compared < 15 {
		t.Errorf("%d metrics compared: the workload does not bring out what it should", compared)
	}
	if diff := cmp.Diff(resourcesIn(t, upstream[1]), resourcesIn(t, ours[1])); diff != "" {
		t.Errorf("/metrics/resources (-kube-scheduler +berth):\n%s", diff)
	}
}

// startMetricsPeer starts a kube-scheduler that serves its metrics without authorization.
func (s *stack) startMetricsPeer() func(path string) (string, error) {
	address, err := harness.FreeAddress()
	s.must(err)
	_, port, _ := strings.Cut(address, ":")
	process, err := programs.StartProgram(s.dir, "kube-scheduler", "kube-scheduler",
		"--kubeconfig="+s.cluster.Kubeconfig, "--leader-elect=false",
		"--bind-address=127.0.0.1", "--secure-port="+port, "--cert-dir="+filepath.Join(s.dir, "serving"),
		"--authentication-kubeconfig="+s.cluster.Kubeconfig, "--authorization-kubeconfig="+s.cluster.Kubeconfig,
		"--authorization-always-allow-paths=/healthz,/readyz,/livez,/metrics,/metrics/resources")
	s.must(err)
	s.Cleanup(process.Kill)
	get := func(path string) (string, error) { return scrape("https://" + address + path) }
	s.eventually(placedWithin, "kube-scheduler serves", func(context.Context) (string, error) {
		if _, err := get("/healthz"); err != nil {
			return err.Error(), process.Ended()
		}
		return "", nil
	})
	return get
}

// scrape reads a page; the certificate of a kube-scheduler is its own.
func scrape(url string) (string, error) {
	client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // on loopback, in a test
	}}
	resp, err := client.Get(url)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close() //nolint:errcheck // read to the end
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s: %s", url, resp.Status, body)
	}
	return string(body), err
}

const (
	// hinted is the metric of queueing hints, and nodePause how long it may stay away before another node is added.
	hinted    = "scheduler_queueing_hint_execution_duration_seconds"
	nodePause = 5 * time.Second
)

// liveThrough makes everything happen that metrics count, and returns what /metrics and
// /metrics/resources say then.
func (s *stack) liveThrough(get func(path string) (string, error)) (pages [2]string) {
	s.addNodes(nodeSpec{name: "node-0", capacity: "4"}, nodeSpec{name: "node-1", capacity: "4"},
		nodeSpec{name: "node-2", capacity: "4"})
	ns := s.namespace("metrics")
	s.priorityClass("low", 10)
	s.priorityClass("high", 1000)
	s.create(newPods(ns, "filler", 4, "2", ofPriority("low"), limited)...)
	s.bound(ns, 4, placedWithin)
	s.deployment(ns, "web", 3)
	// Rules are timed in one attempt of ten: so many that one is among them.
	s.create(newPods(ns, "small", 80, "1m")...)
	s.bound(ns, 87, placedWithin)
	s.create(newPod(ns, "gated", "1", gated("example.com/later")), newPod(ns, "large", "100"))
	s.unschedulable(ns, "large", "3 Insufficient cpu.")
	s.create(newPod(ns, "urgent", "3500m", ofPriority("high")))
	s.nodeOf(ns, "urgent")
	s.addNodes(nodeSpec{name: "node-3", capacity: "4"})
	// The node of one of the Deployment's pods: the descheduling side moves it, to the new one; on the other side it
	// stays.
	for _, pod := range s.pods(ns) {
		if pod.Labels["app"] == "web" && pod.Spec.NodeName != "" {
			s.taint(pod.Spec.NodeName, corev1.Taint{Key: "retired", Effect: corev1.TaintEffectNoSchedule})
			break
		}
	}
	extra, since := 0, time.Now()
	s.eventually(placedWithin, "the metrics have come", func(context.Context) (string, error) {
		var err error
		if pages[0], err = get("/metrics"); err != nil {
			return err.Error(), nil
		}
		// Hints are evaluated for pods that are parked when something changes. kube-scheduler may have had "large" in
		// another attempt when node-3 came: more nodes come until it has not.
		if !strings.Contains(pages[0], hinted) && time.Since(since) > nodePause {
			extra, since = extra+1, time.Now()
			s.addNodes(nodeSpec{name: fmt.Sprintf("extra-%d", extra), capacity: "1"})
		}
		// kube-scheduler may preempt a second time before its victim is gone.
		if strings.Contains(pages[0], "scheduler_preemption_victims_count 0") {
			return "no preemption", nil
		}
		late := []string{"scheduler_unschedulable_pods{", "scheduler_preemption_victims_count "}
		for _, name := range append(late, alerted...) {
			if !strings.Contains(pages[0], name) {
				return "no " + name, nil
			}
		}
		for _, name := range []string{"berth_anomalies{", "berth_fact_lag_records{", "descheduler_pods_evicted_total{"} {
			if strings.Contains(pages[0], "berth_") && !strings.Contains(pages[0], name) {
				return "no " + name, nil
			}
		}
		return "", nil
	})
	var err error
	pages[1], err = get("/metrics/resources")
	s.must(err)
	return pages
}

func limited(p *corev1.Pod) {
	p.Spec.Containers[0].Resources.Limits = p.Spec.Containers[0].Resources.Requests
}

// keep leaves a page where `make monitoring-live` looks for it.
func keep(t *testing.T, name, page string) {
	t.Helper()
	dir := filepath.Join(programs.Root, ".build", "scrapes")
	if err := os.MkdirAll(dir, 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name), []byte(page), 0o600); err != nil {
		t.Fatal(err)
	}
}

func parse(t *testing.T, page string) map[string]*dto.MetricFamily {
	t.Helper()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	all, err := parser.TextToMetricFamilies(bytes.NewBufferString(page))
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func familiesIn(t *testing.T, page string) map[string]family {
	t.Helper()
	all := map[string]family{}
	for name, g := range parse(t, page) {
		f := family{Type: g.GetType().String()}
		f.Stability, _, _ = strings.Cut(strings.TrimPrefix(g.GetHelp(), "["), "]")
		for _, m := range g.GetMetric() {
			for _, l := range m.GetLabel() {
				f.Labels = append(f.Labels, l.GetName())
			}
			f.Buckets = nil
			for _, b := range m.GetHistogram().GetBucket() {
				f.Buckets = append(f.Buckets, b.GetUpperBound())
			}
		}
		slices.Sort(f.Labels)
		f.Labels = slices.Compact(f.Labels)
		all[name] = f
	}
	return all
}

// resourcesIn are the series about pods that stay where they are, with their labels and values, except for node and
// namespace, which differ between the sides.
func resourcesIn(t *testing.T, page string) map[string]float64 {
	t.Helper()
	all := map[string]float64{}
	for name, g := range parse(t, page) {
		for _, m := range g.GetMetric() {
			labels := map[string]string{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			delete(labels, "node")
			delete(labels, "namespace")
			if slices.Contains([]string{"gated", "large", "urgent"}, labels["pod"]) {
				all[fmt.Sprint(g.GetType(), name, labels)] = m.GetGauge().GetValue()
			}
		}
	}
	return all
}
