package commit_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	configv1 "k8s.io/kube-scheduler/config/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	"k8s.io/utils/clock"

	"github.com/berth-scheduler/berth/pkg/extender"
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/placement/preempt"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/services/scheduler/commit"
	"github.com/berth-scheduler/berth/services/scheduler/decide/step"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// consulting returns a room that asks one extender for profile "s" until end, which checks that it ended without an
// error.
func consulting(t *testing.T, e configv1.Extender) (ctx context.Context, room *commit.Executor, end func()) {
	t.Helper()
	set, err := extender.NewSet([]configv1.Extender{e}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	room = commit.New(commit.Deps{
		Logger: slog.New(slog.DiscardHandler), Clock: clock.RealClock{}, Extenders: map[string]*extender.Set{"s": set},
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- room.Consult(ctx) }()
	return ctx, room, func() {
		cancel()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
}

// As many questions as a core has open are asked concurrently, and each is answered; the end of the context ends the
// rest.
func TestConsult(t *testing.T) {
	arrived, release := make(chan struct{}, step.MaxConsults), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var args extenderv1.ExtenderArgs
		if err := json.NewDecoder(r.Body).Decode(&args); err != nil {
			t.Error(err)
		}
		arrived <- struct{}{}
		select {
		case <-release:
		case <-r.Context().Done():
			return
		}
		_ = json.NewEncoder(w).Encode(extenderv1.ExtenderFilterResult{NodeNames: args.NodeNames})
	}))
	t.Cleanup(server.Close)
	ctx, room, end := consulting(t, configv1.Extender{URLPrefix: server.URL, FilterVerb: "filter", NodeCacheCapable: true})
	pod := state.NewPod(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "u"}})
	node := &state.Node{Name: "n", Object: &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}}
	var out step.Output
	for id := range uint64(step.MaxConsults) {
		out.Consults = append(out.Consults, step.Consult{ID: id, SchedulerName: "s", Pod: pod, Nodes: []*state.Node{node}})
	}
	if err := room.Do(ctx, &out); err != nil {
		t.Fatal(err)
	}
	for range step.MaxConsults {
		<-arrived
	}
	close(release)
	seen := map[uint64]bool{}
	for range step.MaxConsults {
		a := <-room.Advice()
		seen[a.ID] = true
		if diff := cmp.Diff(map[string]placement.Opinion{"n": {}}, a.Opinions); a.Err != nil || diff != "" {
			t.Fatalf("%v, opinions (-want +got):\n%s", a.Err, diff)
		}
	}
	if len(seen) != step.MaxConsults {
		t.Fatalf("answers to %v, want one each", seen)
	}
	unknown := &step.Output{Consults: []step.Consult{{ID: 77, SchedulerName: "x"}}}
	if err := room.Do(ctx, unknown); err != nil {
		t.Fatal(err)
	}
	if a := <-room.Advice(); a.ID != 77 || a.Err == nil || !strings.Contains(a.Err.Error(), "no extenders for profile x") {
		t.Fatalf("%+v, want an error", a)
	}
	end()
}

// A question with candidates is about victims, and its answer has the remaining candidates.
func TestConsultAboutVictims(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/preempt" {
			t.Errorf("call of %s, want /preempt alone", r.URL.Path)
		}
		_, _ = w.Write([]byte(`{"NodeNameToMetaVictims": {"b": {"Pods": [{"UID": "u"}]}}}`))
	}))
	t.Cleanup(server.Close)
	ctx, room, end := consulting(t, configv1.Extender{URLPrefix: server.URL, FilterVerb: "filter", PreemptVerb: "preempt"})
	pod := state.NewPod(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "u"}})
	q := step.Consult{ID: 3, SchedulerName: "s", Pod: pod}
	for _, name := range []string{"a", "b"} {
		node := &state.Node{Name: name, Object: &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}}
		q.Candidates = append(q.Candidates, preempt.Candidate{
			Node: node, Pods: []*state.Pod{pod}, Victims: []*state.Pod{pod},
		})
	}
	if err := room.Do(ctx, &step.Output{Consults: []step.Consult{q}}); err != nil {
		t.Fatal(err)
	}
	a := <-room.Advice()
	if a.ID != 3 || a.Err != nil || len(a.Candidates) != 1 || a.Candidates[0].Node.Name != "b" || a.Opinions != nil {
		t.Errorf("%+v, want b alone", a)
	}
	end()
}
