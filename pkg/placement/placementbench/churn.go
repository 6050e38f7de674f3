package placementbench

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/berth-scheduler/berth/pkg/state/strip"
)

// NodeEvent is one change of one node. Before is nil for a new node, and After is nil for one that was removed
// together with its pods. After is stripped and belongs to the receiver; Before does not.
type NodeEvent struct{ Before, After *corev1.Node }

// Churn changes nodes one at a time: labels, taints, allocatable amounts, images, cordons; occasionally it
// replaces one by a new one under another name. It is not safe for concurrent use.
type Churn struct {
	workload Workload
	nodes    []*corev1.Node
	// events and added count the past events and additions.
	events, added int
	// missing is the position in nodes that a removed node left, -1 for none. The next addition fills it.
	missing int
}

// NewChurn returns the changes of a cluster with these nodes. It takes ownership of them.
func (w Workload) NewChurn(nodes []*corev1.Node) *Churn {
	return &Churn{workload: w, nodes: nodes, missing: -1}
}

// changes are applied in turn; the last two are a removal and the addition of the replacement. So one event in
// six adds or removes a node, which is more than in most clusters.
var changes = [...]func(c *Churn, n *corev1.Node){
	relabel, toggleTaint, reallocate, pullImage, toggleCordon,
	relabel, toggleTaint, reallocate, pullImage, nil, nil,
}

// Next makes the next event. The node is chosen by a hash of the number of the event.
func (c *Churn) Next() NodeEvent {
	turn := c.events % len(changes)
	at := int(mix(uint64(c.events)) % uint64(len(c.nodes)))
	c.events++
	switch change := changes[turn]; {
	case change != nil:
		before := c.nodes[at]
		// Before must still show the old state.
		after := before.DeepCopy()
		after.ResourceVersion = fmt.Sprint(1<<40 + c.events)
		change(c, after)
		c.nodes[at] = after
		return NodeEvent{Before: before, After: given(after)}
	case c.missing < 0:
		c.missing = at
		return NodeEvent{Before: c.nodes[at]}
	default:
		// In the zone that lost one, so that zones stay even.
		number := replacements*zoneCount + zoneCount*c.added + zoneOf(c.missing)
		c.added++
		after := c.workload.Node(number)
		c.nodes[c.missing] = after
		c.missing = -1
		return NodeEvent{After: given(after)}
	}
}

// given returns a node as the log of facts would deliver it, separate from the copy that later changes are applied
// to.
func given(n *corev1.Node) *corev1.Node {
	n = n.DeepCopy()
	strip.Strip(n)
	return n
}

// replacements times zoneCount is the number of the first node that did not exist at the start.
const replacements = 1 << 18

// relabel changes a label that some pods prefer, and one that no rule reads.
func relabel(c *Churn, n *corev1.Node) {
	n.Labels["example.com/patched"] = fmt.Sprint("at-", c.events)
	if n.Labels[labelDisk] == "ssd" {
		n.Labels[labelDisk] = "hdd"
	} else {
		n.Labels[labelDisk] = "ssd"
	}
}

// toggleTaint adds or removes a PreferNoSchedule taint.
func toggleTaint(_ *Churn, n *corev1.Node) {
	spot := corev1.Taint{Key: taintSpot, Value: "true", Effect: corev1.TaintEffectPreferNoSchedule}
	for i, t := range n.Spec.Taints {
		if t == spot {
			n.Spec.Taints = append(n.Spec.Taints[:i:i], n.Spec.Taints[i+1:]...)
			return
		}
	}
	n.Spec.Taints = append(n.Spec.Taints, spot)
}

// reallocate changes how many processors are reserved for the system, up to four, so that the free amounts of the
// node and with them nearly all scores change.
func reallocate(c *Churn, n *corev1.Node) {
	n.Status.Allocatable[corev1.ResourceCPU] = *resource.NewQuantity(int64(28+c.events%5), resource.DecimalSI)
}

// pullImage adds the image of an app that the node does not have yet, if there is one.
func pullImage(c *Churn, n *corev1.Node) {
	a := &c.workload.apps[c.events%len(c.workload.apps)]
	for _, image := range n.Status.Images {
		for _, name := range image.Names {
			if name == a.image {
				return
			}
		}
	}
	n.Status.Images = append(n.Status.Images, corev1.ContainerImage{
		Names: []string{a.image}, SizeBytes: imageSize(a.index),
	})
}

// toggleCordon cordons a node, or ends that.
func toggleCordon(_ *Churn, n *corev1.Node) { cordon(n, !n.Spec.Unschedulable) }
