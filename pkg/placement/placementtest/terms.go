package placementtest

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// selector draws a pod selector: usually a valid one, sometimes none, one that selects everything, or one that
// cannot be parsed.
func (g *Generator) selector() *metav1.LabelSelector {
	switch g.IntN(25) {
	case 0:
		return nil
	case 1:
		return &metav1.LabelSelector{}
	case 2, 3, 4, 5:
		return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{g.podExpression()}}
	case 6:
		return &metav1.LabelSelector{
			MatchLabels:      map[string]string{"app": Pick(g, "web", "db")},
			MatchExpressions: []metav1.LabelSelectorRequirement{g.podExpression()},
		}
	default:
		return &metav1.LabelSelector{MatchLabels: map[string]string{"app": Pick(g, "web", "web", "db")}}
	}
}

func (g *Generator) podExpression() metav1.LabelSelectorRequirement {
	key := Pick(g, "app", "tier")
	switch operator := Pick(g, metav1.LabelSelectorOpIn, metav1.LabelSelectorOpNotIn, metav1.LabelSelectorOpExists,
		metav1.LabelSelectorOpDoesNotExist); {
	case g.rarely():
		return metav1.LabelSelectorRequirement{Key: key, Operator: "Nonsense"}
	case operator == metav1.LabelSelectorOpIn || operator == metav1.LabelSelectorOpNotIn:
		return metav1.LabelSelectorRequirement{Key: key, Operator: operator, Values: []string{Pick(g, "web", "1")}}
	default:
		return metav1.LabelSelectorRequirement{Key: key, Operator: operator}
	}
}

// topologyKeys holds the keys of constraints and terms; few nodes lack "zone", and none has "absent".
var topologyKeys = []string{
	corev1.LabelTopologyZone, corev1.LabelTopologyZone, corev1.LabelTopologyZone, corev1.LabelHostname,
	corev1.LabelHostname, "zone", "disk",
}

func (g *Generator) topologyKey() string {
	if g.Chance(2) {
		return "absent"
	}
	return Pick(g, topologyKeys...)
}

func (g *Generator) spreadConstraint() corev1.TopologySpreadConstraint {
	c := corev1.TopologySpreadConstraint{
		MaxSkew:           Pick[int32](g, 1, 1, 2, 3),
		TopologyKey:       g.topologyKey(),
		WhenUnsatisfiable: g.whenUnsatisfiable(),
		LabelSelector:     g.selector(),
		MatchLabelKeys:    Some(g, 15, "tier", "app", "absent"),
	}
	honor, ignore := corev1.NodeInclusionPolicyHonor, corev1.NodeInclusionPolicyIgnore
	policies := []*corev1.NodeInclusionPolicy{nil, &honor, &ignore}
	c.NodeAffinityPolicy, c.NodeTaintsPolicy = Pick(g, policies...), Pick(g, policies...)
	if c.WhenUnsatisfiable == corev1.DoNotSchedule && g.Chance(25) {
		domains := Pick[int32](g, 1, 2, 3, 4, 50)
		c.MinDomains = &domains
	}
	return c
}

// whenUnsatisfiable prefers soft constraints: rejections are more common than comparisons anyway.
func (g *Generator) whenUnsatisfiable() corev1.UnsatisfiableConstraintAction {
	if g.Chance(25) {
		return corev1.DoNotSchedule
	}
	return corev1.ScheduleAnyway
}

// podTerms draws inter-pod affinity for a waiting pod, or with nil for a pod that is on a node.
func (g *Generator) podTerms(waiting *corev1.Pod, percent int) (*corev1.PodAffinity, *corev1.PodAntiAffinity) {
	terms := func(percent int) (list []corev1.PodAffinityTerm) {
		for g.Chance(percent) && len(list) < 3 {
			list = append(list, g.podTerm(waiting))
		}
		return list
	}
	weighted := func(percent int) (list []corev1.WeightedPodAffinityTerm) {
		for _, t := range terms(percent) {
			list = append(list, corev1.WeightedPodAffinityTerm{Weight: Pick[int32](g, 1, 2, 50, 100), PodAffinityTerm: t})
		}
		return list
	}
	if !g.Chance(percent) {
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
	return Pick(g, with, with, with, nil), Pick(g, against, against, against, nil)
}

// podTerm draws one term. Waiting pods get no Absence: see there.
func (g *Generator) podTerm(waiting *corev1.Pod) corev1.PodAffinityTerm {
	t := corev1.PodAffinityTerm{
		TopologyKey: g.topologyKey(), LabelSelector: g.selector(), Namespaces: Some(g, 12, "default", "team", "lost"),
	}
	if waiting != nil && t.LabelSelector != nil {
		g.matchKeys(&t, waiting.Labels)
	}
	if !g.Chance(25) {
		return t
	}
	t.NamespaceSelector = Pick(g,
		&metav1.LabelSelector{},
		&metav1.LabelSelector{MatchLabels: map[string]string{"env": "prod"}},
		&metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: "owner", Operator: metav1.LabelSelectorOpExists}}},
	)
	if waiting == nil && g.Chance(40) {
		t.NamespaceSelector = Absence()
	}
	return t
}

