package plan

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/berth-scheduler/berth/pkg/descheduling"
	"github.com/berth-scheduler/berth/pkg/descheduling/policy"
	"github.com/berth-scheduler/berth/pkg/ledger/view"
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/placement/engine"
	"github.com/berth-scheduler/berth/pkg/state"
)

// futureCluster is the cluster as the scheduler will see it when the replacements of the plan's moves arrive. It
// owns the NodeInfos of Input.Nodes and changes them and the engine together: a change to one alone would make the
// engine's cached results wrong.
type futureCluster struct {
	*Input
	engine *engine.Engine
	byName map[string]*state.NodeInfo
	// variants are created once per template.
	variants map[*corev1.Pod]*podVariants
	// changes counts what was planned; hopeless is the value of changes at which a pod of a template was last found
	// to fit nowhere. Until the next change that is true for all pods of the template.
	changes  int
	hopeless map[*corev1.Pod]int
}

// podVariants holds how pods of one template look in other roles; it is copied for each pod.
type podVariants struct {
	// replacement is the pod as its owner would create it again: not bound, without a status. leaving is the pod
	// while it terminates.
	replacement, terminating *state.Pod
}

// newFutureCluster loads all nodes into an engine of its own. The engine caches results by class of pod, so that
// many candidates of few templates cost little more than one.
func newFutureCluster(in *Input) *futureCluster {
	g := &futureCluster{
		Input: in, engine: engine.New(engine.Config{}), byName: map[string]*state.NodeInfo{},
		variants: map[*corev1.Pod]*podVariants{}, hopeless: map[*corev1.Pod]int{},
	}
	if in.Nodes == nil {
		in.Nodes = nodesOf(in.Cluster)
	}
	g.engine.SetObjects(in.Cluster)
	for _, n := range in.Nodes {
		g.byName[n.Node.Name] = n
		g.engine.SetNode(n)
		g.engine.SetUsable(n, descheduling.Ready(n.Node.Object))
	}
	return g
}

// nodesOf returns the nodes of a cluster with the pods that the snapshot shows there.
func nodesOf(cluster *state.Snapshot) []*state.NodeInfo {
	var all []*state.NodeInfo
	for n := range cluster.Nodes() {
		info := state.NewNodeInfo(n)
		for p := range cluster.PodsOnNode(n.Name) {
			if p.Occupies() {
				info.AddPod(p)
			}
		}
		all = append(all, info)
	}
	return all
}

// findLanding finds the place of a candidate's replacement and occupies it.
//
// The pod is first replaced by its terminating version, which the scheduler will see; then the nodes
// are ranked for the replacement, graded by the strategy, and one is chosen. If none is, the pod is put back, and
// the cluster is as before.
func (g *futureCluster) findLanding(
	c *descheduling.Candidate, e *policy.Evictor,
) (*state.Node, *state.Pod, descheduling.Refusal) {
	pod := c.Pod.Pod
	if at, known := g.hopeless[pod.Template]; known && at == g.changes {
		return nil, nil, descheduling.FitsNowhere
	}
	own := g.byName[pod.NodeName]
	leaving := g.markTerminating(own, pod)
	profile, replacement := g.Placement(pod.SchedulerName), g.replacementOf(pod)
	to, refusal := g.choose(profile, replacement, func(n *state.Node) grade {
		switch {
		case n.Name == pod.NodeName || !e.TargetNodes.Matches(labels.Set(n.Object.Labels)):
			return unfit
		case c.Better != nil && !c.Better(n.Name):
			return fit
		case c.Best != nil && !c.Best(n.Name):
			return better
		default:
			return best
		}
	}, c.Better == nil || g.placeKept(pod))
	if to == nil {
		g.restore(own, pod, leaving)
		return nil, nil, refusal
	}
	to.AddPod(replacement)
	g.engine.ChangePod(to, nil, replacement)
	g.changes++
	return to.Node, replacement, ""
}

// placeKept reports whether a place is kept for the replacement of a pod.
func (g *futureCluster) placeKept(pod *state.Pod) bool {
	_, replaced := view.ReplacementOf(pod)
	return g.Pinned && replaced
}

// grade rates a node that can take a replacement.
type grade uint8

