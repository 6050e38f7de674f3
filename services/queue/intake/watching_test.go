package intake

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"
	resourcev1beta2 "k8s.io/api/resource/v1beta2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2/ktesting"
	"k8s.io/utils/clock"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/pkg/state/statetest"
	"github.com/berth-scheduler/berth/services/queue/internal/apitest"
)

// someFactsWithin bounds the wait for facts, on a machine that is busy.
const someFactsWithin = time.Minute

func ruleNamed(name string) *resourcev1beta2.DeviceTaintRule {
	return &resourcev1beta2.DeviceTaintRule{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}}
}

// watchRules runs a round over a state of the log, and returns a function that returns the next facts about rules for
// devices, and where the epoch ends.
func watchRules(t *testing.T, api *apitest.Server, base *state.Snapshot) (next func(n int) []string) {
	t.Helper()
	cluster, err := Connect(api.Config())
	must(t, err)
	cluster.kindsEvery = 10 * time.Millisecond
	out := make(chan events.Fact, factCapacity)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true)))
	round := Round{Base: base, Cause: CauseList, Logger: logger, Metrics: Metrics{Clock: clock.RealClock{}}}
	go func() { ended <- cluster.Watch(ctx, round, out) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		api.Close()
	})
	return func(n int) (lines []string) {
		t.Helper()
		late := time.After(someFactsWithin)
		for len(lines) < n {
			select {
			case f := <-out:
				switch {
				case f.Op == events.OpEpochEnd:
					lines = append(lines, "end of the epoch")
				case f.Kind == events.KindDeviceTaintRule && f.Op != events.OpProgress:
					lines = append(lines, fmt.Sprintf("%s %s", f.Op, f.Name))
				}
			case <-late:
				t.Fatalf("%d facts, want %d: %q", len(lines), n, lines)
			}
		}
		return lines
	}
}

// A kind that the API server begins to serve during a round is watched from then on; one that it ceases to serve is
// withdrawn from the log; one that it serves again is compared with that. No object is published twice.
func TestKindsThatComeAndGo(t *testing.T) {
	api := apitest.New("cluster")
	api.Set(ruleNamed("a"))
	api.Set(ruleNamed("b"))
	next := watchRules(t, api, state.New().Snapshot())
	for _, step := range []struct {
		name string
		do   func()
		want []string
	}{
		{"not served", func() {}, []string{"end of the epoch"}},
		{"served", func() { api.ServeTaintRules(true) }, []string{"upsert a", "upsert b"}},
		{"changed", func() { api.Set(ruleNamed("b")) }, []string{"upsert b"}},
		{"watches end", func() { api.Break(); api.Set(ruleNamed("c")) }, []string{"upsert c"}},
		{"not served any more", func() { api.ServeTaintRules(false) }, []string{"delete a", "delete b", "delete c"}},
		{"served again, without one of them", func() {
			api.Delete(ruleNamed("b"))
			api.ServeTaintRules(true)
		}, []string{"upsert a", "upsert c"}},
		{"changed again", func() { api.Set(ruleNamed("a")) }, []string{"upsert a"}},
	} {
		step.do()
		if diff := gocmp.Diff(step.want, next(len(step.want))); diff != "" {
			t.Fatalf("%s (-want +got):\n%s", step.name, diff)
		}
	}
}

// Objects in the log of a kind that the API server does not serve when a round begins are withdrawn.
func TestKindsThatAreGoneWhenARoundBegins(t *testing.T) {
	var h statetest.History
	h.BeginEpoch()
	h.Upsert(events.KindDeviceTaintRule, ruleNamed("a"))
	h.EndEpoch()
	store := state.New()
	_, err := store.Apply(h.Facts)
	must(t, err)
	api := apitest.New("cluster")
	next := watchRules(t, api, store.Snapshot())
	got := next(2)
	slices.Sort(got) // other kinds may be listed sooner or later
	if diff := gocmp.Diff([]string{"delete a", "end of the epoch"}, got); diff != "" {
		t.Fatalf("(-want +got):\n%s", diff)
	}
}

