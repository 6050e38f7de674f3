package decide

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/services/descheduler/policy"
)

// minNodes is the least number of nodes for which a cycle makes sense: with one, there is
// nowhere else to go (upstream skips the cycle, too).
const minNodes = 2

// Input is everything a cycle depends on.
type Input struct {
	Cluster *state.Snapshot
	Policy  *policy.Policy
	// Memory of earlier asks; read only.
	Memory Memory
	// Placement finds the rules by which a pod of this scheduler would be placed (nodeFit).
	Placement func(schedulerName string) *placement.Profile
	// Actor is the member that asks.
	Actor string
	// Now is compared with the times in Memory, and with pods' start times (minPodAge).
	Now time.Time
}

// Eviction is one pod to evict.
type Eviction struct {
	// Profile of the policy whose strategy picked the pod.
	Profile  string
	Decision events.Decision
}

// Refused says that a pod, picked by a strategy of a profile, is kept.
type Refused struct {
	Profile, Strategy, Namespace, Node string
	Reason                             Refusal
}

// Outcome is what a cycle decided.
type Outcome struct {
	// Evict in the order in which to ask.
	Evict []Eviction
	// Refused counts the pods kept, by who picked them and why.
	Refused map[Refused]int
	// Nodes is how many were looked at, Picked how many pods the strategies picked.
	Nodes, Picked int
	// Skipped says why there was no cycle, or is empty.
	Skipped string
}

// Cycle runs every strategy of every profile once.
func Cycle(in Input) Outcome {
	c := &cycle{
		Input:        in,
		out:          Outcome{Refused: map[Refused]int{}},
		asked:        map[string]bool{},
		perNode:      map[string]uint{},
		perNamespace: map[string]uint{},
	}
	nodes := c.nodes()
	c.out.Nodes = len(nodes)
	if len(nodes) < minNodes {
		c.out.Skipped = fmt.Sprintf("%d ready nodes match the policy, at least %d are needed", len(nodes), minNodes)
		return c.out
	}
	for i := range in.Policy.Profiles {
		p := &in.Policy.Profiles[i]
		g := c.newGuard(&p.Evictor)
		for _, s := range p.Deschedule {
			c.run(pass{profile: p.Name, strategy: s, guard: g}, nodes)
		}
	}
	return c.out
}

// cycle is one Cycle under way.
type cycle struct {
	Input
	out Outcome
	// asked holds the UIDs of pods in out.Evict.
	asked                 map[string]bool
	perNode, perNamespace map[string]uint
	total                 uint
	// owners and world are made when first needed.
	owners map[string]uint
	world  *world
}

// pass is one strategy of one profile.
type pass struct {
	profile  string
	strategy policy.Strategy
	guard    *guard
}

// nodes lists the nodes whose pods are looked at, by name: those that match the policy's
// selector and are ready. Cordoned ones count.
func (c *cycle) nodes() []*state.Node {
	var nodes []*state.Node
	for n := range c.Cluster.Nodes() {
		if ready(n.Object) && c.Policy.Nodes.Matches(labels.Set(n.Object.Labels)) {
			nodes = append(nodes, n)
		}
	}
	return nodes
}

// ready: a node that makes no statement counts as ready (upstream's nodeutil.IsReady).
func ready(n *corev1.Node) bool {
	return !slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status != corev1.ConditionTrue
	})
}

// run stops a node when its limit is reached, and everything when the total is: later pods
// could not be asked for either.
func (c *cycle) run(p pass, nodes []*state.Node) {
	for _, n := range nodes {
		if c.runOn(p, n) == TotalLimit {
			return
		}
	}
}

// runOn returns the limit that ended the node, or nothing.
func (c *cycle) runOn(p pass, n *state.Node) Refusal {
	for _, pod := range c.podsOn(n) {
		why, picked := violation(p.strategy, pod, n)
		if !picked {
			continue
		}
		c.out.Picked++
		r := c.try(p, pod, n, why)
		if r != "" {
			c.refuse(p, pod, r)
		}
		if r == NodeLimit || r == TotalLimit {
			return r
		}
	}
	return ""
}

// podsOn lists the pods that run on a node, those of low priority first.
func (c *cycle) podsOn(n *state.Node) []*state.Pod {
	var pods []*state.Pod
	for p := range c.Cluster.PodsOnNode(n.Name) {
		if !p.Terminal {
			pods = append(pods, p)
		}
	}
	slices.SortFunc(pods, func(a, b *state.Pod) int {
		return cmp.Or(
			cmp.Compare(a.Priority, b.Priority),
			cmp.Compare(a.Namespace, b.Namespace),
			cmp.Compare(a.Name, b.Name),
			cmp.Compare(a.UID, b.UID),
		)
	})
	return pods
}

func (c *cycle) refuse(p pass, pod *state.Pod, r Refusal) {
	c.out.Refused[Refused{
		Profile: p.profile, Strategy: p.strategy.Name, Namespace: pod.Namespace, Node: pod.NodeName, Reason: r,
	}]++
}

// try asks for one pod unless something stands against it. What is cheap to know comes
// first; a place on another node is looked for, and taken, last.
func (c *cycle) try(p pass, pod *state.Pod, n *state.Node, why string) Refusal {
	if r := p.guard.refuse(pod); r != "" {
		return r
	}
	if c.asked[pod.UID] {
		return AskedNow
	}
	if r := c.Memory.refuse(pod.UID, c.Now); r != "" {
		return r
	}
	if r := c.limit(pod); r != "" {
		return r
	}
	if !p.guard.fits(pod) {
		return FitsNowhere
	}
	c.asked[pod.UID] = true
	c.perNode[pod.NodeName]++
	c.perNamespace[pod.Namespace]++
	c.total++
	c.out.Evict = append(c.out.Evict, Eviction{Profile: p.profile, Decision: c.decision(p, pod, n, why)})
	return ""
}

// limit checks total, node and namespace, in upstream's order.
func (c *cycle) limit(pod *state.Pod) Refusal {
	reached := func(limit *uint, used uint) bool { return limit != nil && used >= *limit }
	switch l := c.Policy.Limits; {
	case reached(l.Total, c.total):
		return TotalLimit
	case reached(l.PerNode, c.perNode[pod.NodeName]):
		return NodeLimit
	case reached(l.PerNamespace, c.perNamespace[pod.Namespace]):
		return NamespaceLimit
	default:
		return ""
	}
}

func (c *cycle) decision(p pass, pod *state.Pod, n *state.Node, why string) events.Decision {
	attempt := c.Memory.next(pod.UID)
	return events.Decision{
		Kind:               events.DecisionEvict,
		Pod:                events.PodRef{UID: pod.UID, Namespace: pod.Namespace, Name: pod.Name},
		SchedulerName:      pod.SchedulerName,
		Actor:              c.Actor,
		Attempt:            attempt,
		Token:              token(pod.UID, attempt).String(),
		FactSequence:       c.Cluster.Position().Sequence,
		PodResourceVersion: pod.ResourceVersion,
		NodeUID:            n.UID,
		NodeName:           n.Name,
		Message:            fmt.Sprintf("triggered by %s/%s: %s", p.profile, p.strategy.Name, why),
		Strategy:           p.strategy.Name,
		GracePeriodSeconds: c.Policy.GracePeriodSeconds,
	}
}
