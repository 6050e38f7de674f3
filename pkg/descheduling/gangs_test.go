package descheduling

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/pkg/state/statetest"
)

// podGroup returns PodGroup web/ring.
func podGroup(policy schedulingv1alpha2.PodGroupSchedulingPolicy, topology ...string) *schedulingv1alpha2.PodGroup {
	g := &schedulingv1alpha2.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: "ring", UID: "uid-ring"}}
	g.Spec.SchedulingPolicy = policy
	for _, key := range topology {
		g.Spec.SchedulingConstraints = &schedulingv1alpha2.PodGroupSchedulingConstraints{
			Topology: []schedulingv1alpha2.TopologyConstraint{{Key: key}},
		}
	}
	return g
}

// inRing makes a pod a member of PodGroup web/ring.
func inRing(p *corev1.Pod) {
	name := "ring"
	p.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &name}
}

// Members of a gang stay, since a gang with fewer members may be worth nothing, and no place can be kept for their
// replacements.
func TestMembersOfGangsStay(t *testing.T) {
	const old = "PodLifeTime: {maxPodLifeTimeSeconds: 60}"
	const stays = "kept 1: member of a gang\n"
	const goes = "web/p: is 1h0m0s old\n"
	basic := schedulingv1alpha2.PodGroupSchedulingPolicy{Basic: &schedulingv1alpha2.BasicSchedulingPolicy{}}
	whole := schedulingv1alpha2.PodGroupSchedulingPolicy{Gang: &schedulingv1alpha2.GangSchedulingPolicy{MinCount: 1}}
	for name, tt := range map[string]struct {
		group    *schedulingv1alpha2.PodGroup
		pod      func(*corev1.Pod)
		strategy string
		upstream bool
		want     string
	}{
		"a gang":                      {podGroup(whole), inRing, old, false, stays},
		"a basic group":               {podGroup(basic), inRing, old, false, goes},
		"a basic group in one domain": {podGroup(basic, corev1.LabelTopologyZone), inRing, old, false, stays},
		"an object that is unknown":   {nil, inRing, old, false, stays},
		"in no group":                 {podGroup(whole), func(*corev1.Pod) {}, old, false, goes},
		"as upstream":                 {podGroup(whole), inRing, old, true, goes},
		"annotated": {podGroup(whole), func(p *corev1.Pod) {
			inRing(p)
			p.Annotations = map[string]string{AnnotationEvict: ""}
		}, old, false, goes},
		"failed": {podGroup(whole), func(p *corev1.Pod) {
			inRing(p)
			p.Status.Phase = corev1.PodFailed
		}, "RemoveFailedPods: {minPodLifetimeSeconds: 60}", false, "web/p: failed: no reason given\n"},
	} {
		t.Run(name, func(t *testing.T) {
			objects := []state.APIObject{node("a"), node("b"), pod("web/p", "a", tt.pod)}
			if tt.group != nil {
				objects = append(objects, tt.group)
			}
			got := summary(Input{
				Cluster: statetest.Snapshot(t, objects...), Policy: profileOf(t, "deschedule", "nodeFit: false", tt.strategy),
				Now: now, Upstream: tt.upstream,
			})
			if got != tt.want {
				t.Errorf("got:\n%swant:\n%s", got, tt.want)
			}
		})
	}
}