// They do not hold the end of the epoch up, and are withdrawn only when the next answer lacks the kind too.
func TestOneAnswerWithoutAKindWhenARoundBegins(t *testing.T) {
	s, out := newStore(map[string]loggedObject{"a": {12, "", "a"}}, func(error) { t.Error("the round ended") }, nil)
	s.kind, s.progress = events.KindDeviceTaintRule, 20
	listed := 0
	s.onListed = func() error {
		listed++
		return nil
	}
	w := &watching{cluster: &Cluster{}, logger: ktesting.NewLogger(t, ktesting.NewConfig()),
		offered: []*reflection{{watched: taintRuleKinds[0], store: s}}}
	must(t, w.skipUnwatched())
	if listed != 1 || len(out) > 0 {
		t.Fatalf("listed %d times, %q", listed, factLines(out))
	}
	for range 2 {
		must(t, w.compare(t.Context(), nil))
	}
	if diff := gocmp.Diff([]string{"delete a rv=20 progress=20 list"}, factLines(out)); diff != "" || listed != 1 {
		t.Errorf("listed %d times (-want +got):\n%s", listed, diff)
	}
}

// One answer that lacks a kind ends nothing: another server may have given it, while servers are restarted.
func TestOneAnswerWithoutAKind(t *testing.T) {
	s, out := newStore(map[string]loggedObject{"a": {12, "", "a"}}, func(error) { t.Error("the round ended") }, nil)
	s.kind, s.progress = events.KindDeviceTaintRule, 20
	ended := 0
	r := &reflection{watched: taintRuleKinds[0], store: s, end: func() { ended++ }}
	cluster, logger, _ := (&gateServer{}).connect(t)
	w := &watching{cluster: cluster, logger: logger, offered: []*reflection{r}}
	for _, answer := range [][]watched{nil, taintRuleKinds, nil} {
		must(t, w.compare(t.Context(), answer))
		if ended > 0 || len(out) > 0 {
			t.Fatalf("ended %d times, %q", ended, factLines(out))
		}
	}
	must(t, w.compare(t.Context(), nil))
	must(t, w.compare(t.Context(), nil))
	want := []string{"delete a rv=20 progress=20 list"}
	if diff := gocmp.Diff(want, factLines(out)); diff != "" || ended != 1 {
		t.Errorf("ended %d times (-want +got):\n%s", ended, diff)
	}
}

// Objects in the log of a kind that is served, and that the queue may not list, stay. It is watched as soon as the
// queue may.
func TestKindThatMayNotBeListed(t *testing.T) {
	g := &gateServer{denied: []string{taintRules}}
	cluster, logger, _ := g.connect(t)
	s, out := newStore(map[string]loggedObject{"a": {12, "", "a"}}, func(error) { t.Error("the round ended") }, nil)
	s.kind, s.progress = events.KindDeviceTaintRule, 20
	r := &reflection{watched: taintRuleKinds[0], store: s}
	w := &watching{cluster: cluster, group: &errgroup.Group{}, logger: logger, offered: []*reflection{r}}
	must(t, w.skipUnwatched())
	for range 2 * absentAnswers {
		must(t, w.compare(t.Context(), taintRuleKinds))
	}
	if r.end != nil || len(out) > 0 || len(cluster.Unfollowed()) != 1 {
		t.Errorf("watched %t, facts %q, not followed %q", r.end != nil, factLines(out), cluster.Unfollowed())
	}
	g.denied = nil
	must(t, w.compare(t.Context(), taintRuleKinds))
	if r.end == nil || len(cluster.Unfollowed()) != 0 {
		t.Fatalf("watched %t, not followed %q", r.end != nil, cluster.Unfollowed())
	}
	r.end()
	must(t, w.group.Wait())
	r.end = func() {}
	g.denied = []string{taintRules}
	must(t, w.compare(t.Context(), taintRuleKinds))
	if r.end != nil || len(out) > 0 || len(cluster.Unfollowed()) != 1 {
		t.Errorf("without the right, watched %t, facts %q, %q", r.end != nil, factLines(out), cluster.Unfollowed())
	}
}
