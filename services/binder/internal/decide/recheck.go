package decide

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	schedulinghelpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/state"
)

// verdict of a look at the binder's own facts before a bind.
type verdict uint8

const (
	// fit: bind.
	fit verdict = iota + 1
	// unseen: the facts do not show the pod or the node yet; look again when they move.
	unseen
	// over: the pod is bound or deleted; nothing is left to do.
	over
	// stale: the place is no longer good; give the reservation back.
	stale
)

// recheck looks at what the API server does not check on a bind (it accepts a missing,
// cordoned or tainted node) and may have changed since the decision. The pod is as the facts
// show it, nil if they do not.
func (c *Core) recheck(r *reservation) (*state.Pod, verdict, string) {
	p, known, gone := c.pod(r.key.pod, r.entry.PodRV)
	switch {
	case gone:
		return nil, over, "the pod was deleted"
	case !known:
		return nil, unseen, "the pod does not show in the facts yet"
	case p.NodeName != "":
		return p, over, "the pod is bound to " + p.NodeName
	}
	v, reason := c.recheckOn(r, p)
	return p, v, reason
}

// recheckOn is recheck for a pod that is known not to be bound.
func (c *Core) recheckOn(r *reservation, p *state.Pod) (verdict, string) {
	switch {
	case c.facts.Cluster == nil:
		return unseen, "no facts yet"
	case p.Deleting:
		return r.stale(ledger.FenceByPod, "the pod is being deleted")
	case p.Terminal:
		return r.stale(ledger.FenceByPod, "the pod has ended")
	case p.Gated && !r.older(p):
		return r.stale(ledger.FenceByPod, "the pod has scheduling gates")
	case p.Gated:
		return unseen, "the facts do not show yet that the pod's gates have gone"
	}
	if i := c.ledger.Incarnation(r.nodeName); i.Revision > 0 && i.NodeUID != r.nodeUID && !c.laterThan(i, r) {
		return r.stale(ledger.FenceByNode, fmt.Sprintf(
			"node %s (UID %s) has registered again, with UID %s", r.nodeName, r.nodeUID, i.NodeUID))
	}
	n, ok := c.facts.Cluster.Node(r.nodeUID)
	if !ok {
		if r.hint.FactSequence > 0 && c.facts.Sequence >= r.hint.FactSequence {
			return r.stale(ledger.FenceByNode, fmt.Sprintf("node %s (UID %s) is gone", r.nodeName, r.nodeUID))
		}
		return unseen, "the node does not show in the facts yet"
	}
	reason := c.objection(n, p, r.entry.SchedulerName)
	switch {
	case reason == "":
		return fit, ""
	case r.older(p) || c.behind(n):
		return unseen, "the facts do not show yet what the decision rests on"
	case r.entry.Wish != 0 && r.entry.Wish != p.Wish():
		return r.stale(ledger.FenceByPod, reason) // it would take a pod that asked for the same as then
	}
	return r.stale(ledger.FenceByNode, reason)
}

// stale is the verdict that the place is no longer good, and what about.
func (r *reservation) stale(cause ledger.FenceCause, reason string) (verdict, string) {
	r.fence.blame = cause
	return stale, reason
}

// older says whether p is the pod as it was before the decision: an objection that rests on it
// (its gates, its tolerations, what it asked for) says nothing.
func (r *reservation) older(p *state.Pod) bool { return p.ResourceVersion < r.entry.PodRV }

// behind says whether the binder knows less of a node than somebody who has decided on it: of a
// pod that has just been promoted, the victims that have gone for it may still stand there in
// these facts. An objection that rests on them says nothing.
func (c *Core) behind(n *state.Node) bool {
	d, ok := c.docs[n.UID]
	if !ok {
		return false
	}
	pods := d.doc.HW[ledger.KindPod]
	return pods > 0 && (!c.facts.PodProgressKnown || c.facts.PodProgress < pods) ||
		n.ResourceVersion < d.doc.HW[ledger.KindNode]
}

// laterThan reports whether a reservation is for a later node than the one that its name stands for. A
// shard of a version before incarnations has made it, and there is no other that would admit the node.
func (c *Core) laterThan(i ledger.Incarnation, r *reservation) bool {
	d, ok := c.docs[r.nodeUID]
	return ok && d.doc.SupersededBy == "" && d.doc.HW[ledger.KindNode] > i.NodeRV
}

// objection asks the rules that the pod's profile has; one that it does not have cannot
// object here either, or every decision would be taken back.
func (c *Core) objection(n *state.Node, p *state.Pod, scheduler string) string {
	if c.enforces(scheduler, placement.NodeUnschedulable) && cordoned(n.Object, p.Template) {
		return "node " + n.Name + " is cordoned"
	}
	if c.enforces(scheduler, placement.TaintToleration) {
		if reason := repels(n.Object, p.Template); reason != "" {
			return reason
		}
	}
	if c.enforces(scheduler, placement.NodeResourcesFit) {
		return c.overfull(n, p)
	}
	return ""
}

// overfull says what the pod would take beyond the node's allocatable next to the pods that
// stand there now; empty for nothing. The ledger has settled this among shards. What it
// cannot know is who came by another way since (a pod with a node name of its own, another
// scheduler's) or grew in place, and what the kubelet would refuse for good.
func (c *Core) overfull(n *state.Node, p *state.Pod) string {
	used := c.facts.Cluster.Requested(n.Name)
	for _, name := range countedResources {
		want, room := p.Requests.Get(name), n.Allocatable.Get(name)
		if want > 0 && used.Get(name)+want > room {
			return fmt.Sprintf("node %s has no room left: %s: %d in use, %d requested, %d allocatable",
				n.Name, name, used.Get(name), want, room)
		}
	}
	return ""
}

// countedResources are those that no profile can ignore (NodeResourcesFitArgs lets it
// ignore extended ones).
var countedResources = []string{
	string(corev1.ResourceCPU), string(corev1.ResourceMemory),
	string(corev1.ResourceEphemeralStorage), string(corev1.ResourcePods),
}

// unschedulableTaint is what cordoning means to tolerations (upstream plugin
// NodeUnschedulable).
var unschedulableTaint = corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}

func cordoned(n *corev1.Node, p *corev1.Pod) bool {
	return n.Spec.Unschedulable &&
		!schedulinghelpers.TolerationsTolerateTaint(klog.Logger{}, p.Spec.Tolerations, &unschedulableTaint, false)
}

// repels says why the node's taints would not let the pod in today; empty when they would.
// The comparison operators of tolerations are an alpha feature upstream and off.
func repels(n *corev1.Node, p *corev1.Pod) string {
	taint, found := schedulinghelpers.FindMatchingUntoleratedTaint(klog.Logger{}, n.Spec.Taints, p.Spec.Tolerations,
		func(t *corev1.Taint) bool {
			return t.Effect == corev1.TaintEffectNoSchedule || t.Effect == corev1.TaintEffectNoExecute
		}, false)
	if found {
		return fmt.Sprintf("node %s has the untolerated taint %s", n.Name, taint.ToString())
	}
	return ""
}

// wish is what a version of a pod asked for. Kept instead of the pod, because many wait for long.
type wish struct {
	resourceVersion, asked uint64
}

func wishOf(p *state.Pod) wish { return wish{p.ResourceVersion, p.Wish()} }
