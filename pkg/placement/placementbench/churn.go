package placementbench

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/berth-scheduler/berth/pkg/state"
)

// NodeEvent is one change of one node. Before is nil for a new node, After for one that is
// gone, together with the pods on it. After is stripped, and the receiver's to keep; Before
// is not.
type NodeEvent struct{ Before, After *corev1.Node }

// Churn changes nodes one at a time: labels, taints, allocatable amounts, images, cordons,
// and now and then one is replaced by a new one under another name.
type Churn struct {
	workload Workload
	nodes    []*corev1.Node
	// events and added count what there was.
	events, added int
	// missing is the place in nodes that a removed node left, -1 for none.
	missing int
}

// NewChurn returns the changes of a cluster with these nodes, which it keeps.
func (w Workload) NewChurn(nodes []*corev1.Node) *Churn {
	return &Churn{workload: w, nodes: nodes, missing: -1}
}

// changes take turns; the last two are a removal and the arrival of the replacement.
var changes = [...]func(c *Churn, n *corev1.Node){
	relabel, toggleTaint, reallocate, pullImage, toggleCordon,
	relabel, toggleTaint, reallocate, pullImage, nil, nil,
}

// Next makes the next event.
func (c *Churn) Next() NodeEvent {
	turn := c.events % len(changes)
	at := int(mix(uint64(c.events)) % uint64(len(c.nodes)))
	c.events++
	switch change := changes[turn]; {
	case change != nil:
		before := c.nodes[at]
		after := before.DeepCopy()
		after.ResourceVersion = fmt.Sprint(1<<40 + c.events)
		change(c, after)
		c.nodes[at] = after
		return NodeEvent{Before: before, After: given(after)}
	case c.missing < 0:
		c.missing = at
		return NodeEvent{Before: c.nodes[at]}
	default:
		// Of the zone that lost one, so that zones stay even.
		number := replacements*zoneCount + zoneCount*c.added + zoneOf(c.missing)
		c.added++
		after := c.workload.Node(number)
		c.nodes[c.missing] = after
		c.missing = -1
		return NodeEvent{After: given(after)}
	}
}

// given is a node as the log of facts would bring it, apart from the one to go on from.
func given(n *corev1.Node) *corev1.Node {
	n = n.DeepCopy()
	state.Strip(n)
	return n
}

// replacements times zoneCount is the number of the first node that was not there at the
// start.
const replacements = 1 << 18

// relabel changes a label that some pods prefer, and one that nobody reads.
func relabel(c *Churn, n *corev1.Node) {
	n.Labels["example.com/patched"] = fmt.Sprint("at-", c.events)
	if n.Labels[labelDisk] == "ssd" {
		n.Labels[labelDisk] = "hdd"
	} else {
		n.Labels[labelDisk] = "ssd"
	}
}

// toggleTaint makes the node unloved, or loved again.
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

// reallocate takes a processor for the system, up to four.
func reallocate(c *Churn, n *corev1.Node) {
	n.Status.Allocatable[corev1.ResourceCPU] = *resource.NewQuantity(int64(28+c.events%5), resource.DecimalSI)
}

// pullImage adds an image of an app that is not there yet, if any.
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

func toggleCordon(_ *Churn, n *corev1.Node) { cordon(n, !n.Spec.Unschedulable) }
