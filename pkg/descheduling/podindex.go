package descheduling

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"github.com/berth-scheduler/berth/pkg/state"
)

// podIndex holds the pods that anti-affinity is checked against: those on the selected nodes that the strategy's
// arguments select. A term is searched only among the pods of one domain, that of the pod which has the term, and
// only until a match is found: the matches in all domains at once would be as many as there are pods in the
// cluster, for every term of every pod.
type podIndex struct {
	view *View
	// byNode holds the pods of each node; evicted holds those that have been accepted for eviction.
	byNode  map[*Node][]*Pod
	evicted map[*Pod]bool
	// terms holds the terms of each template, in order.
	terms map[*corev1.Pod][]*term
	// domains holds the domains with more than one node, built when first needed; unmatched records the domains in
	// which a term matches no pod.
	domains   map[domainID]*domainPods
	unmatched map[termInDomain]bool
	// upstream interprets terms as upstream does.
	upstream bool
}

// termInDomain is a term together with the pods of one domain.
type termInDomain struct {
	term *term
	in   *domainPods
}

// term is one required term of a template. It matches a pod only if it does so whichever labels have been cut from
// the pod and its namespace (strip.LabelsCut): pods are evicted only for what is certain.
type term struct {
	key      string
	selector labels.Selector
	// namespaces are the named ones, sorted. meant decides about all other namespaces; if it is nil, no other
	// namespace matches.
	namespaces  []string
	inNamespace func(namespace string) bool
	// label is a label that every pod matched by the selector has, with one of values; empty if no such label is
	// known.
	label  string
	values []string
	// cost is the cost of checking one kind of pods.
	cost int
}

// domainPods holds the pods of a domain by namespace, in the order in which the namespaces are first seen, and
// within a namespace by kind, as terms see nothing else.
type domainPods struct {
	names []string
	in    map[string]*namespacePods
}

// namespacePods holds the pods of one namespace in a domain, grouped by kind, in the order in which kinds are seen.
type namespacePods struct {
	groups []*group
	byKind map[*state.PodClass]*group
	// byLabel holds the groups by the value of a label, built when first needed.
	byLabel map[domainID][]*group
}

type group struct {
	kind *state.PodClass
	pods []*Pod
}

// unmatchedCost is the cost of recording that a term matches no pod in a domain, in units of checks.
const unmatchedCost = 16

func newPodIndex(v *View, upstream bool) *podIndex {
	return &podIndex{
		view: v, byNode: map[*Node][]*Pod{}, evicted: map[*Pod]bool{}, terms: map[*corev1.Pod][]*term{},
		domains: map[domainID]*domainPods{}, unmatched: map[termInDomain]bool{}, upstream: upstream,
	}
}

// conflict returns a pod in the same domain that a required term of pod matches: the first that is found. It also
// returns nil when the pod's namespace has used up its share of the run.
func (c *podIndex) conflict(pod *Pod) *Pod {
	for _, t := range c.termsOf(pod) {
		if o := c.findInDomain(t, pod); o != nil {
			return o
		}
	}
	return nil
}

// findInDomain searches the domain of the pod's node. A node without the key is a domain of its own: a node shares
// every domain with itself.
func (c *podIndex) findInDomain(t *term, pod *Pod) *Pod {
	value, ok := pod.Node.Object.Labels[t.key]
	if nodes := c.view.budget.nodesIn(domainID{t.key, value}); ok && len(nodes) > 1 {
		return c.findAmong(t, pod, c.podsIn(domainID{t.key, value}, nodes))
	}
	account := c.view.budget.account(pod.Namespace)
	for _, o := range c.byNode[pod.Node] {
		if !account.spend(t.cost) {
			return nil
		}
		if !c.evicted[o] && c.differ(pod, o) && t.selectsNamespace(o.Namespace) && o.Kind.MustMatch(t.selector) {
			return o
		}
	}
	return nil
}

// findAmong searches a domain, namespace by namespace and kind by kind. That no pod matches is recorded, so that
// the next pod of the template in this domain costs one look: the pods of a domain only become fewer during a pass.
func (c *podIndex) findAmong(t *term, pod *Pod, all *domainPods) *Pod {
	if c.unmatched[termInDomain{t, all}] {
		return nil
	}
	account := c.view.budget.account(pod.Namespace)
	names := t.namespaces
	if t.inNamespace != nil {
		names = all.names
	}
	for _, name := range names {
		if !account.spend(1) {
			return nil
		}
		in := all.in[name]
		if in == nil || t.inNamespace != nil && !t.selectsNamespace(name) {
			continue
		}
		if len(t.values) > 1 && !account.spend(min(len(t.values), len(in.groups))) {
			return nil
		}
		for _, g := range in.candidates(t) {
			if !account.spend(t.cost) {
				return nil
			}
			if !g.kind.MustMatch(t.selector) {
				continue
			}
			if o := c.first(g, pod); o != nil {
				return o
			}
		}
	}
	if account.spend(unmatchedCost) {
		c.unmatched[termInDomain{t, all}] = true
	}
	return nil
}

