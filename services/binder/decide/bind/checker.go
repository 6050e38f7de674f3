package bind

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	schedulinghelpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/placement/names"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/services/binder/decide/basis"
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

// finding is a verdict, its reason and, for stale, the cause of the fence.
type finding struct {
	verdict verdict
	reason  string
	cause   ledger.FenceCause
}

// staleBy returns the finding stale with its cause.
func staleBy(cause ledger.FenceCause, reason string) finding {
	return finding{verdict: stale, reason: reason, cause: cause}
}

// Documents has the nodes' documents as last seen.
type Documents interface {
	// Get returns the document of a node.
	Get(nodeUID string) (ledger.NodeDoc, bool)
	// Learn adopts a document if it is newer than the known one, and reports whether it is.
	Learn(d ledger.NodeDoc) (newer bool)
	// Forget drops a document that a revision of the ledger deleted, and reports whether it was dropped.
	Forget(nodeUID string, by int64) bool
}

// checker checks reservations against the facts.
type checker struct {
	*basis.Base
	documents Documents
}

// check checks what the API server does not check on a bind (it accepts a missing, cordoned or tainted node) and what
// may have changed since the decision. It returns the pod as the facts show it, nil if they do not.
func (k checker) check(r *trackedEntry) (*state.Pod, finding) {
	p, known, gone := k.Pod(r.key.Pod, r.entry.PodRV)
	switch {
	case gone:
		return nil, finding{verdict: over, reason: "the pod was deleted"}
	case !known:
		return nil, finding{verdict: unseen, reason: "the pod does not show in the facts yet"}
	case p.NodeName != "":
		return p, finding{verdict: over, reason: "the pod is bound to " + p.NodeName}
	}
	return p, k.checkUnbound(r, p)
}

// checkUnbound is check for a pod that is known not to be bound.
func (k checker) checkUnbound(r *trackedEntry, p *state.Pod) finding {
	switch {
	case k.Facts.Cluster == nil:
		return finding{verdict: unseen, reason: "no facts yet"}
	case p.Deleting:
		return staleBy(ledger.FenceByPod, "the pod is being deleted")
	case p.Terminal:
		return staleBy(ledger.FenceByPod, "the pod has ended")
	case p.Gated && !r.older(p):
		return staleBy(ledger.FenceByPod, "the pod has scheduling gates")
	case p.Gated:
		return finding{verdict: unseen, reason: "the facts do not show yet that the pod's gates have gone"}
	}
	if i := k.Ledger.Names().Incarnation(r.nodeName); i.Revision > 0 && i.NodeUID != r.nodeUID &&
		!k.newerIncarnation(i, r) {
		return staleBy(ledger.FenceByNode, fmt.Sprintf(
			"node %s (UID %s) has registered again, with UID %s", r.nodeName, r.nodeUID, i.NodeUID))
	}
	n, ok := k.Facts.Cluster.Node(r.nodeUID)
	if !ok {
		if r.hint.FactSequence > 0 && k.Facts.Sequence >= r.hint.FactSequence {
			return staleBy(ledger.FenceByNode, fmt.Sprintf("node %s (UID %s) is gone", r.nodeName, r.nodeUID))
		}
		return finding{verdict: unseen, reason: "the node does not show in the facts yet"}
	}
	reason := k.objection(n, p, r.entry.SchedulerName)
	switch {
	case reason == "":
		return finding{verdict: fit}
	case r.older(p) || k.behind(n):
		return finding{verdict: unseen, reason: "the facts do not show yet what the decision rests on"}
	case r.entry.PlacementHash != 0 && r.entry.PlacementHash != p.PlacementHash():
		return staleBy(ledger.FenceByPod, reason) // the node would take a pod that requests the same as then
	}
	return staleBy(ledger.FenceByNode, reason)
}

// behind reports whether the binder's facts about a node are older than those of a process that has decided about it:
// victims that have left for a pod which has just been promoted may still be on the node in these facts. An objection
// based on them proves nothing.
func (k checker) behind(n *state.Node) bool {
	d, ok := k.documents.Get(n.UID)
	if !ok {
		return false
	}
	pods := d.HW[ledger.KindPod]
	return pods > 0 && (!k.Facts.PodProgressKnown || k.Facts.PodProgress < pods) ||
		n.ResourceVersion < d.HW[ledger.KindNode]
}

// newerIncarnation reports whether a reservation is for a later node than the incarnation that its name stands for.
// Then a shard of a version before incarnations has made it, and no other shard would admit the node.
func (k checker) newerIncarnation(i ledger.Incarnation, r *trackedEntry) bool {
	d, ok := k.documents.Get(r.nodeUID)
	return ok && d.SupersededBy == "" && d.HW[ledger.KindNode] > i.NodeRV
}

// objection applies the rules that the pod's profile has. A rule that the profile does not have must not object here
// either, or every decision would be taken back.
func (k checker) objection(n *state.Node, p *state.Pod, scheduler string) string {
	if k.Enforces(scheduler, names.NodeUnschedulable) && cordoned(n.Object, p.Template) {
		return "node " + n.Name + " is cordoned"
	}
	if k.Enforces(scheduler, names.TaintToleration) {
		if reason := untoleratedTaint(n.Object, p.Template); reason != "" {
			return reason
		}
	}
	if k.Enforces(scheduler, names.NodeResourcesFit) {
		return k.exceeded(n, p)
	}
	return ""
}

// exceeded describes what the pod would take beyond the node's allocatable, next to the pods that are there now;
// empty for nothing. The ledger has settled this among shards. What it cannot know is which pods arrived by another
// way since (with a node name of their own, or by another scheduler) or were resized in place; and the kubelet would
// reject the pod for good.
func (k checker) exceeded(n *state.Node, p *state.Pod) string {
	used := k.Facts.Cluster.Requested(n.Name)
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

// cordoned reports whether the node is cordoned, for a pod that does not tolerate that.
func cordoned(n *corev1.Node, p *corev1.Pod) bool {
	return n.Spec.Unschedulable &&
		!schedulinghelpers.TolerationsTolerateTaint(klog.Logger{}, p.Spec.Tolerations, &unschedulableTaint, true)
}

// untoleratedTaint describes the taint that would keep the pod off the node now; empty for none. As in the shard's
// rule, the comparison operators of tolerations count (KEP-5471).
func untoleratedTaint(n *corev1.Node, p *corev1.Pod) string {
	taint, found := schedulinghelpers.FindMatchingUntoleratedTaint(klog.Logger{}, n.Spec.Taints, p.Spec.Tolerations,
		func(t *corev1.Taint) bool {
			return t.Effect == corev1.TaintEffectNoSchedule || t.Effect == corev1.TaintEffectNoExecute
		}, true)
	if found {
		return fmt.Sprintf("node %s has the untolerated taint %s", n.Name, taint.ToString())
	}
	return ""
}
