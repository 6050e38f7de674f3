package decide

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/pkg/descheduling"
	"github.com/berth-scheduler/berth/pkg/descheduling/policy"
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/state"
)

// world is the cluster as this cycle would leave it once every replacement runs: all nodes,
// the pods on them, and the replacements that have been given a place. The places of the
// pods asked for are not free yet: an eviction may be refused.
type world struct {
	// nodes by name.
	nodes []*state.NodeInfo
}

func (c *cycle) newWorld() *world {
	w := &world{}
	for n := range c.Cluster.Nodes() {
		info := state.NewNodeInfo(n)
		for p := range c.Cluster.PodsOnNode(n.Name) {
			if p.Occupies() {
				info.AddPod(p)
			}
		}
		w.nodes = append(w.nodes, info)
	}
	return w
}

// fits reports whether another node would take a replacement of the pod, by the rules of the
// pod's own scheduler, and takes the place. Without nodeFit it asks nothing.
func (c *cycle) fits(pod *state.Pod, e *policy.Evictor) bool {
	if !e.WantsNodeFit() {
		return true
	}
	if c.world == nil {
		c.world = c.newWorld()
	}
	if c.unusable[e] == nil {
		c.unusable[e] = c.world.unusable(e.TargetNodes)
	}
	return c.world.place(c.Input, pod, c.unusable[e])
}

// unusable lists the nodes that are not ready or not wanted as targets.
func (w *world) unusable(targets labels.Selector) map[string]string {
	out := map[string]string{}
	for _, n := range w.nodes {
		obj := n.Node.Object
		switch {
		case !descheduling.Ready(obj):
			out[n.Node.UID] = "node(s) not ready"
		case !targets.Matches(labels.Set(obj.Labels)):
			out[n.Node.UID] = "node(s) not selected"
		}
	}
	return out
}

// place changes unusable only while it runs.
func (w *world) place(in Input, pod *state.Pod, unusable map[string]string) bool {
	replacement := replacementOf(pod)
	own, known := in.Cluster.NodeByName(pod.NodeName)
	if known {
		if _, already := unusable[own.UID]; !already {
			unusable[own.UID] = "node(s) to leave"
			defer delete(unusable, own.UID)
		}
	}
	// Seed 0: which of equal nodes is taken does not matter.
	result := in.Placement(pod.SchedulerName).Evaluate(placement.Input{
		Pod: replacement, Nodes: w.nodes, Objects: in.Cluster, Excluded: unusable, Limit: 1,
	})
	if result.Err != nil || len(result.Feasible) == 0 {
		return false
	}
	result.Feasible[0].Node.AddPod(replacement)
	return true
}

// replacementOf is the pod as its owner would create it again: not bound, nothing known
// about how it runs.
func replacementOf(pod *state.Pod) *state.Pod {
	obj := pod.Object()
	obj.UID = types.UID("replacement-of-" + pod.UID)
	obj.Spec.NodeName = ""
	obj.Status = corev1.PodStatus{}
	return state.NewPod(obj)
}