// matchKeys handles matchLabelKeys and mismatchLabelKeys as the API server does when a pod is created: it adds the
// pod's own values to the selector (KEP-3633). Occasionally the pod looks like one that was created without that.
func (g *Generator) matchKeys(t *corev1.PodAffinityTerm, labels map[string]string) {
	t.MatchLabelKeys = Some(g, 8, "tier", "app", "absent")
	if len(t.MatchLabelKeys) == 0 {
		t.MismatchLabelKeys = Some(g, 8, "tier", "app", "absent")
	}
	if g.Chance(10) {
		return
	}
	t.LabelSelector = t.LabelSelector.DeepCopy()
	add := func(keys []string, operator metav1.LabelSelectorOperator) {
		for _, key := range keys {
			if value, ok := labels[key]; ok {
				t.LabelSelector.MatchExpressions = append(t.LabelSelector.MatchExpressions,
					metav1.LabelSelectorRequirement{Key: key, Operator: operator, Values: []string{value}})
			}
		}
	}
	add(t.MatchLabelKeys, metav1.LabelSelectorOpIn)
	add(t.MismatchLabelKeys, metav1.LabelSelectorOpNotIn)
}

// Absence selects namespaces by a label that they do not have, so that one without labels matches. Generated pods
// on nodes use it, waiting pods do not: kube-scheduler's filter takes it to mean every namespace there
// (test/conformance shows that).
func Absence() *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
		{Key: "env", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"prod"}},
	}}
}

func (g *Generator) nodeSelector(c *Cluster) *corev1.NodeSelector {
	s := &corev1.NodeSelector{}
	for range Pick(g, 0, 1, 1, 1, 2, 2, 2, 2) {
		s.NodeSelectorTerms = append(s.NodeSelectorTerms, g.nodeTerm(c, 20))
	}
	return s
}

func (g *Generator) nodeTerm(c *Cluster, byName int) corev1.NodeSelectorTerm {
	var t corev1.NodeSelectorTerm
	for range Pick(g, 0, 1, 1, 1, 1, 2, 2) {
		t.MatchExpressions = append(t.MatchExpressions, g.nodeExpression())
	}
	for range g.IntN(3) {
		if !g.Chance(byName) {
			continue
		}
		r := corev1.NodeSelectorRequirement{
			Key:      "metadata.name",
			Operator: Pick(g, corev1.NodeSelectorOpIn, corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn),
			Values:   []string{g.nodeName(c)},
		}
		if g.Chance(2) {
			r.Values = append(r.Values, "two-are-not-allowed")
		}
		t.MatchFields = append(t.MatchFields, r)
	}
	return t
}

func (g *Generator) nodeExpression() corev1.NodeSelectorRequirement {
	r := corev1.NodeSelectorRequirement{
		Key: Pick(g, "zone", "zone", "disk", "disk", "rank", "empty", "absent"),
		Operator: Pick(g, corev1.NodeSelectorOpIn, corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn,
			corev1.NodeSelectorOpExists, corev1.NodeSelectorOpDoesNotExist, corev1.NodeSelectorOpGt,
			corev1.NodeSelectorOpLt),
	}
	switch r.Operator {
	case corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn:
		r.Values = Some(g, 50, "a", "b", "ssd", "hdd", "")
		if len(r.Values) == 0 && !g.Chance(1) {
			r.Values = []string{"c"}
		}
	case corev1.NodeSelectorOpGt, corev1.NodeSelectorOpLt:
		r.Key = "rank"
		r.Values = []string{Pick(g, "1", "2", "5")}
		if g.Chance(3) {
			r.Values = []string{"x"}
		}
	}
	if g.rarely() {
		r.Operator = "Nonsense"
	}
	return r
}
