package descheduling

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/descheduling/policy"
)

// concern is what a strategy minds about where replacements land, whoever moves them. Without
// it one strategy makes the work of another, and pods move twice. Upstream has none.
type concern interface {
	// welcomes reports whether the strategy would be content with the pod's replacement on a
	// node that is looked at.
	welcomes(pod *Pod, to *Node) bool
	// moved tells of a pod that leaves its node for another.
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

// concern of a strategy; nil if it has none, or cannot know.
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

// content adds to what a strategy says of a node what the others say. Crowds are always
// minded; that a node becomes full is better than a rule that stays broken.
func (r *run) content(c Candidate) Candidate {
	if c.Better == nil || len(r.concerns) == 0 {
		return c
	}
	better := c.Better
	c.Better = func(name string) bool { return better(name) && r.welcome(c.Pod, name, false) }
	c.Best = func(name string) bool { return r.welcome(c.Pod, name, true) }
	return c
}

// welcome asks the concerns about crowds, or those about levels.
func (r *run) welcome(pod *Pod, name string, level bool) bool {
	to := r.view.byName[name]
	return to == nil || !slices.ContainsFunc(r.order, func(a policy.Args) bool {
		c := r.concerns[a]
		_, isLevel := c.(*levels)
		return isLevel == level && !c.welcomes(pod, to)
	})
}

// moved tells all concerns of a landing, if it is known.
func (r *run) moved(pod *Pod, landing string) {
	to := r.view.byName[landing]
	if to == nil || to == pod.Node {
		return
	}
	for _, c := range r.concerns {
		c.moved(pod, to)
	}
}

// welcomes: the node would not have more of the owner's pods than its share.
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

// levels is how full nodes are, to LowNodeUtilization.
type levels struct {
	meter
	all    []*bearing
	byNode map[*Node]*bearing
}

func (p *pass) levels(args *policy.LowUtilization) (*levels, error) {
	l := &levels{meter: p.meterOf(args), byNode: map[*Node]*bearing{}}
	all, err := p.weigh(&l.meter)
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

// copied are the bearings as they are now.
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

// welcomes: the node does not become fuller than it may.
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

// takes: with a pod of another node it has no more than it may, or at least less, for its size,
// than that node has now.
func (n *bearing) takes(from *bearing, used amounts, names []corev1.ResourceName) bool {
	return !slices.ContainsFunc(names, func(name corev1.ResourceName) bool {
		after := n.used[name] + used.of(name)
		return after > n.cap[name] && !relieves(after, n.cap[name], from.used[name], from.cap[name])
	})
}

// relieves: what is after of a limit is less than what is before of another.
func relieves(after, limit, before, other int64) bool {
	return float64(after)*float64(other) < float64(before)*float64(limit)
}