const (
	// unfit: the node is the one to leave, or not a target of the profile.
	unfit grade = iota
	// fit: the strategy that picked the pod gains nothing.
	fit
	// better: the node is better for that strategy; best: it is acceptable for the others too.
	better
	best
)

// choose selects the landing place of a replacement: the first in the scheduler's ranking that is best, or else
// better. The scheduler follows only its ranking: unless the choice is free, because the place is kept or any node
// is acceptable, all nodes that share the first rank must be best.
func (g *futureCluster) choose(
	profile *placement.Profile, replacement *state.Pod, judge func(*state.Node) grade, free bool,
) (*state.NodeInfo, descheduling.Refusal) {
	q := engine.Query{Pod: replacement}
	result := g.engine.Evaluate(profile, q)
	if result.Err != nil || result.FeasibleCount == 0 {
		g.recordHopeless(replacement)
		return nil, descheduling.FitsNowhere
	}
	to, is := first(result.Feasible, judge)
	if is < best && result.FeasibleCount > len(result.Feasible) {
		q.Limit = -1
		result = g.engine.Evaluate(profile, q)
		to, is = first(result.Feasible, judge)
	}
	switch {
	case is == unfit:
		return nil, descheduling.FitsNowhere
	case is == fit:
		return nil, NoBetterPlace
	case free:
		return to, ""
	}
	for _, s := range result.Feasible {
		if s.Total != result.Feasible[0].Total {
			break
		}
		if judge(s.Node.Node) < best {
			return nil, WouldReturn
		}
	}
	return to, ""
}

// recordHopeless records that no pod of the template fits anywhere until something is planned; not for a template
// with spread constraints, for which it matters which domain a pod leaves.
func (g *futureCluster) recordHopeless(replacement *state.Pod) {
	if len(replacement.Template.Spec.TopologySpreadConstraints) == 0 {
		g.hopeless[replacement.Template] = g.changes
	}
}

// first returns the first node of those with the highest grade.
func first(ranked []placement.Scored, judge func(*state.Node) grade) (to *state.NodeInfo, highest grade) {
	for _, s := range ranked {
		if is := judge(s.Node.Node); to == nil || is > highest {
			to, highest = s.Node, is
		}
		if highest == best {
			break
		}
	}
	return to, highest
}

// markTerminating replaces a pod, where it counts, by its terminating version.
func (g *futureCluster) markTerminating(n *state.NodeInfo, pod *state.Pod) (leaving *state.Pod) {
	if n == nil || !pod.Occupies() || !n.RemovePod(pod.UID) {
		return nil
	}
	leaving = g.terminatingOf(pod)
	n.AddPod(leaving)
	g.engine.ChangePod(n, pod, leaving)
	return leaving
}

// restore undoes markTerminating.
func (g *futureCluster) restore(n *state.NodeInfo, pod, leaving *state.Pod) {
	if leaving == nil {
		return
	}
	n.ReplacePod(pod)
	g.engine.ChangePod(n, leaving, pod)
}

// variantsOf returns the variants of a pod's template, built from the first candidate that has the template.
func (g *futureCluster) variantsOf(pod *state.Pod) *podVariants {
	c := g.variants[pod.Template]
	if c == nil {
		obj := pod.Object()
		obj.Spec.NodeName, obj.Status = "", corev1.PodStatus{}
		fresh := state.NewPod(obj)
		obj.DeletionTimestamp = &metav1.Time{Time: g.Now}
		c = &podVariants{replacement: fresh, terminating: state.NewPod(obj)}
		g.variants[pod.Template] = c
	}
	return c
}

// replacementOf returns the pod as its owner would create it again, under a UID that no pod has: the pod itself
// still exists while the place is searched for.
func (g *futureCluster) replacementOf(pod *state.Pod) *state.Pod {
	p := *g.variantsOf(pod).replacement
	p.UID = "replacement-of-" + pod.UID
	return &p
}

// terminatingOf returns the terminating pod; it still uses what the pod uses, which may have been resized.
func (g *futureCluster) terminatingOf(pod *state.Pod) *state.Pod {
	p := *g.variantsOf(pod).terminating
	p.UID = pod.UID
	p.Name = pod.Name
	p.NodeName = pod.NodeName
	p.Requests = pod.Requests
	p.NonZero = pod.NonZero
	p.Ports = pod.Ports
	return &p
}
