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
	// upstream reads terms in upstream's way.
	upstream bool
}

// interPodAntiAffinity is RemovePodsViolatingInterPodAntiAffinity. It takes the pod that has
// the term; once it is accepted, its counterpart may stay.
func (p *pass) interPodAntiAffinity(args *policy.InterPodAntiAffinity) {
	c := &crowd{view: p.view, kinds: map[string]map[*state.Kind][]*Pod{}, upstream: p.Upstream}
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
			c.remove(pod)
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

func (c *crowd) remove(pod *Pod) {
	of := c.kinds[pod.Namespace]
	of[pod.Kind] = slices.DeleteFunc(of[pod.Kind], func(o *Pod) bool { return o == pod })
}

// conflict returns a pod that a required term of pod speaks of, in the same domain; of
// several the first by namespace and name.
func (c *crowd) conflict(pod *Pod) *Pod {
	if c.upstream {
		for _, t := range c.view.antiAffinity(pod) {
			if t.err != nil {
				return nil
			}
			found := c.find(pod, t.key, t.namespaces, func(k *state.Kind) bool {
				return t.selector.Matches(labels.Set(k.Labels))
			})
			if found != nil {
				return found
			}
		}
		return nil
	}
	if pod.Terms == nil {
		return nil
	}
	for i := range pod.Terms.RequiredAntiAffinity {
		t := &pod.Terms.RequiredAntiAffinity[i]
		found := c.find(pod, t.TopologyKey, c.namespaces(t), func(k *state.Kind) bool {
			return t.Selector.Matches(labels.Set(k.Labels))
		})
		if found != nil {
			return found
		}
	}
	return nil
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
	slices.Sort(meant)
	return meant
}

func (c *crowd) find(pod *Pod, key string, namespaces []string, speaksOf func(*state.Kind) bool) *Pod {
	var found *Pod
	for _, ns := range namespaces {
		for kind, pods := range c.kinds[ns] {
			if !speaksOf(kind) {
				continue
			}
			found = c.earliest(pod, key, pods, found)
		}
	}
	return found
}

// earliest returns the first of pods and found, by namespace and name, in the domain of pod.
func (c *crowd) earliest(pod *Pod, key string, pods []*Pod, found *Pod) *Pod {
	for _, o := range pods {
		if c.distinct(pod, o) && sameDomain(pod.Node, o.Node, key) && before(o, found) {
			found = o
		}
	}
	return found
}

func before(o, found *Pod) bool {
	return found == nil || cmp.Or(cmp.Compare(o.Namespace, found.Namespace), cmp.Compare(o.Name, found.Name)) < 0
}

// distinct: to upstream, pods of one name are the same pod, whatever their namespaces.
func (c *crowd) distinct(pod, o *Pod) bool {
	if c.upstream {
		return pod.Name != o.Name
	}
	return pod != o
}

// sameDomain: a node shares every domain with itself, whether it has the label or not.
func sameDomain(a, b *Node, key string) bool {
	if a == b {
		return true
	}
	va, ok := a.Object.Labels[key]
	if !ok {
		return false
	}
	vb, ok := b.Object.Labels[key]
	return ok && va == vb
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
