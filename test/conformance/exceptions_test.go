package conformance

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/placement/names"
	"github.com/berth-scheduler/berth/pkg/placement/placementtest"
	"github.com/berth-scheduler/berth/pkg/placement/rule"
	"github.com/berth-scheduler/berth/pkg/state"
)

// exception is a case in which our answer differs from upstream's on purpose. All but the last are
// about InterPodAffinity; each has a test below that shows what both sides say.
type exception string

const (
	// oneOfSeveral: one anti-affinity term of several that no longer meets a pod may let the
	// waiting one in; upstream's hint wants all terms to have met it.
	oneOfSeveral exception = "one of several terms"
	// namespaceSelected: upstream's hints match namespace selectors against no labels.
	namespaceSelected exception = "namespace selector"
	// lastOfItsKind: when the last pod that an affinity selects is deleted, a pod that matches its own affinity may
	// be the first again; upstream's hint does not check that.
	lastOfItsKind exception = "last of its kind"
	// driverRequired: a driver that a pod waits for (preventPodSchedulingIfMissing) registers on a node without a limit,
	// or is no longer required. Upstream's hints compare limits alone.
	driverRequired exception = "driver required"
)

// exceptionOf names the exception that a change may fall under; empty for none.
func exceptionOf(plugin string, c hintCase) exception {
	if plugin == names.NodeVolumeLimits &&
		(c.change.Kind == events.KindCSINode || c.change.Kind == events.KindCSIDriver) && driverAwaited(c.change) {
		return driverRequired
	}
	old, after := c.change.Pods()
	if plugin != names.InterPodAffinity || old == nil && after == nil {
		return ""
	}
	mine := c.pod.Spec.Affinity
	against := fwk.GetPodAntiAffinityTerms(mine)
	all := slices.Concat(fwk.GetPodAffinityTerms(mine), against)
	several := len(against) > 1
	if old != nil {
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
	case old != nil && several:
		return oneOfSeveral
	case old != nil && drawnToItself(c.pod):
		return lastOfItsKind
	default:
		return ""
	}
}

// driverAwaited reports whether a change makes a driver known on a node, or no longer required there.
func driverAwaited(e placementtest.Event) bool {
	switch old := e.Old.(type) {
	case *storagev1.CSIDriver:
		now, ok := e.New.(*storagev1.CSIDriver)
		required := func(b *bool) bool { return b != nil && *b }
		return required(old.Spec.PreventPodSchedulingIfMissing) &&
			(!ok || !required(now.Spec.PreventPodSchedulingIfMissing))
	case *storagev1.CSINode:
		now, ok := e.New.(*storagev1.CSINode)
		return ok && slices.ContainsFunc(now.Spec.Drivers, func(d storagev1.CSINodeDriver) bool {
			return !slices.ContainsFunc(old.Spec.Drivers, func(o storagev1.CSINodeDriver) bool { return o.Name == d.Name })
		})
	default:
		return false
	}
}

// drawnToItself reports whether a pod matches all of its own required affinity.
func drawnToItself(p *corev1.Pod) bool {
	terms, err := fwk.GetAffinityTerms(p, fwk.GetPodAffinityTerms(p.Spec.Affinity))
	if err != nil || len(terms) == 0 {
		return false
	}
	return !slices.ContainsFunc(terms, func(t fwk.AffinityTerm) bool { return !t.Matches(p, nil) })
}

// zoned is a cluster of two nodes in two zones and the pods given, for tests of single
// differences.
func zoned(pods ...*corev1.Pod) *placementtest.Cluster {
	var c placementtest.Cluster
	for _, name := range []string{"one", "two"} {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
			Name: name, UID: types.UID("uid-node-" + name),
			Labels: map[string]string{corev1.LabelHostname: name, corev1.LabelTopologyZone: "zone-" + name},
		}}
		n.Status.Allocatable = corev1.ResourceList{corev1.ResourcePods: resource.MustParse("110")}
		n.Status.Capacity = n.Status.Allocatable
		c.Nodes = append(c.Nodes, n)
	}
	for _, name := range []string{"default", "team"} {
		env := map[string]string{"default": "prod", "team": "dev"}[name]
		c.Apply(placementtest.Event{Kind: events.KindNamespace, New: &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
			Name: name, UID: types.UID("uid-namespace-" + name), Labels: map[string]string{"env": env},
		}}})
	}
	for _, p := range pods {
		c.Apply(event(nil, p))
	}
	return &c
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

