package intake

import (
	"context"
	"log/slog"
	"testing"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/events/eventlog"
	"github.com/berth-scheduler/berth/pkg/events/memlog"
	"github.com/berth-scheduler/berth/pkg/ledger/replica"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/services/binder/decide/effect"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestBudgetsOfAPod(t *testing.T) {
	store := state.New()
	selectors := map[string]*metav1.LabelSelector{
		"none":   nil,
		"all":    {},
		"other":  {MatchLabels: map[string]string{"app": "other"}},
		"same":   {MatchLabels: map[string]string{"app": "web"}},
		"broken": {MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: "?"}}},
	}
	for i, tc := range []struct {
		name, namespace string
		want            int
	}{
		{"none", "ns", 0}, {"all", "ns", 1}, {"other", "ns", 1}, {"same", "else", 1}, {"same", "ns", 2}, {"broken", "ns", 3},
	} {
		pdb := &policyv1.PodDisruptionBudget{
			ObjectMeta: metav1.ObjectMeta{Namespace: tc.namespace, Name: tc.name, UID: types.UID(tc.namespace + tc.name)},
			Spec:       policyv1.PodDisruptionBudgetSpec{Selector: selectors[tc.name]},
		}
		data, err := pdb.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		fact := events.SequencedFact{Sequence: uint64(i + 1), Fact: events.Fact{
			Kind: events.KindDisruptionBudget, Op: events.OpUpsert, UID: string(pdb.UID), Namespace: tc.namespace,
			Name: tc.name, ResourceVersion: uint64(i + 1), Progress: uint64(i + 1), Object: data,
		}}
		if _, err := store.Apply([]events.SequencedFact{fact}); err != nil {
			t.Fatal(err)
		}
		pod := state.NewPod(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: "p", Labels: map[string]string{"app": "web"},
		}})
		if got := (cluster{store.Snapshot()}).BudgetsOf(pod, replica.NewView()); len(got) != tc.want {
			t.Fatalf("with %s/%s: %d budgets, want %d", tc.namespace, tc.name, len(got), tc.want)
		}
	}
}

func TestDecisionsAreReadFromTheEndAndUnreadableOnesPassedOver(t *testing.T) {
	log := memlog.New(memlog.Options{})
	add := func(m eventlog.Message) {
		if _, err := log.Append(t.Context(), eventlog.Decisions, eventlog.AnySequence, []eventlog.Message{m}); err != nil {
			t.Fatal(err)
		}
	}
	hint := func(uid string) eventlog.Message {
		return events.EncodeDecision(events.Decision{Kind: events.DecisionPlaced, Pod: events.PodRef{UID: uid}})
	}
	add(hint("before"))
	out := make(chan effect.Input)
	r := New("binder-0", Deps{Log: &readyLog{Log: log, opened: make(chan struct{})},
		Logger: slog.New(slog.DiscardHandler), Clock: clock.RealClock{}}, out)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- r.Decisions(ctx) }()
	<-r.deps.Log.(*readyLog).opened
	add(eventlog.Message{Subject: "decisions.x.y", Data: []byte("nonsense")})
	add(hint("after"))
	if in, ok := (<-out).(effect.DecisionSeen); !ok || in.Decision.Pod.UID != "after" {
		t.Fatalf("first input %+v, want the decision appended after the start", in)
	}
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// readyLog signals when the first reader has been opened.
type readyLog struct {
	eventlog.Log
	opened chan struct{}
}

func (l *readyLog) Read(ctx context.Context, s eventlog.Stream, from uint64) (eventlog.Reader, error) {
	reader, err := l.Log.Read(ctx, s, from)
	close(l.opened)
	return reader, err
}
