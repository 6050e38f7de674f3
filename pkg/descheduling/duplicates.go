package descheduling

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/berth-scheduler/berth/pkg/descheduling/policy"
)

// ownerKey is one owner with the images of its pods, joined in one string: pods of one owner that run other images
// do something else.
type ownerKey struct {
	namespace, kind, name, images string
}

func compareOwners(a, b ownerKey) int {
	return cmp.Or(cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.kind, b.kind),
		cmp.Compare(a.name, b.name), cmp.Compare(a.images, b.images))
}

// ownerSet holds the owners of the pods of one template.
type ownerSet struct {
	owners []ownerKey
	// duplicateKey identifies duplicates: two pods on a node are duplicates if it is equal.
	duplicateKey string
}

// copies holds the pods of one owner that run the same images.
type copies struct {
	// count is the number of all of them, extra holds those on a node in addition to the first one there, and on is
	// how many are on each node.
	count int
	extra map[*Node][]*Pod
	on    map[*Node]int
	// first is one of them; targets is how many nodes can take some, once weighed is set.
	first   *Pod
	targets int
	counted bool
}

// duplicateIndex holds the pods of all owners, by owner. It is the strategy's concern too, and follows the moves of
// all strategies.
type duplicateIndex struct {
	*pass
	found     map[ownerKey]*copies
	ownerSets map[*corev1.Pod]*ownerSet
	// eligible holds the nodes that can take pods with a placementKey.
	eligible map[string][]*Node
}

// duplicates implements RemoveDuplicates: pods of one owner are spread evenly over the nodes that could take them,
// resources aside.
func (p *pass) duplicates(args *policy.Duplicates) {
	c, ok := p.concerns[args].(*duplicateIndex)
	if !ok {
		c = p.newDuplicateIndex(args)
	}
	p.leftOut = c.leftOut
	for _, owner := range slices.SortedFunc(maps.Keys(c.found), compareOwners) {
		copies := c.found[owner]
		if len(copies.extra) == 0 {
			continue
		}
		most, ok := c.fairShare(copies)
		if !ok {
			continue
		}
		for _, n := range p.view.selected {
			// The first pod on the node is not among the extra ones.
			if len(copies.extra[n])+1 <= most {
				continue
			}
			reason := fmt.Sprintf("one of %d pods of %s %s on node %s, of which each of %d nodes should have at most %d",
				len(copies.extra[n])+1, owner.kind, owner.name, n.Name, copies.targets, most)
			if !p.evictCopies(copies, copies.extra[n][most-1:], most, reason) {
				return
			}
		}
	}
}

// evictCopies offers copies on one node, for which nodes with fewer than most are better, and reports whether the pass
// should continue.
func (p *pass) evictCopies(c *copies, pods []*Pod, most int, reason string) bool {
	better := func(to string) bool { return c.on[p.view.byName[to]] < most }
	for _, pod := range pods {
		if c.on[pod.Node] <= most {
			return true // other strategies have moved some
		}
		switch verdict, _ := p.propose(Candidate{Pod: pod, Reason: reason, Better: better}); verdict {
		case NodeDone:
			return true
		case Done:
			return false
		}
	}
	return true
}

func (p *pass) newDuplicateIndex(args *policy.Duplicates) *duplicateIndex {
	c := &duplicateIndex{
		pass: p, found: map[ownerKey]*copies{}, ownerSets: map[*corev1.Pod]*ownerSet{}, eligible: map[string][]*Node{},
	}
	for _, n := range p.view.selected {
		seen := map[string]bool{}
		for _, pod := range n.Pods {
			if pod.Terminal || len(pod.Template.OwnerReferences) == 0 || !args.Namespaces.Has(pod.Namespace) ||
				ownedBy(pod.Template.OwnerReferences, args.ExcludeOwnerKinds) || p.leaveOut(p.guard.refuse(pod)) {
				continue
			}
			f := c.ownerSetOf(pod)
			for _, owner := range f.owners {
				c.count(owner, pod, seen[f.duplicateKey])
			}
			seen[f.duplicateKey] = true
		}
	}
	return c
}

func (c *duplicateIndex) ownerSetOf(pod *Pod) *ownerSet {
	f := c.ownerSets[pod.Template]
	if f == nil {
		f = newOwnerSet(pod.Template)
		c.ownerSets[pod.Template] = f
	}
	return f
}

