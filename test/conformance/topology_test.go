package conformance

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	configv1 "k8s.io/kube-scheduler/config/v1"
)

// objects are the objects of a cluster besides nodes and pods.
type objects struct {
	namespaces   []*corev1.Namespace
	services     []*corev1.Service
	replicaSets  []*appsv1.ReplicaSet
	statefulSets []*appsv1.StatefulSet
	controllers  []*corev1.ReplicationController
}

// namespaces pods may be in; "lost" has no object.
var namespaces = []string{"default", "default", "default", "team", "team", "lost"}

func (g *generator) objects() objects {
	var o objects
	for _, name := range []string{"default", "team", "empty"} {
		o.namespaces = append(o.namespaces, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
			Name: name, UID: types.UID("uid-" + name), Labels: g.namespaceLabels(),
		}})
	}
	for range 1 + g.IntN(4) {
		o.services = append(o.services, &corev1.Service{
			ObjectMeta: g.meta("service"),
			Spec:       corev1.ServiceSpec{Selector: pick(g, g.podLabels(), g.podLabels(), g.podLabels(), g.podLabels(), nil)},
		})
	}
	for range g.IntN(3) {
		o.replicaSets = append(o.replicaSets, &appsv1.ReplicaSet{
			ObjectMeta: g.meta("rs"), Spec: appsv1.ReplicaSetSpec{Selector: g.selector()}})
		o.statefulSets = append(o.statefulSets, &appsv1.StatefulSet{
			ObjectMeta: g.meta("ss"), Spec: appsv1.StatefulSetSpec{Selector: g.selector()}})
		o.controllers = append(o.controllers, &corev1.ReplicationController{
			ObjectMeta: g.meta("rc"), Spec: corev1.ReplicationControllerSpec{Selector: g.podLabels()}})
	}
	return o
}

func (g *generator) meta(prefix string) metav1.ObjectMeta {
	name := g.next(prefix)
	return metav1.ObjectMeta{Namespace: pick(g, namespaces...), Name: name, UID: types.UID("uid-" + name)}
}

func (g *generator) namespaceLabels() map[string]string {
	labels := map[string]string{}
	g.label(labels, "env", "prod", "dev")
	g.label(labels, "owner", "x", "y")
	return labels
}

func (g *generator) podLabels() map[string]string {
	labels := map[string]string{}
	g.label(labels, "app", "web", "db")
	g.label(labels, "tier", "1", "2")
	return labels
}

// topologyLabels give a node its domains. Some nodes have no hostname, some share one.
func (g *generator) topologyLabels(labels map[string]string) {
	if g.chance(85) {
		labels[corev1.LabelTopologyZone] = pick(g, "z1", "z2", "z3", "")
	}
	switch {
	case g.chance(3):
		delete(labels, corev1.LabelHostname)
	case g.chance(3):
		labels[corev1.LabelHostname] = "shared"
	case g.chance(1):
		clear(labels)
	}
}

// owned makes a pod the child of a controller: a known one, a lost one, or one of a kind
// that selects nothing.
func (g *generator) owned(p *corev1.Pod, o objects) {
	var refs []metav1.OwnerReference
	add := func(apiVersion, kind, namespace, name string) {
		p.Namespace = namespace
		refs = append(refs, metav1.OwnerReference{APIVersion: apiVersion, Kind: kind, Name: name})
	}
	switch g.IntN(7) {
	case 0:
		if len(o.replicaSets) > 0 {
			rs := pick(g, o.replicaSets...)
			add("apps/v1", "ReplicaSet", rs.Namespace, rs.Name)
		}
	case 1:
		if len(o.statefulSets) > 0 {
			ss := pick(g, o.statefulSets...)
			add("apps/v1", "StatefulSet", ss.Namespace, ss.Name)
		}
	case 2:
		if len(o.controllers) > 0 {
			rc := pick(g, o.controllers...)
			add("v1", "ReplicationController", rc.Namespace, rc.Name)
		}
	case 3:
		add(pick(g, "apps/v1", "apps/v1beta1", "a/b/c"), pick(g, "ReplicaSet", "Deployment"), p.Namespace, "absent")
	}
	for i := range refs {
		controls := g.chance(90)
		refs[i].Controller = &controls
	}
	p.OwnerReferences = refs
}

// selector draws a selector of pods: usually a good one, sometimes none, one of
// everything, or one that cannot be parsed.
func (g *generator) selector() *metav1.LabelSelector {
	switch g.IntN(25) {
	case 0:
		return nil
	case 1:
		return &metav1.LabelSelector{}
	case 2, 3, 4, 5:
		return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{g.podExpression()}}
	case 6:
		return &metav1.LabelSelector{
			MatchLabels:      map[string]string{"app": pick(g, "web", "db")},
			MatchExpressions: []metav1.LabelSelectorRequirement{g.podExpression()},
		}
	default:
		return &metav1.LabelSelector{MatchLabels: map[string]string{"app": pick(g, "web", "web", "db")}}
	}
}

func (g *generator) podExpression() metav1.LabelSelectorRequirement {
	key := pick(g, "app", "tier")
	switch operator := pick(g, metav1.LabelSelectorOpIn, metav1.LabelSelectorOpNotIn, metav1.LabelSelectorOpExists,
		metav1.LabelSelectorOpDoesNotExist); {
	case g.chance(2):
		return metav1.LabelSelectorRequirement{Key: key, Operator: "Nonsense"}
	case operator == metav1.LabelSelectorOpIn || operator == metav1.LabelSelectorOpNotIn:
		return metav1.LabelSelectorRequirement{Key: key, Operator: operator, Values: []string{pick(g, "web", "1")}}
	default:
		return metav1.LabelSelectorRequirement{Key: key, Operator: operator}
	}
}

