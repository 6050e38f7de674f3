package descheduling

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/descheduling/policy"
)

// concern is a strategy's restriction on where replacements land, whichever strategy moves the pods. Without it,
// one strategy creates work for another, and pods move twice. Upstream has none.
type concern interface {
	// welcomes reports whether the strategy would accept the pod's replacement on one of the selected nodes.
	welcomes(pod *Pod, to *Node) bool
	// moved records that a pod leaves its node for another.
	moved(pod *Pod, to *Node)
}

// concerned collects the concerns of all profiles.
func (r *run) concerned(guards []*Guard) {
	for i, profile := range r.Policy.Profiles {
		for _, s := range profile.Balance {
			p := &pass{run: r, profile: profile.Name, strategy: s.Name, guard: guards[i]}
			if c := p.concern(s.Args); c != nil {
				r.concerns[s.Args] = c
				r.order = append(r.order, s.Args)
			}
		}
	}
}

// concern returns the concern of a strategy; nil if it has none, or cannot determine it.
func (p *pass) concern(args policy.Args) concern {
	switch args := args.(type) {
	case *policy.Duplicates:
		return p.crowding(args)
	case *policy.LowUtilization:
		if l, err := p.levels(args); err == nil {
			return l
		}
	}
	return nil
}

// content adds the concerns of the other strategies to a strategy's judgement of a node. Concerns about crowds
// always count; a node that becomes too full is preferable to a rule that stays broken.
func (r *run) content(c Candidate) Candidate {
	if c.Better == nil || len(r.concerns) == 0 {
		return c
	}
	better := c.Better
	c.Better = func(name string) bool { return better(name) && r.welcome(c.Pod, name, false) }
	c.Best = func(name string) bool { return r.welcome(c.Pod, name, true) }
	return c
}

// welcome evaluates the concerns about crowds, or those about levels.
func (r *run) welcome(pod *Pod, name string, level bool) bool {
	to := r.view.byName[name]
	return to == nil || !slices.ContainsFunc(r.order, func(a policy.Args) bool {
		c := r.concerns[a]
		_, isLevel := c.(*levels)
		return isLevel == level && !c.welcomes(pod, to)
	})
}

// moved reports a landing, if it is known, to all concerns.
func (r *run) moved(pod *Pod, landing string) {
	to := r.view.byName[landing]
	if to == nil || to == pod.Node {
		return
	}
	for _, c := range r.concerns {
		c.moved(pod, to)
	}
}

// welcomes reports whether the node would not have more than its share of the owner's pods.
func (c *crowding) welcomes(pod *Pod, to *Node) bool {
	for _, owner := range c.ownersOf(pod) {
		copies := c.found[owner]
		if copies == nil || copies.on[pod.Node] == 0 {
			continue
		}
		if most, ok := c.share(copies); ok && copies.on[to] >= most {
			return false
		}
	}
	return true
}

func (c *crowding) moved(pod *Pod, to *Node) {
	for _, owner := range c.ownersOf(pod) {
		if copies := c.found[owner]; copies != nil {
			copies.on[pod.Node]--
			copies.on[to]++
		}
	}
}

// levels is how full nodes are, as LowNodeUtilization measures it.
type levels struct {
	meter
	all    []*bearing
	byNode map[*Node]*bearing
}

func (p *pass) levels(args *policy.LowUtilization) (*levels, error) {
	l := &levels{meter: p.meters().of(args), byNode: map[*Node]*bearing{}}
	all, err := p.meters().weigh(&l.meter)
	if err != nil {
		return nil, err
	}
	l.all = all
	high := args.Targets
	if args.Deviation {
		_, high = deviations(all, args.Thresholds, high)
	}
	for _, n := range all {
		n.limit(l.names, high)
		l.byNode[n.Node] = n
	}
	return l, nil
}

// copied returns copies of the bearings in their current state.
func (l *levels) copied() []*bearing {
	all := make([]*bearing, 0, len(l.all))
	for _, n := range l.all {
		c := &bearing{Node: n.Node, used: amounts{}}
		for name, amount := range n.used {
			c.used[name] = amount
		}
		c.gauge()
		all = append(all, c)
	}
	return all
}

// welcomes reports whether the node does not become fuller than allowed.
func (l *levels) welcomes(pod *Pod, to *Node) bool {
	at := l.byNode[to]
	used, known := l.pod(pod)
	return at == nil || !known || !l.counted || !slices.ContainsFunc(l.names, func(name corev1.ResourceName) bool {
		return at.used[name]+used.of(name) > at.cap[name]
	})
}

func (l *levels) moved(pod *Pod, to *Node) {
	used, known := l.pod(pod)
	if !known || !l.counted {
		return
	}
	for n, sign := range map[*bearing]int64{l.byNode[pod.Node]: -1, l.byNode[to]: 1} {
		if n == nil {
			continue
		}
		for _, name := range l.names {
			n.used[name] += sign * used.of(name)
		}
	}
}

// takes reports whether the node, with a pod of another node, stays within its limit, or at least is less full,
// relative to its size, than that node is now.
func (n *bearing) takes(from *bearing, used amounts, names []corev1.ResourceName) bool {
	return !slices.ContainsFunc(names, func(name corev1.ResourceName) bool {
		after := n.used[name] + used.of(name)
		return after > n.cap[name] && !relieves(after, n.cap[name], from.used[name], from.cap[name])
	})
}

// relieves reports whether after, relative to limit, is less than before, relative to other.
func relieves(after, limit, before, other int64) bool {
	return float64(after)*float64(other) < float64(before)*float64(limit)
}
