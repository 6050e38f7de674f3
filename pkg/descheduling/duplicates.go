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

// ownerKey is one owner with the images of its pods, in one string each: pods of one owner
// that run other images do something else.
type ownerKey struct {
	namespace, kind, name, images string
}

func compareOwners(a, b ownerKey) int {
	return cmp.Or(cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.kind, b.kind),
		cmp.Compare(a.name, b.name), cmp.Compare(a.images, b.images))
}

// family is what RemoveDuplicates knows of the pods of one template.
type family struct {
	owners []ownerKey
	// alike: two pods on a node are duplicates when they agree in it.
	alike string
}

// copies are the pods of one owner.
type copies struct {
	// count is all of them, extra those on a node beside the first there, on how many are on
	// each node.
	count int
	extra map[*Node][]*Pod
	on    map[*Node]int
}

// duplicates is RemoveDuplicates: pods of one owner are spread evenly over the nodes that
// would take them, as far as resources are not looked at.
func (p *pass) duplicates(args *policy.Duplicates) {
	found := p.findCopies(args)
	eligible := map[string][]*Node{}
	for _, owner := range slices.SortedFunc(maps.Keys(found), compareOwners) {
		c := found[owner]
		targets := p.targets(c.extra, eligible)
		if targets < 2 {
			continue
		}
		most := (c.count + targets - 1) / targets
		for _, n := range p.view.looked {
			// The first pod on the node is not among the extra ones.
			if len(c.extra[n])+1 <= most {
				continue
			}
			reason := fmt.Sprintf("one of %d pods of %s %s on node %s, of which each of %d nodes should have at most %d",
				len(c.extra[n])+1, owner.kind, owner.name, n.Name, targets, most)
			if !p.thinOut(c, c.extra[n][most-1:], most, reason) {
				return
			}
		}
	}
}

// thinOut offers copies on one node, for which nodes with fewer than most are better, and
// reports whether the pass is to go on.
func (p *pass) thinOut(c *copies, pods []*Pod, most int, reason string) bool {
	better := func(to string) bool { return c.on[p.view.byName[to]] < most }
	for _, pod := range pods {
		verdict, landing := p.propose(Candidate{Pod: pod, Reason: reason, Better: better})
		switch verdict {
		case NodeDone:
			return true
		case Done:
			return false
		case Accepted:
			c.on[pod.Node]--
			c.on[p.view.byName[landing]]++
		}
	}
	return true
}

func (p *pass) findCopies(args *policy.Duplicates) map[ownerKey]*copies {
	families := map[*corev1.Pod]*family{}
	found := map[ownerKey]*copies{}
	for _, n := range p.view.looked {
		seen := map[string]bool{}
		for _, pod := range n.Pods {
			if pod.Terminal || len(pod.Template.OwnerReferences) == 0 || !args.Namespaces.Has(pod.Namespace) ||
				ownedBy(pod.Template.OwnerReferences, args.ExcludeOwnerKinds) || p.guard.refuse(pod) != "" {
				continue
			}
			f := families[pod.Template]
			if f == nil {
				f = familyOf(pod.Template)
				families[pod.Template] = f
			}
			for _, owner := range f.owners {
				count(found, owner, pod, seen[f.alike])
			}
			seen[f.alike] = true
		}
	}
	maps.DeleteFunc(found, func(_ ownerKey, c *copies) bool { return len(c.extra) == 0 })
	return found
}

func count(found map[ownerKey]*copies, owner ownerKey, pod *Pod, again bool) {
	if found[owner] == nil {
		found[owner] = &copies{extra: map[*Node][]*Pod{}, on: map[*Node]int{}}
	}
	c := found[owner]
	c.count++
	c.on[pod.Node]++
	if again {
		c.extra[pod.Node] = append(c.extra[pod.Node], pod)
	}
}

func familyOf(obj *corev1.Pod) *family {
	images := make([]string, 0, len(obj.Spec.Containers))
	for i := range obj.Spec.Containers {
		images = append(images, obj.Spec.Containers[i].Image)
	}
	slices.Sort(images)
	f := &family{}
	for _, o := range obj.OwnerReferences {
		f.owners = append(f.owners, ownerKey{obj.Namespace, o.Kind, o.Name, strings.Join(images, "#")})
	}
	// Two references to one owner count twice, as they do upstream.
	alike := slices.SortedFunc(slices.Values(f.owners), compareOwners)
	f.alike = fmt.Sprint(alike)
	return f
}

// targets counts the nodes that take at least one sort of the pods; a sort that only one
// node takes cannot be spread and adds none.
func (p *pass) targets(extra map[*Node][]*Pod, eligible map[string][]*Node) int {
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
				nodes = p.takers(pod)
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

// takers lists the nodes looked at whose taints the pod tolerates and whose labels it wants;
// wishes that cannot be read are not held against a node.
func (p *pass) takers(pod *Pod) []*Node {
	required := nodeaffinity.GetRequiredNodeAffinity(pod.Template)
	var nodes []*Node
	for _, n := range p.view.looked {
		match, err := required.Match(n.Object)
		if toleratesHard(pod, n) && (match || err != nil) {
			nodes = append(nodes, n)
		}
	}
	return nodes
}

// placementKey is equal for pods that the same nodes take as far as taints, node selector
// and required node affinity go. (Protobuf in Kubernetes writes maps sorted.)
func placementKey(spec *corev1.PodSpec) string {
	only := corev1.PodSpec{Tolerations: spec.Tolerations, NodeSelector: spec.NodeSelector}
	if spec.Affinity != nil && spec.Affinity.NodeAffinity != nil {
		only.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: spec.Affinity.NodeAffinity.
				RequiredDuringSchedulingIgnoredDuringExecution,
		}}
	}
	return only.String()
}
