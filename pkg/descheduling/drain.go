package descheduling

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// drain is one strategy that evicts pods from some nodes so that they land on others. (Upstream
// pkg/framework/plugins/nodeutilization evictPodsFromSourceNodes.)
//
// It stops at a node when that has no excess any more, and altogether when some resource has no room left on the
// target nodes together. Both are estimates by the meter: whether one node takes the pod is decided by the landing
// search.
type drain struct {
	*meter
	// from is processed in order; to are the nodes with room for what is evicted; others are nodes that may take
	// some of it as well.
	from, to, others []*nodeUsage
	// exclude holds the namespaces whose pods stay.
	exclude []string
	// perNode is the largest number of pods to evict from a node; nil means no limit.
	perNode *uint
	// hasExcess reports whether more should be evicted from a node.
	hasExcess func(*nodeUsage) bool
	// picks reports whether the strategy would evict a pod.
	picks  func(*Pod) bool
	reason func(*nodeUsage) string

	// room is the room left on the nodes of to together; taints holds their distinct sets of taints; byName holds
	// them and the others.
	room   amounts
	taints [][]corev1.Taint
	byName map[string]*nodeUsage
}

// drain computes the room of the target nodes once, and then processes the source nodes in order. Protected pods
// are left out before the rest is sorted.
func (p *pass) drain(d *drain) {
	d.room, d.byName = amounts{}, make(map[string]*nodeUsage, len(d.to))
	for _, n := range slices.Concat(d.to, d.others) {
		d.byName[n.Name] = n
	}
	for _, n := range d.to {
		for _, name := range d.names {
			d.room[name] += n.cap[name] - n.used[name]
		}
		same := func(t []corev1.Taint) bool {
			return slices.EqualFunc(t, n.Object.Spec.Taints, func(a, b corev1.Taint) bool {
				return a.Key == b.Key && a.Value == b.Value && a.Effect == b.Effect
			})
		}
		if !slices.ContainsFunc(d.taints, same) {
			d.taints = append(d.taints, n.Object.Spec.Taints)
		}
	}
	for _, n := range d.from {
		if !p.Upstream {
			d.discount(n)
		}
		if !d.shouldContinue(n) {
			continue
		}
		pods := selectPods(n.Pods, func(pod *Pod) bool {
			return !pod.Terminal && d.picks(pod) && !p.protects(pod)
		})
		slices.SortStableFunc(pods, compareForEviction)
		if !p.drainNode(d, n, pods) {
			return
		}
	}
}

// discount subtracts the terminating pods of a node, which leave anyway. Upstream counts them until they are gone,
// and evicts others in the meantime.
func (d *drain) discount(n *nodeUsage) {
	for _, pod := range n.Pods {
		if used, known := d.pod(pod); known && d.counted && pod.Deleting && !pod.Terminal {
			d.subtract(n, used)
		}
	}
}

// drainNode reports whether the next nodes should be processed.
func (p *pass) drainNode(d *drain, n *nodeUsage, pods []*Pod) bool {
	taken := uint(0)
	for _, pod := range pods {
		if d.perNode != nil && taken >= *d.perNode {
			return true
		}
		used, known := d.pod(pod)
		if !known || slices.Contains(d.exclude, pod.Namespace) || !d.anyTolerated(pod, p.Upstream) {
			continue
		}
		verdict, landing := p.propose(Candidate{Pod: pod, Reason: d.reason(n), Better: d.better(n, used)})
		switch verdict {
		case Done:
			return false
		case NodeDone:
			return true
		case Kept:
			continue
		}
		taken++
		if !d.counted {
			// The effect of the eviction is unknown: evict one at a time, unless configured otherwise.
			if d.perNode == nil {
				return true
			}
			continue
		}
		d.subtract(n, used)
		d.add(landing, used)
		if !d.shouldContinue(n) {
			return true
		}
	}
	return true
}

// better accepts one of the nodes with room, or of the others, if it can take the pod.
func (d *drain) better(from *nodeUsage, used amounts) func(string) bool {
	return func(node string) bool {
		n, ok := d.byName[node]
		return ok && (!d.counted || n.takes(from, used, d.names))
	}
}

// add adds the usage of a pod to the node on which it lands.
func (d *drain) add(landing string, used amounts) {
	n, ok := d.byName[landing]
	if !ok {
		return
	}
	for _, name := range d.names {
		n.used[name] += used.of(name)
	}
}

// shouldContinue reports whether the node has too much, and every resource still has room on the other nodes.
func (d *drain) shouldContinue(n *nodeUsage) bool {
	if !d.hasExcess(n) {
		return false
	}
	return !slices.ContainsFunc(d.names, func(name corev1.ResourceName) bool { return d.room[name] <= 0 })
}

// subtract takes the usage of a pod from its node, and from the room of the targets.
func (d *drain) subtract(n *nodeUsage, used amounts) {
	for _, name := range d.names {
		n.used[name] -= used.of(name)
		d.room[name] -= used.of(name)
	}
}

// anyTolerated reports whether the pod tolerates the taints of one of the nodes with room. Upstream considers taints of
// every effect, and requires at least as many tolerations as taints.
func (d *drain) anyTolerated(pod *Pod, upstream bool) bool {
	tolerations := pod.spec().Tolerations
	return slices.ContainsFunc(d.taints, func(taints []corev1.Taint) bool {
		if upstream && len(tolerations) < len(taints) {
			return false
		}
		return tolerates(tolerations, taints, func(t *corev1.Taint) bool {
			return upstream || t.Effect != corev1.TaintEffectPreferNoSchedule
		})
	})
}