// ownersOf returns the owners of a counted pod; none for other pods.
func (c *duplicateIndex) ownersOf(pod *Pod) []ownerKey {
	if f := c.ownerSets[pod.Template]; f != nil {
		return f.owners
	}
	return nil
}

func (c *duplicateIndex) count(owner ownerKey, pod *Pod, again bool) {
	of := c.found[owner]
	if of == nil {
		of = &copies{extra: map[*Node][]*Pod{}, on: map[*Node]int{}, first: pod}
		c.found[owner] = of
	}
	of.count++
	of.on[pod.Node]++
	if again {
		of.extra[pod.Node] = append(of.extra[pod.Node], pod)
	}
}

// fairShare returns how many of the copies each node should have at most; ok is false if there are not two nodes to
// spread them over.
func (c *duplicateIndex) fairShare(of *copies) (most int, ok bool) {
	if !of.counted {
		pods := of.extra
		if len(pods) == 0 {
			pods = map[*Node][]*Pod{of.first.Node: {of.first}}
		}
		of.targets, of.counted = c.countTargets(pods, c.eligible), true
	}
	if of.targets < 2 {
		return 0, false
	}
	return (of.count + of.targets - 1) / of.targets, true
}

// newOwnerSet builds the set of a template: one key per owner reference, with the images of the pod's containers.
func newOwnerSet(obj *corev1.Pod) *ownerSet {
	images := make([]string, 0, len(obj.Spec.Containers))
	for i := range obj.Spec.Containers {
		images = append(images, obj.Spec.Containers[i].Image)
	}
	slices.Sort(images)
	f, all := &ownerSet{}, strings.Join(images, "#")
	for _, o := range obj.OwnerReferences {
		f.owners = append(f.owners, ownerKey{obj.Namespace, o.Kind, o.Name, all})
	}
	// Two references to one owner count twice, as they do upstream.
	alike := slices.SortedFunc(slices.Values(f.owners), compareOwners)
	f.duplicateKey = fmt.Sprint(alike)
	return f
}

// countTargets counts the nodes that can take at least one sort of the pods; a sort that only one node can take cannot
// be spread and adds none.
func (p *pass) countTargets(extra map[*Node][]*Pod, eligible map[string][]*Node) int {
	seen, all := map[*corev1.Pod]bool{}, map[*Node]bool{}
	sorts := map[string]bool{}
	for _, pods := range extra {
		for _, pod := range pods {
			if seen[pod.Template] {
				continue
			}
			seen[pod.Template] = true
			key := placementKey(pod.spec())
			if sorts[key] {
				continue
			}
			sorts[key] = true
			nodes, known := eligible[key]
			if !known {
				nodes = p.eligible(pod)
				eligible[key] = nodes
			}
			if len(nodes) < 2 {
				continue
			}
			for _, n := range nodes {
				all[n] = true
			}
		}
	}
	return len(all)
}

// eligible lists the selected nodes whose taints the pod tolerates and whose labels it requires; requirements that
// cannot be parsed exclude no node.
func (p *pass) eligible(pod *Pod) []*Node {
	required := nodeaffinity.GetRequiredNodeAffinity(pod.Template)
	var nodes []*Node
	for _, n := range p.view.selected {
		match, err := required.Match(n.Object)
		if toleratesHard(pod, n) && (match || err != nil) {
			nodes = append(nodes, n)
		}
	}
	return nodes
}

// accepts reports whether the node would not have more than its share of the owner's pods.
func (c *duplicateIndex) accepts(pod *Pod, to *Node) bool {
	for _, owner := range c.ownersOf(pod) {
		copies := c.found[owner]
		if copies == nil || copies.on[pod.Node] == 0 {
			continue
		}
		if most, ok := c.fairShare(copies); ok && copies.on[to] >= most {
			return false
		}
	}
	return true
}

// soft is false: evicting a duplicate gains nothing if its replacement becomes one.
func (c *duplicateIndex) soft() bool { return false }

func (c *duplicateIndex) moved(pod *Pod, to *Node) {
	for _, owner := range c.ownersOf(pod) {
		if copies := c.found[owner]; copies != nil {
			copies.on[pod.Node]--
			copies.on[to]++
		}
	}
}
