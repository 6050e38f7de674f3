package conformance

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/state"
)

// exception is a case in which our answer differs from upstream's on purpose. All are
// about InterPodAffinity; each has a test below that shows what both sides say.
type exception string

const (
	// oneOfSeveral: one anti-affinity term of several that no longer meets a pod may let the
	// waiting one in; upstream's hint wants all terms to have met it.
	oneOfSeveral exception = "one of several terms"
	// namespaceSelected: upstream's hints match namespace selectors against no labels.
	namespaceSelected exception = "namespace selector"
	// lastOfItsKind: when the last pod goes that an affinity is drawn to, a pod that
	// matches its own affinity may be the first again; upstream's hint does not look.
	lastOfItsKind exception = "last of its kind"
)

// exceptionOf names the exception that a change may fall under; empty for none.
func exceptionOf(plugin string, c hintCase) exception {
	if plugin != placement.InterPodAffinity || c.change.oldPod == nil && c.change.newPod == nil {
		return ""
	}
	mine := c.pod.Spec.Affinity
	against := fwk.GetPodAntiAffinityTerms(mine)
	all := slices.Concat(fwk.GetPodAffinityTerms(mine), against)
	several := len(against) > 1
	if old := c.change.oldPod; old != nil {
		theirs := fwk.GetPodAntiAffinityTerms(old.Spec.Affinity)
		several = several || len(theirs) > 1
		all = append(all, theirs...)
	}
	selects := func(t corev1.PodAffinityTerm) bool {
		s := t.NamespaceSelector
		return s != nil && len(s.MatchLabels)+len(s.MatchExpressions) > 0
	}
	switch {
	case slices.ContainsFunc(all, selects):
		return namespaceSelected
	case c.change.oldPod != nil && several:
		return oneOfSeveral
	case c.change.oldPod != nil && drawnToItself(c.pod):
		return lastOfItsKind
	default:
		return ""
	}
}

// drawnToItself tells whether a pod matches all of its own required affinity.
func drawnToItself(p *corev1.Pod) bool {
	terms, err := fwk.GetAffinityTerms(p, fwk.GetPodAffinityTerms(p.Spec.Affinity))
	if err != nil || len(terms) == 0 {
		return false
	}
	return !slices.ContainsFunc(terms, func(t fwk.AffinityTerm) bool { return !t.Matches(p, nil) })
}

// zoned is a cluster of two nodes in two zones and the pods given, for tests of single
// differences.
func zoned(pods ...*corev1.Pod) cluster {
	var c cluster
	for _, name := range []string{"one", "two"} {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
			Name: name, UID: types.UID("uid-node-" + name),
			Labels: map[string]string{corev1.LabelHostname: name, corev1.LabelTopologyZone: "zone-" + name},
		}}
		n.Status.Allocatable = corev1.ResourceList{corev1.ResourcePods: quantity(110)}
		n.Status.Capacity = n.Status.Allocatable
		c.nodes = append(c.nodes, n)
	}
	for name, labels := range map[string]map[string]string{"default": {"env": "prod"}, "team": {"env": "dev"}} {
		c.namespaces = append(c.namespaces, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
			Name: name, UID: types.UID("uid-namespace-" + name), Labels: labels,
		}})
	}
	c.pods = pods
	return c
}

// labelled is a pod with the label app, placed if node is not empty.
func labelled(namespace, name, app, node string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name, UID: types.UID("uid-" + name), Labels: map[string]string{"app": app},
		},
		Spec: corev1.PodSpec{NodeName: node},
	}
}

// against is a required anti-affinity term over zones.
func against(app string, namespaces *metav1.LabelSelector) corev1.PodAffinityTerm {
	return corev1.PodAffinityTerm{
		TopologyKey:       corev1.LabelTopologyZone,
		LabelSelector:     &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}},
		NamespaceSelector: namespaces,
	}
}

func repelledBy(p *corev1.Pod, terms ...corev1.PodAffinityTerm) *corev1.Pod {
	p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: terms,
	}}
	return p
}

// only is a profile of inter-pod affinity alone.
func only() placement.ProfileConfig {
	return placement.ProfileConfig{
		SchedulerName: "s", CrossNodeRules: placement.EvaluateCrossNode,
		Plugins: []placement.PluginConfig{
			{Name: placement.PrioritySort}, {Name: placement.InterPodAffinity, Weight: 1}, {Name: placement.DefaultBinder},
		},
	}
}

// TestNamespaceSelectorOfAbsence: a namespace selector that says what a namespace is not
// means the namespaces that match it. Upstream's filter takes it to mean every namespace:
// having listed those that match, it goes on to match the selector against no labels.
func TestNamespaceSelectorOfAbsence(t *testing.T) {
	prepareUpstream(t)
	c := zoned(labelled("default", "there", "web", "one")) // env=prod: not selected
	pod := repelledBy(labelled("team", "new", "db", ""), against("web", absence))
	both, err := newSides(t.Context(), c, only())
	if err != nil {
		t.Fatal(err)
	}
	if got := both.upstream.decide(t.Context(), pod).Nodes["one"].Code; got != "Unschedulable" {
		t.Errorf("upstream says %s of node one; if this is mended, generate such selectors for waiting pods", got)
	}
	if got := ours(both.profile, both.in, pod).Nodes["one"].Code; got != "Success" {
		t.Errorf("node one: %s, want Success: the pod there is in no selected namespace", got)
	}
}

// TestHintExceptions: what upstream's hints of InterPodAffinity miss and ours do not.
func TestHintExceptions(t *testing.T) {
	prepareUpstream(t)
	team := &metav1.LabelSelector{MatchLabels: map[string]string{"env": "dev"}}
	toItself := labelled("default", "new", "web", "")
	toItself.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{against("web", nil)},
	}}
	tests := map[exception]struct{ pod, gone *corev1.Pod }{
		oneOfSeveral: {
			repelledBy(labelled("default", "new", "x", ""), against("web", nil), against("db", nil)),
			labelled("default", "there", "web", "one"),
		},
		namespaceSelected: {
			repelledBy(labelled("default", "new", "x", ""), against("web", team)), labelled("team", "there", "web", "one"),
		},
		lastOfItsKind: {toItself, labelled("default", "there", "web", "one")},
	}
	for name, test := range tests {
		t.Run(string(name), func(t *testing.T) {
			c := zoned(test.gone)
			both, err := newSides(t.Context(), c, only())
			if err != nil {
				t.Fatal(err)
			}
			change := clusterChange{oldPod: test.gone, objects: both.in.Objects}
			h := hintCase{both.upstream, both.profile, test.pod, change}
			if got := exceptionOf(placement.InterPodAffinity, h); got != name {
				t.Errorf("the exception is %q, want %q", got, name)
			}
			if upstreamWakes(t, extension(t, both.upstream, placement.InterPodAffinity), test.pod, change) {
				t.Error("upstream wakes the pod by now: the exception can go")
			}
			plugins := []string{placement.InterPodAffinity}
			if !both.profile.Wakes(state.NewPod(test.pod.DeepCopy()), plugins, change.ours()) {
				t.Error("we do not wake the pod")
			}
		})
	}
}

func extension(t *testing.T, o *oracle, name string) fwk.EnqueueExtensions {
	t.Helper()
	for _, e := range o.framework.EnqueueExtensions() {
		if e.Name() == name {
			return e
		}
	}
	t.Fatalf("upstream has no plugin %s", name)
	return nil
}
