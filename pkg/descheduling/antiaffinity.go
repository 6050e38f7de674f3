package descheduling

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/berth-scheduler/berth/pkg/descheduling/policy"
	"github.com/berth-scheduler/berth/pkg/state"
)

// crowd is the pods that anti-affinity is checked against: those of the nodes looked at that
// the strategy's arguments select, by namespace and kind, those being all that terms see.
type crowd struct {
	view  *View
	kinds map[string]map[*state.Kind][]*Pod
	// gone are those that have been accepted.
	gone map[*Pod]bool
	// repelled is what each template's terms speak of, in the order of the terms.
	repelled map[*corev1.Pod][]*repelled
	// upstream reads terms in upstream's way.
	upstream bool
}

// repelled are the pods that one term speaks of, by domain, each by namespace and name.
type repelled struct {
	key string
	in  map[place][]*Pod
}

// place is a domain of a key. A node without the key is one of its own: a node shares every
// domain with itself.
type place struct {
	value string
	node  *Node
}

func placeOf(n *Node, key string) place {
	if value, ok := n.Object.Labels[key]; ok {
		return place{value: value}
	}
	return place{node: n}
}

// interPodAntiAffinity is RemovePodsViolatingInterPodAntiAffinity. It takes the pod that has
// the term; once it is accepted, its counterpart may stay.
func (p *pass) interPodAntiAffinity(args *policy.InterPodAntiAffinity) {
	c := &crowd{
		view: p.view, kinds: map[string]map[*state.Kind][]*Pod{}, gone: map[*Pod]bool{},
		repelled: map[*corev1.Pod][]*repelled{}, upstream: p.Upstream,
	}
	mine := map[*Node][]*Pod{}
	for _, n := range p.view.looked {
		for _, pod := range n.Pods {
			if !pod.Terminal && args.Has(pod.Namespace, pod.Template.Labels) {
				c.add(pod)
				mine[n] = append(mine[n], pod)
			}
		}
	}
	for _, n := range p.view.looked {
		pods := slices.DeleteFunc(mine[n], func(pod *Pod) bool { return !pod.Kind.RequiredAntiAffinity })
		slices.SortStableFunc(pods, compareForEviction)
		if !p.separate(c, pods) {
			return
		}
	}
}

// separate goes through the pods of one node and reports whether the pass is to go on.
func (p *pass) separate(c *crowd, pods []*Pod) bool {
	for _, pod := range pods {
		other := c.conflict(pod)
		if other == nil {
			continue
		}
		switch p.try(pod, "repels "+other.Key()+" on node "+other.NodeName) {
		case Accepted:
			c.gone[pod] = true
		case NodeDone:
			return true
		case Done:
			return false
		}
	}
	return true
}

func (c *crowd) add(pod *Pod) {
	if c.kinds[pod.Namespace] == nil {
		c.kinds[pod.Namespace] = map[*state.Kind][]*Pod{}
	}
	c.kinds[pod.Namespace][pod.Kind] = append(c.kinds[pod.Namespace][pod.Kind], pod)
}

// conflict returns a pod that a required term of pod speaks of, in the same domain; of
// several the first by namespace and name.
func (c *crowd) conflict(pod *Pod) *Pod {
	for _, r := range c.repelledBy(pod) {
		at := placeOf(pod.Node, r.key)
		r.in[at] = slices.DeleteFunc(r.in[at], func(o *Pod) bool { return c.gone[o] })
		for _, o := range r.in[at] {
			if c.distinct(pod, o) {
				return o
			}
		}
	}
	return nil
}

// repelledBy is shared by the pods of a template.
func (c *crowd) repelledBy(pod *Pod) []*repelled {
	list, known := c.repelled[pod.Template]
	if known {
		return list
	}
	if c.upstream {
		list = c.repelledUpstream(pod)
	} else if pod.Terms != nil {
		for i := range pod.Terms.RequiredAntiAffinity {
			t := &pod.Terms.RequiredAntiAffinity[i]
			list = append(list, c.find(t.TopologyKey, c.namespaces(t), t.Selector))
		}
	}
	c.repelled[pod.Template] = list
	return list
}

// repelledUpstream ends at a term that cannot be read.
func (c *crowd) repelledUpstream(pod *Pod) []*repelled {
	var list []*repelled
	for _, t := range c.view.antiAffinity(pod) {
		if t.err != nil {
			break
		}
		list = append(list, c.find(t.key, t.namespaces, t.selector))
	}
	return list
}

// namespaces lists those that a term means, by name or by their labels.
func (c *crowd) namespaces(t *state.AffinityTerm) []string {
	var meant []string
	for name := range c.kinds {
		set, _ := c.view.namespaceLabels(name)
		if t.MatchesNamespace(name, set) {
			meant = append(meant, name)
		}
	}
	return meant
}

func (c *crowd) find(key string, namespaces []string, selector labels.Selector) *repelled {
	r := &repelled{key: key, in: map[place][]*Pod{}}
	for _, ns := range slices.Compact(slices.Sorted(slices.Values(namespaces))) {
		for kind, pods := range c.kinds[ns] {
			if !selector.Matches(labels.Set(kind.Labels)) {
				continue
			}
			for _, pod := range pods {
				at := placeOf(pod.Node, key)
				r.in[at] = append(r.in[at], pod)
			}
		}
	}
	for _, pods := range r.in {
		slices.SortFunc(pods, func(a, b *Pod) int {
			return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
		})
	}
	return r
}

// distinct: to upstream, pods of one name are the same pod, whatever their namespaces.
func (c *crowd) distinct(pod, o *Pod) bool {
	if c.upstream {
		return pod.Name != o.Name
	}
	return pod != o
}

// compareForEviction orders pods of a node by how readily they go: low priority first (none
// before any), then by quality of service, BestEffort first, then those that would rather
// stay. (Upstream SortPodsBasedOnPriorityLowToHigh, whose order of equals is none.)
func compareForEviction(a, b *Pod) int {
	pa, oka := a.priority()
	pb, okb := b.priority()
	return cmp.Or(
		compareBool(oka, okb),
		cmp.Compare(pa, pb),
		cmp.Compare(a.quality(), b.quality()),
		compareBool(a.Reluctant, b.Reluctant),
	)
}

// compareBool puts false first.
func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	default:
		return 1
	}
}

// qualities in the order in which they go.
var qualities = []corev1.PodQOSClass{corev1.PodQOSBestEffort, corev1.PodQOSBurstable, corev1.PodQOSGuaranteed}

// quality is the rank of the pod's quality of service.
func (p *Pod) quality() int {
	class := p.Status().QOSClass
	if class == "" {
		class = qualityOf(p.spec())
	}
	return slices.Index(qualities, class)
}