// topologyKeys are those of constraints and terms; few nodes lack "zone", none has "absent".
var topologyKeys = []string{
	corev1.LabelTopologyZone, corev1.LabelTopologyZone, corev1.LabelTopologyZone, corev1.LabelHostname,
	corev1.LabelHostname, "zone", "disk",
}

func (g *generator) topologyKey() string {
	if g.chance(2) {
		return "absent"
	}
	return pick(g, topologyKeys...)
}

func (g *generator) spreadConstraint() corev1.TopologySpreadConstraint {
	c := corev1.TopologySpreadConstraint{
		MaxSkew:           pick[int32](g, 1, 1, 2, 3),
		TopologyKey:       g.topologyKey(),
		WhenUnsatisfiable: g.whenUnsatisfiable(),
		LabelSelector:     g.selector(),
		MatchLabelKeys:    some(g, 15, "tier", "app", "absent"),
	}
	policies := []*corev1.NodeInclusionPolicy{nil}
	honor, ignore := corev1.NodeInclusionPolicyHonor, corev1.NodeInclusionPolicyIgnore
	policies = append(policies, &honor, &ignore)
	c.NodeAffinityPolicy, c.NodeTaintsPolicy = pick(g, policies...), pick(g, policies...)
	if c.WhenUnsatisfiable == corev1.DoNotSchedule && g.chance(25) {
		domains := pick[int32](g, 1, 2, 3, 4, 50)
		c.MinDomains = &domains
	}
	return c
}

// whenUnsatisfiable prefers soft constraints: a node is rejected more easily than ranked.
func (g *generator) whenUnsatisfiable() corev1.UnsatisfiableConstraintAction {
	if g.chance(30) {
		return corev1.DoNotSchedule
	}
	return corev1.ScheduleAnyway
}

// podTerms draws inter-pod affinity for a pod. Namespace selectors that match a namespace
// without labels (but not all) are left out of the terms of waiting pods: see
// TestNamespaceSelectorOfAbsence.
func (g *generator) podTerms(waiting bool, percent int) (*corev1.PodAffinity, *corev1.PodAntiAffinity) {
	terms := func(percent int) (list []corev1.PodAffinityTerm) {
		for g.chance(percent) && len(list) < 3 {
			list = append(list, g.podTerm(waiting))
		}
		return list
	}
	weighted := func(percent int) (list []corev1.WeightedPodAffinityTerm) {
		for _, t := range terms(percent) {
			list = append(list, corev1.WeightedPodAffinityTerm{Weight: pick[int32](g, 1, 2, 50, 100), PodAffinityTerm: t})
		}
		return list
	}
	if !g.chance(percent) {
		return nil, nil
	}
	with := &corev1.PodAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution:  terms(20),
		PreferredDuringSchedulingIgnoredDuringExecution: weighted(45),
	}
	against := &corev1.PodAntiAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution:  terms(30),
		PreferredDuringSchedulingIgnoredDuringExecution: weighted(45),
	}
	return pick(g, with, with, with, nil), pick(g, against, against, against, nil)
}

func (g *generator) podTerm(waiting bool) corev1.PodAffinityTerm {
	t := corev1.PodAffinityTerm{
		TopologyKey: g.topologyKey(), LabelSelector: g.selector(), Namespaces: some(g, 12, "default", "team", "lost"),
	}
	if !g.chance(25) {
		return t
	}
	t.NamespaceSelector = pick(g,
		&metav1.LabelSelector{},
		&metav1.LabelSelector{MatchLabels: map[string]string{"env": "prod"}},
		&metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: "owner", Operator: metav1.LabelSelectorOpExists}}},
	)
	if !waiting && g.chance(40) {
		t.NamespaceSelector = absence
	}
	return t
}

// absence selects namespaces by what they are not, so that one without labels matches.
var absence = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
	{Key: "env", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"prod"}},
}}

func (g *generator) spreadArgs() *configv1.PodTopologySpreadArgs {
	if g.chance(65) {
		return &configv1.PodTopologySpreadArgs{DefaultingType: configv1.SystemDefaulting}
	}
	args := &configv1.PodTopologySpreadArgs{DefaultingType: configv1.ListDefaulting}
	seen := map[string]bool{}
	for range g.IntN(4) {
		c := corev1.TopologySpreadConstraint{
			MaxSkew: pick[int32](g, 1, 2, 5), TopologyKey: g.topologyKey(),
			WhenUnsatisfiable: g.whenUnsatisfiable(),
		}
		if id := fmt.Sprint(c.TopologyKey, c.WhenUnsatisfiable); !seen[id] {
			seen[id] = true
			args.DefaultConstraints = append(args.DefaultConstraints, c)
		}
	}
	return args
}

func (g *generator) podAffinityArgs() *configv1.InterPodAffinityArgs {
	weight := pick[int32](g, 0, 1, 1, 5, 100)
	return &configv1.InterPodAffinityArgs{
		HardPodAffinityWeight: &weight, IgnorePreferredTermsOfExistingPods: g.chance(25),
	}
}
