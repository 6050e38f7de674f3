package commit

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/state"
)

var noon = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

// owned returns a pod of a controller, on a node.
func owned(uid, owner string) *state.Pod {
	controller := true
	return state.NewPod(&corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: uid, UID: types.UID(uid), ResourceVersion: "1",
			OwnerReferences: []metav1.OwnerReference{{UID: types.UID(owner), Controller: &controller, Kind: "ReplicaSet"}},
		},
		Spec: corev1.PodSpec{NodeName: "n1"},
	})
}

func gone(uid, owner string) []state.PodChange { return []state.PodChange{{Before: owned(uid, owner)}} }

func about(kind events.DecisionKind, uid string) *events.Decision {
	return &events.Decision{Kind: kind, Pod: events.PodRef{UID: uid}}
}

// An evicted pod is replaced by the first pod that its controller creates after it has gone, and only by that,
// whichever of eviction and end is observed first.
func TestSuccession(t *testing.T) {
	s := newEvictedPods()
	s.podsEnded(gone("a", "web"), noon)
	s.decided(about(events.DecisionEvicted, "a"))
	s.decided(about(events.DecisionEvicted, "b"))
	s.podsEnded(gone("b", "web"), noon.Add(time.Second))
	s.decided(about(events.DecisionEvicted, "b"))

	for _, c := range []struct {
		pod, owner string
		seen       time.Duration
		want       string
	}{
		{"elder", "web", -time.Second, ""},
		{"stranger", "db", time.Minute, ""},
		{"first", "web", 0, "a"},
		{"early", "web", 0, ""},
		{"second", "web", time.Second, "b"},
		{"third", "web", time.Minute, ""},
	} {
		if got := s.replacedBy(owned(c.pod, c.owner), noon.Add(c.seen)); got != c.want {
			t.Errorf("%s replaces %q, want %q", c.pod, got, c.want)
		}
	}
	if len(s.byUID)+len(s.awaiting) > 0 {
		t.Errorf("remembered for nothing: %v, %v", s.byUID, s.awaiting)
	}
}

// No replacement is due for a pod that left by itself, or for one for whose replacement a place is kept.
func TestNoSuccessor(t *testing.T) {
	s := newEvictedPods()
	s.podsEnded(gone("deleted", "web"), noon)
	move := about(events.DecisionEvict, "moved")
	move.LedgerRevision = 7
	s.decided(move)
	s.decided(about(events.DecisionEvicted, "moved"))
	s.podsEnded(gone("moved", "web"), noon)
	s.decided(about(events.DecisionEvicted, "bare"))
	s.podsEnded([]state.PodChange{{Before: state.NewPod(&corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "bare", UID: "bare", ResourceVersion: "1"}, Spec: corev1.PodSpec{NodeName: "n1"},
	})}}, noon)
	if got := s.replacedBy(owned("new", "web"), noon.Add(time.Hour)); got != "" {
		t.Errorf("it replaces %q", got)
	}
}

// The memory is bounded, and the oldest pods are forgotten first.
func TestSuccessionIsBounded(t *testing.T) {
	s := newEvictedPods()
	for i := range maxDeparted + 1 {
		uid := fmt.Sprint("pod-", i)
		s.podsEnded(gone(uid, "web"), noon)
		s.decided(about(events.DecisionEvicted, uid))
	}
	if len(s.byUID) != maxDeparted || len(s.order) != maxDeparted || len(s.awaiting["web"]) != maxDeparted {
		t.Errorf("%d, %d and %d remembered, want %d", len(s.byUID), len(s.order), len(s.awaiting["web"]), maxDeparted)
	}
	if got := s.replacedBy(owned("new", "web"), noon); got != "pod-1" {
		t.Errorf("it replaces %q, want pod-1", got)
	}
}