// TestNamespaceSelectorOfAbsence: a namespace selector with a negative requirement means the namespaces that match
// it. Upstream's filter takes it to mean every namespace: having listed those that match, it also matches the
// selector against an empty set of labels.
func TestNamespaceSelectorOfAbsence(t *testing.T) {
	prepareUpstream()
	both := mustSides(t.Context(), t, singlePluginProfile(names.InterPodAffinity))
	both.mustApply(t, zoned(labelled("default", "there", "web", "one")).Events()...) // env=prod: not selected
	pod := repelledBy(labelled("team", "new", "db", ""), against("web", placementtest.Absence()))
	if got := both.upstream.decide(t.Context(), pod).Nodes["one"].Code; got != "Unschedulable" {
		t.Errorf("upstream says %s of node one; if this is mended, generate such selectors for waiting pods", got)
	}
	if got := both.ours(pod).Nodes["one"].Code; got != "Success" {
		t.Errorf("node one: %s, want Success: the pod there is in no selected namespace", got)
	}
}

// TestHintExceptions: what upstream's hints of InterPodAffinity miss and ours do not.
func TestHintExceptions(t *testing.T) {
	prepareUpstream()
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
			both := mustSides(t.Context(), t, singlePluginProfile(names.InterPodAffinity))
			both.mustApply(t, zoned(test.gone).Events()...)
			change := event(test.gone, nil)
			h := hintCase{both, test.pod, change}
			if got := exceptionOf(names.InterPodAffinity, h); got != name {
				t.Errorf("the exception is %q, want %q", got, name)
			}
			if upstreamWakes(t, extension(t, both.upstream, names.InterPodAffinity), test.pod, change) {
				t.Error("upstream wakes the pod by now: the exception can go")
			}
			plugins := []string{names.InterPodAffinity}
			if !both.profile.Wakes(state.NewPod(test.pod.DeepCopy()), plugins, ourChange(change, both.view.Objects())) {
				t.Error("we do not wake the pod")
			}
		})
	}
}

// TestNamespaceRelabelled: a namespace that comes to match a selector brings its pods within
// reach of a term. Upstream has no event for that.
func TestNamespaceRelabelled(t *testing.T) {
	prepareUpstream()
	drawn := labelled("default", "new", "x", "")
	drawn.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{
			against("web", &metav1.LabelSelector{MatchLabels: map[string]string{"env": "test"}}),
		},
	}}
	both := mustSides(t.Context(), t, singlePluginProfile(names.InterPodAffinity))
	both.mustApply(t, zoned(labelled("team", "there", "web", "one")).Events()...)
	registered, err := extension(t, both.upstream, names.InterPodAffinity).EventsToRegister(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range registered {
		if r.Event.Resource != fwk.Pod && r.Event.Resource != fwk.Node {
			t.Errorf("upstream listens to %s by now: compare its hint in TestHints", r.Event.Resource)
		}
	}
	before, _ := both.view.Objects().ObjectByName(events.KindNamespace, "", "team")
	namespace := before.API.(*corev1.Namespace).DeepCopy()
	namespace.Labels = map[string]string{"env": "test"}
	both.mustApply(t, placementtest.Event{What: "relabelled", Kind: events.KindNamespace, New: namespace})
	after, _ := both.view.Objects().ObjectByName(events.KindNamespace, "", "team")
	change := rule.ObjectChange(state.ObjectChange{Kind: events.KindNamespace, Before: before, After: after})
	change.Objects = both.view.Objects()
	if !both.profile.Wakes(state.NewPod(drawn.DeepCopy()), []string{names.InterPodAffinity}, change) {
		t.Error("we do not wake the pod")
	}
	want, diff := both.compare(t.Context(), drawn, 1)
	if diff != "" || want.Nodes["one"].Code != "Success" {
		t.Errorf("after the change node one is %s:\n%s", want.Nodes["one"].Code, diff)
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
