package decide_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/placement"
)

func nominatedTo(node string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Status.NominatedNodeName = node }
}

// preempted makes a pod one that a scheduler has preempted and that has not left yet.
func preempted(p *corev1.Pod) {
	p.DeletionTimestamp = &metav1.Time{}
	p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{
		Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: corev1.PodReasonPreemptionByScheduler,
	})
}

// The name that a pod is nominated to leads nowhere by the decision that the pod fits nowhere, whoever wrote it. As
// upstream, it stays if the pod is not considered for preemption.
func TestNominationThatLeadsNowhere(t *testing.T) {
	never := func(p *corev1.Pod) { p.Spec.PreemptionPolicy = ptr.To(corev1.PreemptNever) }
	huge := func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{"example.com/gpu": resource.MustParse("1")}
	}
	withoutPreemption := func(c *placement.ProfileConfig) { c.Preemption.Enabled = false }
	for _, test := range []struct {
		name      string
		nominated string
		nodes     int
		profile   func(*placement.ProfileConfig)
		leaving   bool
		pod       []func(*corev1.Pod)
		stale     string
	}{
		{name: "a missing node", nominated: "ghost", nodes: 1, stale: "ghost"},
		{name: "a full node", nominated: "n0", nodes: 1, stale: "n0"},
		{name: "no node at all", nominated: "n0", stale: "n0"},
		{name: "no nomination", nodes: 1},
		{name: "never", nominated: "n0", nodes: 1, pod: []func(*corev1.Pod){never}},
		{name: "never, and the node is missing", nominated: "ghost", nodes: 1, pod: []func(*corev1.Pod){never}},
		{name: "never, and there is no node at all", nominated: "ghost", pod: []func(*corev1.Pod){never}, stale: "ghost"},
		{name: "a victim is leaving", nominated: "n0", nodes: 1, leaving: true},
		{name: "a victim is leaving in vain", nominated: "n0", nodes: 1, leaving: true, pod: []func(*corev1.Pod){huge},
			stale: "n0"},
		{name: "the profile does not preempt", nominated: "n0", nodes: 1, profile: withoutPreemption, stale: "n0"},
		{name: "the profile does not preempt, and a victim is leaving", nominated: "n0", nodes: 1, leaving: true,
			profile: withoutPreemption, stale: "n0"},
		{name: "the profile does not preempt, never", nominated: "n0", nodes: 1, profile: withoutPreemption,
			pod: []func(*corev1.Pod){never}, stale: "n0"},
	} {
		t.Run(test.name, func(t *testing.T) {
			cfg := placement.DefaultProfile(corev1.DefaultSchedulerName)
			if test.profile != nil {
				test.profile(&cfg)
			}
			st := &scenario{world: newWorldOf(t, 1, 1, cfg)}
			st.s = st.shards[0]
			priority := int32(100)
			if test.leaving {
				priority = 1
			}
			for range test.nodes {
				st.addNode("n0", 1)
				options := []func(*corev1.Pod){important(priority)}
				if test.leaving {
					options = append(options, preempted)
				}
				st.running("a", "n0", options...)
			}
			st.deliverAll()
			st.pod("p", append(test.pod, important(10), nominatedTo(test.nominated))...)
			st.runUntilQuiet()
			if n := len(st.s.decisions); n != 1 {
				t.Fatalf("%d decisions, want one", n)
			}
			d := st.s.decisions[0]
			if d.Kind != events.DecisionUnplaceable || d.StaleNomination != test.stale {
				t.Errorf("%s, and nomination %q is stale; want %q (%s)", d.Kind, d.StaleNomination, test.stale, d.Message)
			}
		})
	}
}
