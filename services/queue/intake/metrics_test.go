package intake

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/state"
)

const pollEvery = 30 * time.Second

// metricsAPI is an API server that may serve metrics.k8s.io.
type metricsAPI struct {
	mu struct {
		sync.Mutex
		// status is the status of every response; 200 returns the lists.
		status int
		nodes  []metricsv1beta1.NodeMetrics
		pods   []metricsv1beta1.PodMetrics
	}
}

func (a *metricsAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	if a.mu.status != http.StatusOK {
		w.WriteHeader(a.mu.status)
		return
	}
	var list any
	switch r.URL.Path {
	case "/apis/metrics.k8s.io/v1beta1/nodes":
		list = metricsv1beta1.NodeMetricsList{
			TypeMeta: metav1.TypeMeta{APIVersion: "metrics.k8s.io/v1beta1", Kind: "NodeMetricsList"}, Items: a.mu.nodes,
		}
	case "/apis/metrics.k8s.io/v1beta1/pods":
		list = metricsv1beta1.PodMetricsList{
			TypeMeta: metav1.TypeMeta{APIVersion: "metrics.k8s.io/v1beta1", Kind: "PodMetricsList"}, Items: a.mu.pods,
		}
	default:
		w.WriteHeader(http.StatusNotFound)
		return
	}
	_ = json.NewEncoder(w).Encode(list) // the client's error shows it
}

func (a *metricsAPI) set(status int, nodes []metricsv1beta1.NodeMetrics, pods []metricsv1beta1.PodMetrics) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.mu.status, a.mu.nodes, a.mu.pods = status, nodes, pods
}

func using(cpu, memory string) corev1.ResourceList {
	return corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory),
	}
}

func podUsing(namespace, name string, at time.Time, cpus ...string) metricsv1beta1.PodMetrics {
	p := metricsv1beta1.PodMetrics{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Timestamp: metav1.Time{Time: at},
	}
	for i, cpu := range cpus {
		c := metricsv1beta1.ContainerMetrics{Name: fmt.Sprint("c", i), Usage: using(cpu, "1Mi")}
		p.Containers = append(p.Containers, c)
	}
	return p
}

// samplerOf returns a sampler that polls the API with the real client.
func samplerOf(t *testing.T, api *metricsAPI, log *strings.Builder, base *state.Snapshot) (*sampler, chan events.Fact) {
	t.Helper()
	server := httptest.NewServer(api)
	t.Cleanup(server.Close)
	c, err := Connect(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	out := make(chan events.Fact, 100)
	s := &sampler{
		Metrics: Metrics{
			Every: pollEvery, Clock: testingclock.NewFakeClock(time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)),
			Logger: slog.New(slog.NewTextHandler(log, nil)),
		},
		client: c.metrics, out: out, logged: map[events.Kind]map[string]loggedObject{}, content: map[string][]byte{},
	}
	for _, kind := range measured {
		s.logged[kind] = loggedObjects(base, kind)
	}
	return s, out
}

// polled runs one poll, applies its facts to a store, and returns them in words.
func polled(t *testing.T, s *sampler, out chan events.Fact, store *state.Store) string {
	t.Helper()
	if err := s.poll(t.Context()); err != nil {
		t.Fatal(err)
	}
	var lines []string
	for len(out) > 0 {
		f := <-out
		if f.Progress != 0 {
			t.Errorf("%s %s claims progress", f.Kind, f.Name)
		}
		sequence := store.Position().Sequence + 1
		if _, err := store.Apply([]events.SequencedFact{{Sequence: sequence, Fact: f}}); err != nil {
			t.Fatal(err)
		}
		lines = append(lines, fmt.Sprintf("%s %s/%s %s",
			map[events.Op]string{events.OpUpsert: "+", events.OpDelete: "-"}[f.Op],
			f.Namespace, f.Name, f.Kind))
	}
	return strings.Join(lines, ", ")
}

