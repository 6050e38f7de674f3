package conformance

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/placement/names"
	"github.com/berth-scheduler/berth/pkg/placement/placementtest"
)

// Where our preemption differs from upstream's on purpose, even when it is configured to follow it.

// everyCandidate is DefaultPreemptionArgs without a limit.
func everyCandidate() *configv1.DefaultPreemptionArgs {
	percentage, absolute := int32(100), int32(0)
	return &configv1.DefaultPreemptionArgs{
		MinCandidateNodesPercentage: &percentage, MinCandidateNodesAbsolute: &absolute,
	}
}

// bothPreempt returns the answers of both sides for a pod of priority 100.
func bothPreempt(
	t *testing.T, c *placementtest.Cluster, pod *corev1.Pod, plugins ...string,
) (upstream, ours preempted) {
	t.Helper()
	withoutDevices(t)
	profile := singlePluginProfile(plugins[0])
	for _, name := range plugins[1:] {
		profile.Plugins = append(profile.Plugins, placement.PluginConfig{Name: name})
	}
	s := newPreemptionSides(t.Context(), t, profile, everyCandidate())
	s.upstream.raw = true
	s.mustApply(t, c.Events()...)
	if err := s.refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	priority := int32(100)
	pod.Spec.Priority = &priority
	upstream, ok := s.preemptUpstream(t.Context(), t, pod, 0)
	if !ok {
		t.Fatal("upstream finds room, or fails")
	}
	return upstream, s.preemptOurs(pod, 0, upstream.Node, &preemptionTally{})
}

// since gives a pod a start time, in seconds, and a port or not.
func since(p *corev1.Pod, second int64, hostPort int32) *corev1.Pod {
	p.Status.StartTime = &metav1.Time{Time: time.Unix(second, 0)}
	p.Spec.Containers = []corev1.Container{{Name: "c"}}
	if hostPort > 0 {
		p.Spec.Containers[0].Ports = []corev1.ContainerPort{{HostPort: hostPort, ContainerPort: 80}}
	}
	return p
}

// TestLeavingPodsAndSpread: hard spread does not count a pod that is being deleted. When upstream simulates the
// removal of such a pod, it subtracts the pod from the count all the same, so that evicting a pod that is already
// leaving seems to help.
func TestLeavingPodsAndSpread(t *testing.T) {
	leaving := since(labelled("default", "leaving", "web", "one"), 1, 0)
	leaving.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	c := zoned(leaving, since(labelled("default", "stays", "web", "one"), 2, 0))
	important := int32(1000)
	c.Pods[1].Spec.Priority = &important
	c.Nodes[1].Spec.Unschedulable = true
	pod := labelled("default", "new", "web", "")
	pod.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
		MaxSkew: 1, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.DoNotSchedule,
		LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
	}}
	upstream, ours := bothPreempt(t, c, pod, names.PodTopologySpread, names.NodeUnschedulable)
	if upstream.Node != "one" {
		t.Errorf("upstream takes %q, want one; if this is mended, let pods leave where there is hard spread", upstream.Node)
	}
	if ours.Node != "" {
		t.Errorf("ours takes %q, want none: the pod would not fit", ours.Node)
	}
}

// TestSharedPortPreempted: two pods of a node have the same host port, and one may go. When upstream simulates the
// removal of that pod, the port seems free.
func TestSharedPortPreempted(t *testing.T) {
	c := zoned(since(labelled("default", "a", "web", "one"), 1, 80), since(labelled("default", "b", "web", "one"), 2, 80))
	c.Nodes = c.Nodes[:1]
	important := int32(1000)
	c.Pods[1].Spec.Priority = &important
	upstream, ours := bothPreempt(t, c, since(labelled("default", "new", "web", ""), 0, 80), names.NodePorts)
	if upstream.Node != "one" {
		t.Errorf("upstream takes %q, want one; if this is mended, do without dropUsedPorts", upstream.Node)
	}
	if ours.Node != "" {
		t.Errorf("ours takes %q, want none: the pod would not fit", ours.Node)
	}
}

// TestSharedClaimPreempted: two pods share a claim that is for one pod, because something other than a scheduler put
// them there, and one may be evicted. When upstream simulates the removal of that pod, the claim seems free. The same
// happens when it removes a pod of another namespace whose claim has the same name.
func TestSharedClaimPreempted(t *testing.T) {
	t.Run("two users", func(t *testing.T) { claimSeemsFree(t, "default") })
	t.Run("other namespace", func(t *testing.T) { claimSeemsFree(t, "team") })
}

func claimSeemsFree(t *testing.T, namespace string) {
	t.Helper()
	claim := &corev1.PersistentVolumeClaim{}
	claim.Namespace, claim.Name, claim.UID = "default", "one", "uid-one"
	claim.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOncePod}
	user := func(namespace, name, node string) *corev1.Pod {
		p := since(labelled(namespace, name, "web", node), 1, 0)
		p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "one"},
		}}}
		return p
	}
	c := zoned(user("default", "a", "one"), user(namespace, "b", "two"))
	important := int32(1000)
	c.Pods[0].Spec.Priority = &important
	c.Apply(placementtest.Event{Kind: events.KindVolumeClaim, New: claim})
	upstream, ours := bothPreempt(t, c, user("default", "new", ""), names.VolumeRestrictions)
	if upstream.Node != "two" {
		t.Errorf("upstream takes %q, want two; if this is mended, do without dropUsedClaims and namesake", upstream.Node)
	}
	if ours.Node != "" {
		t.Errorf("ours takes %q, want none: the pod would not fit", ours.Node)
	}
}

// TestEmptyBudgetSelector: a disruption budget with an empty selector covers every pod of its
// namespace, pods without labels too. Upstream's preemption takes it to cover none.
func TestEmptyBudgetSelector(t *testing.T) {
	c := zoned(since(labelled("default", "a", "web", "one"), 1, 0), since(labelled("team", "b", "web", "two"), 2, 0))
	for _, n := range c.Nodes {
		n.Status.Allocatable[corev1.ResourcePods] = resource.MustParse("1")
	}
	c.Apply(placementtest.Event{Kind: events.KindDisruptionBudget, New: &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "all", UID: "uid-all"},
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{}},
	}})
	pod := since(labelled("default", "new", "web", ""), 0, 0)
	upstream, ours := bothPreempt(t, c, pod, names.NodeResourcesFit)
	if got := upstream.Plans["two"]; got != "0 team/b" || upstream.Node != "two" {
		t.Errorf("upstream takes %s, on node two %q: by now it knows the budget", upstream.Node, got)
	}
	if got := ours.Plans["two"]; got != "1 team/b" || ours.Node != "one" {
		t.Errorf("ours takes %s, on node two %q, want one and a victim that exceeds the budget", ours.Node, got)
	}
}
