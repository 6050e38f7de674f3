package observe

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// scene is an account with shorthands.
type scene struct{ *Account }

func newScene(t *testing.T) scene {
	t.Helper()
	s := scene{NewAccount()}
	b := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "budget", UID: "budget"},
		Spec: policyv1.PodDisruptionBudgetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "q"}},
		},
		Status: policyv1.PodDisruptionBudgetStatus{DesiredHealthy: 2},
	}
	if err := s.Budget(b); err != nil {
		t.Fatal(err)
	}
	return s
}

func made(name, app, node string, priority int32) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: name, UID: types.UID(name), Labels: map[string]string{"app": app},
		},
		Spec: corev1.PodSpec{NodeName: node, Priority: ptr.To(priority)},
	}
	if node != "" {
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	}
	return p
}

// bound shows a pod on a node, leave shows it leaving and gone.
func (s scene) bound(name, app, node string, priority int32) {
	s.Pod(made(name, app, node, priority), false)
}

func (s scene) leave(name, app, node string) {
	p := made(name, app, node, 0)
	p.DeletionTimestamp = &metav1.Time{}
	p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{
		Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: corev1.PodReasonPreemptionByScheduler,
	})
	s.Pod(p, false)
	s.Pod(p, true)
}

func (s scene) preempted(victim, preemptor, node string) {
	s.Event(&corev1.Event{
		InvolvedObject: corev1.ObjectReference{UID: types.UID(victim)}, Reason: "Preempted",
		Message: fmt.Sprintf("Preempted by pod %s on node %s", preemptor, node),
	})
}

func (s scene) want(t *testing.T, want ...Finding) {
	t.Helper()
	if diff := cmp.Diff(want, s.Findings()); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
}

func TestABudgetIsExceededByTheSecondOfThree(t *testing.T) {
	s := newScene(t)
	for _, name := range []string{"q-0", "q-1", "q-2"} {
		s.bound(name, "q", "node-"+name, 10)
	}
	s.leave("q-0", "q", "node-q-0")
	s.want(t)
	s.leave("q-1", "q", "node-q-1")
	s.want(t, Finding{BudgetExceeded, "pod q-1 was evicted (PreemptionByScheduler), and 1 of ns/budget were left, want 2"})
}

func TestAReplacementThatIsReadyMakesRoomInTheBudget(t *testing.T) {
	s := newScene(t)
	for _, name := range []string{"q-0", "q-1", "q-2"} {
		s.bound(name, "q", "node-"+name, 10)
	}
	s.leave("q-0", "q", "node-q-0")
	s.bound("q-3", "q", "node-q-3", 10)
	s.leave("q-1", "q", "node-q-1")
	s.leave("other", "other", "node-other")
	s.want(t)
	if got := len(s.Evictions()); got != 3 {
		t.Errorf("%d evictions, want 3", got)
	}
}

func TestAPodThatWasNotReadyTakesNothingFromABudget(t *testing.T) {
	s := newScene(t)
	s.bound("q-0", "q", "node-0", 10)
	s.bound("q-1", "q", "node-1", 10)
	unready := made("q-2", "q", "node-2", 10)
	unready.Status.Conditions = nil
	s.Pod(unready, false)
	s.Pod(unready, true)
	s.want(t)
}

func TestWhoIsEvictedForNothing(t *testing.T) {
	for name, test := range map[string]struct {
		after func(scene)
		want  []Finding
	}{
		"never bound": {func(s scene) { s.bound("p", "p", "", 100) },
			[]Finding{{EvictedForNothing, "v was evicted from n for p, which was never bound"}}},
		"elsewhere": {func(s scene) { s.bound("p", "p", "m", 100) },
			[]Finding{{EvictedForNothing, "v was evicted from n for p, which went to m"}}},
		"less important pod took it": {func(s scene) { s.bound("p", "p", "", 100); s.bound("o", "o", "n", 50) },
			[]Finding{{EvictedForNothing, "v was evicted from n for p, which was never bound"}}},
		"used":                      {func(s scene) { s.bound("p", "p", "n", 100) }, nil},
		"more important pod":        {func(s scene) { s.bound("p", "p", "", 100); s.bound("o", "o", "n", 500) }, nil},
		"the preemptor was excused": {func(s scene) { s.bound("p", "p", "", 100); s.Excuse("ns", "p") }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			s.bound("v", "v", "n", 10)
			s.bound("old", "old", "n", 1000)
			s.preempted("v", "p", "n")
			s.leave("v", "v", "n")
			test.after(s)
			s.want(t, test.want...)
		})
	}
}

func TestWhoIsEvictedForTwo(t *testing.T) {
	s := newScene(t)
	s.bound("v", "v", "n", 10)
	s.preempted("v", "p", "n")
	s.preempted("v", "p", "n")
	s.preempted("v", "o", "n")
	s.leave("v", "v", "n")
	s.bound("p", "p", "n", 100)
	s.want(t, Finding{EvictedTwice, "v was evicted for 2 pods"})
}

func TestExcusedPodsAreNoVictims(t *testing.T) {
	s := newScene(t)
	s.bound("mine", "mine", "n", 10)
	s.Excuse("ns", "mine")
	s.leave("mine", "mine", "n")
	if got := s.Evictions(); len(got) != 0 {
		t.Errorf("evictions %+v, want none", got)
	}
}