// first returns the first remaining pod of a group other than the given pod.
func (c *podIndex) first(g *group, pod *Pod) *Pod {
	for len(g.pods) > 0 && c.evicted[g.pods[0]] {
		g.pods = g.pods[1:]
	}
	for _, o := range g.pods {
		if !c.evicted[o] && c.differ(pod, o) {
			return o
		}
	}
	return nil
}

// differ reports whether two pods differ. Upstream takes pods with the same name for the same pod, whatever their
// namespaces.
func (c *podIndex) differ(pod, o *Pod) bool {
	if c.upstream {
		return pod.Name != o.Name
	}
	return pod != o
}

func (c *podIndex) podsIn(at domainID, nodes []*Node) *domainPods {
	all := c.domains[at]
	if all != nil {
		return all
	}
	all = &domainPods{in: map[string]*namespacePods{}}
	for _, n := range nodes {
		for _, pod := range c.byNode[n] {
			all.add(pod)
		}
	}
	c.domains[at] = all
	return all
}

func (all *domainPods) add(pod *Pod) {
	in := all.in[pod.Namespace]
	if in == nil {
		in = &namespacePods{byKind: map[*state.PodClass]*group{}}
		all.in[pod.Namespace] = in
		all.names = append(all.names, pod.Namespace)
	}
	g := in.byKind[pod.Kind]
	if g == nil {
		g = &group{kind: pod.Kind}
		in.byKind[pod.Kind] = g
		in.groups = append(in.groups, g)
	}
	g.pods = append(g.pods, pod)
}

// candidates returns the groups that a term may match: those with one of its values, or all groups if there are
// fewer groups than values.
func (in *namespacePods) candidates(t *term) []*group {
	if t.label == "" || len(t.values) > len(in.groups) {
		return in.groups
	}
	if in.byLabel == nil {
		in.byLabel = map[domainID][]*group{}
		for _, g := range in.groups {
			for key, value := range g.kind.Labels {
				in.byLabel[domainID{key, value}] = append(in.byLabel[domainID{key, value}], g)
			}
		}
	}
	if len(t.values) == 1 {
		return in.byLabel[domainID{t.label, t.values[0]}]
	}
	var groups []*group
	for _, value := range t.values {
		groups = append(groups, in.byLabel[domainID{t.label, value}]...)
	}
	return groups
}

// termsOf returns the terms of a pod; they are shared by the pods of a template.
func (c *podIndex) termsOf(pod *Pod) []*term {
	list, known := c.terms[pod.Template]
	if known {
		return list
	}
	if c.upstream {
		list = c.termsUpstream(pod)
	} else if pod.Terms != nil {
		for i := range pod.Terms.RequiredAntiAffinity {
			list = append(list, c.newTerm(&pod.Terms.RequiredAntiAffinity[i]))
		}
	}
	c.terms[pod.Template] = list
	return list
}

// termsUpstream stops at a term that cannot be parsed.
func (c *podIndex) termsUpstream(pod *Pod) []*term {
	var list []*term
	for _, t := range c.view.antiAffinity(pod) {
		if t.err != nil {
			break
		}
		list = append(list, termOf(t.key, t.namespaces, t.selector))
	}
	return list
}

func (c *podIndex) newTerm(of *state.AffinityTerm) *term {
	t := termOf(of.TopologyKey, of.Namespaces, of.Selector)
	if requirements, some := of.NamespaceSelector.Requirements(); some {
		t.cost += len(requirements)
		t.inNamespace = func(namespace string) bool {
			set, _ := c.view.namespaceLabels(namespace)
			return slices.Contains(of.Namespaces, namespace) || state.MustMatch(of.NamespaceSelector, set)
		}
	}
	return t
}

// termOf prepares a term. Of the requirements that name values of a label it remembers the one with the fewest.
func termOf(key string, namespaces []string, selector labels.Selector) *term {
	t := &term{
		key: key, selector: selector, cost: costOf(selector),
		namespaces: slices.Compact(slices.Sorted(slices.Values(namespaces))),
	}
	requirements, _ := selector.Requirements()
	for i := range requirements {
		switch requirements[i].Operator() {
		case selection.In, selection.Equals, selection.DoubleEquals:
			values := slices.Sorted(maps.Keys(requirements[i].Values()))
			if t.label == "" || len(values) < len(t.values) {
				t.label, t.values = requirements[i].Key(), values
			}
		}
	}
	return t
}

// selectsNamespace reports whether the term refers to pods of a namespace.
func (t *term) selectsNamespace(namespace string) bool {
	if t.inNamespace != nil {
		return t.inNamespace(namespace)
	}
	_, named := slices.BinarySearch(t.namespaces, namespace)
	return named
}