func TestSampler(t *testing.T) {
	at := time.Date(2026, time.March, 1, 11, 59, 50, 0, time.UTC)
	node := func(cpu string) []metricsv1beta1.NodeMetrics {
		return []metricsv1beta1.NodeMetrics{{
			ObjectMeta: metav1.ObjectMeta{Name: "n1"}, Timestamp: metav1.Time{Time: at}, Usage: using(cpu, "1Gi"),
		}}
	}
	api, log, store := &metricsAPI{}, &strings.Builder{}, state.New()
	api.set(http.StatusNotFound, nil, nil)
	s, out := samplerOf(t, api, log, store.Snapshot())
	steps := []struct {
		name string
		set  func()
		want string
	}{
		{"not served", func() {}, ""},
		{"still not served", func() {}, ""},
		{"it appears", func() {
			api.set(http.StatusOK, node("1500000001n"), []metricsv1beta1.PodMetrics{
				podUsing("b", "y", at, "1"), podUsing("a", "x", at, "100m", "150m"),
			})
		}, "+ /n1 nodemetrics, + a/page-0 podmetrics, + b/page-0 podmetrics"},
		{"nothing new", func() {}, ""},
		{"one pod is busier", func() {
			api.set(http.StatusOK, node("1500000001n"), []metricsv1beta1.PodMetrics{
				podUsing("b", "y", at, "2"), podUsing("a", "x", at, "100m", "150m"),
			})
		}, "+ b/page-0 podmetrics"},
		{"it fails for a while", func() { api.set(http.StatusServiceUnavailable, nil, nil) }, ""},
		{"a namespace is gone", func() {
			api.set(http.StatusOK, node("1500000001n"), []metricsv1beta1.PodMetrics{
				podUsing("a", "x", at, "100m", "150m"),
			})
		}, "- b/page-0 podmetrics"},
		{"no longer served", func() { api.set(http.StatusNotFound, nil, nil) }, "- /n1 nodemetrics, - a/page-0 podmetrics"},
	}
	for i, step := range steps {
		step.set()
		if got := polled(t, s, out, store); got != step.want {
			t.Errorf("%s: told %q, want %q", step.name, got, step.want)
		}
		if i == 2 {
			o, ok := store.Snapshot().ObjectByName(events.KindNodeMetrics, "", "n1")
			if !ok {
				t.Fatal("the node is not in the state")
			}
			if got := o.API.(*metricsv1beta1.NodeMetrics).Usage.Cpu().MilliValue(); got != 1501 {
				t.Errorf("%dm of the node are in use, want 1501m", got)
			}
			o, _ = store.Snapshot().ObjectByName(events.KindPodMetrics, "a", "page-0")
			page := o.API.(*metricsv1beta1.PodMetrics).Containers
			if len(page) != 1 || page[0].Name != "x" || page[0].Usage.Cpu().MilliValue() != 250 {
				t.Errorf("the page has %v, want pod x with 250m", page)
			}
		}
	}
	for text, want := range map[string]int{
		"does not serve metrics.k8s.io": 2, "metrics.k8s.io answers": 2, "level=WARN": 3,
	} {
		if got := strings.Count(log.String(), text); got != want {
			t.Errorf("%d lines of the log say %q, want %d:\n%s", got, text, want, log)
		}
	}
}

// TestSamplerTakesOver checks that what an earlier leader has published is known: it is published once more, because
// its content is not known here, and withdrawn when it is gone or when polling is off.
func TestSamplerTakesOver(t *testing.T) {
	api, store := &metricsAPI{}, state.New()
	at := time.Date(2026, time.March, 1, 11, 59, 50, 0, time.UTC)
	var pods []metricsv1beta1.PodMetrics
	for i := range podsOfPage + 1 {
		pods = append(pods, podUsing("a", fmt.Sprintf("p%04d", i), at, "1"))
	}
	api.set(http.StatusOK, nil, pods)
	first, out := samplerOf(t, api, &strings.Builder{}, store.Snapshot())
	if got, want := polled(t, first, out, store), "+ a/page-0 podmetrics, + a/page-1 podmetrics"; got != want {
		t.Fatalf("told %q, want %q", got, want)
	}
	api.set(http.StatusOK, nil, pods[:podsOfPage])
	second, out := samplerOf(t, api, &strings.Builder{}, store.Snapshot())
	if got, want := polled(t, second, out, store), "+ a/page-0 podmetrics, - a/page-1 podmetrics"; got != want {
		t.Fatalf("told %q, want %q", got, want)
	}
	third, out := samplerOf(t, api, &strings.Builder{}, store.Snapshot())
	if err := third.withdrawAll(context.Background()); err != nil || len(out) != 1 {
		t.Fatalf("%d facts, error %v, want one that takes the page back", len(out), err)
	}
}
