package decide

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	schedulinghelpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/placement/names"
	"github.com/berth-scheduler/berth/pkg/state"
)

// verdict is the result of a recheck against the binder's own facts before a bind.
type verdict uint8

const (
	// fit means that the pod can be bound.
	fit verdict = iota + 1
	// unseen means that the facts do not show the pod or the node yet; check again when they move.
	unseen
	// over means that the pod is bound or deleted; nothing is left to do.
	over
	// stale means that the place is no longer good; give the reservation back.
	stale
)

// recheck checks what the API server does not check on a bind (it accepts a missing, cordoned or tainted node) and
// what may have changed since the decision. It returns the pod as the facts show it, nil if they do not.
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
		return r.stale(ledger.FenceByPod, reason) // the node would take a pod that requests the same as then
	}
	return r.stale(ledger.FenceByNode, reason)
}

// stale returns the verdict stale, and records its cause.
func (r *reservation) stale(cause ledger.FenceCause, reason string) (verdict, string) {
	r.fence.blame = cause
	return stale, reason
}

// older reports whether p is the pod as it was before the decision: an objection based on it (its gates, its
// tolerations, its requests) proves nothing.
func (r *reservation) older(p *state.Pod) bool { return p.ResourceVersion < r.entry.PodRV }

// behind reports whether the binder's facts about a node are older than those of a process that has decided about it:
// victims that have left for a pod which has just been promoted may still be on the node in these facts. An objection
// based on them proves nothing.
func (c *Core) behind(n *state.Node) bool {
	d, ok := c.docs[n.UID]
	if !ok {
		return false
	}
	pods := d.doc.HW[ledger.KindPod]
	return pods > 0 && (!c.facts.PodProgressKnown || c.facts.PodProgress < pods) ||
		n.ResourceVersion < d.doc.HW[ledger.KindNode]
}

// laterThan reports whether a reservation is for a later node than the incarnation that its name stands for. Then a
// shard of a version before incarnations has made it, and no other shard would admit the node.
func (c *Core) laterThan(i ledger.Incarnation, r *reservation) bool {
	d, ok := c.docs[r.nodeUID]
	return ok && d.doc.SupersededBy == "" && d.doc.HW[ledger.KindNode] > i.NodeRV
}

// objection applies the rules that the pod's profile has. A rule that the profile does not have must not object here
// either, or every decision would be taken back.
func (c *Core) objection(n *state.Node, p *state.Pod, scheduler string) string {
	if c.enforces(scheduler, names.NodeUnschedulable) && cordoned(n.Object, p.Template) {
		return "node " + n.Name + " is cordoned"
	}
	if c.enforces(scheduler, names.TaintToleration) {
		if reason := repels(n.Object, p.Template); reason != "" {
			return reason
		}
	}
	if c.enforces(scheduler, names.NodeResourcesFit) {
		return c.overfull(n, p)
	}
	return ""
}

// overfull describes what the pod would take beyond the node's allocatable, next to the pods that are there now;
// empty for nothing. The ledger has settled this among shards. What it cannot know is which pods arrived by another
// way since (with a node name of their own, or by another scheduler) or were resized in place; and the kubelet would
// reject the pod for good.
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

// countedResources are the resources that no profile can ignore (NodeResourcesFitArgs lets a profile ignore extended
// ones).
var countedResources = []string{
	string(corev1.ResourceCPU), string(corev1.ResourceMemory),
	string(corev1.ResourceEphemeralStorage), string(corev1.ResourcePods),
}

// unschedulableTaint is the taint by which tolerations see a cordoned node (upstream plugin NodeUnschedulable).
var unschedulableTaint = corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}

func cordoned(n *corev1.Node, p *corev1.Pod) bool {
	return n.Spec.Unschedulable &&
		!schedulinghelpers.TolerationsTolerateTaint(klog.Logger{}, p.Spec.Tolerations, &unschedulableTaint, false)
}

// repels describes the taint that would keep the pod off the node now; empty for none. The comparison operators of
// tolerations are an alpha feature upstream and disabled.
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

// wish is what a version of a pod requested. It is kept instead of the pod, because many pods wait for long.
type wish struct {
	resourceVersion, asked uint64
}

func wishOf(p *state.Pod) wish { return wish{p.ResourceVersion, p.Wish()} }
