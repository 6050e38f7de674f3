package decide

import (
	"maps"
	"math/bits"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/state"
)

// Cause is a set of things that can happen and make a rejected pod fit.
type Cause uint32

// The causes.
const (
	CauseNodeAdded Cause = 1 << iota
	CauseNodeDeleted
	CauseNodeAllocatable
	CauseNodeLabels
	// CauseNodeTaints: taints or spec.unschedulable changed.
	CauseNodeTaints
	// CauseNodeOther: annotations or declared features changed.
	CauseNodeOther
	// CausePodAssigned: a pod was bound.
	CausePodAssigned
	// CausePodGone: a bound pod was deleted or came to its end.
	CausePodGone
	// CausePodScaledDown: a bound pod's requests were lowered.
	CausePodScaledDown
	// CausePodChanged: a bound pod's labels changed, or it began to terminate.
	CausePodChanged
	// CauseOwnUpdate: the pod's own spec, labels or annotations changed.
	CauseOwnUpdate
	// CauseReservationGone: a reservation ended without a bind.
	CauseReservationGone
	CauseNamespace
	// CauseOther: an object of any other kind changed.
	CauseOther

	causeEnd
	causeAny = causeEnd - 1
)

// causeCount is the number of single causes; a test holds it equal to the list above.
const causeCount = 14

// Interests of the plugins: which causes can turn a plugin's rejection into a fit. They
// follow the events upstream's plugins register (EventsToRegister in pkg/scheduler/
// framework/plugins/*), without the per-object hints: a coarser answer wakes more, never
// less. Reservations count where upstream counts assumed pods.
const (
	nodeAppears = CauseNodeAdded | CauseNodeTaints
	roomAppears = CausePodGone | CausePodScaledDown | CauseReservationGone
	podsMove    = CausePodAssigned | CausePodGone | CausePodChanged | CauseReservationGone
	nodesMove   = CauseNodeAdded | CauseNodeDeleted | CauseNodeLabels | CauseNodeTaints
)

var interests = map[string]Cause{
	"NodeUnschedulable":    nodeAppears | CauseOwnUpdate,
	"NodeName":             CauseNodeAdded,
	"TaintToleration":      nodeAppears | CauseOwnUpdate,
	"NodeAffinity":         nodeAppears | CauseNodeLabels,
	"NodePorts":            nodeAppears | CausePodGone | CauseReservationGone,
	"NodeResourcesFit":     nodeAppears | CauseNodeAllocatable | roomAppears | CauseOwnUpdate,
	"PodTopologySpread":    nodesMove | podsMove | CauseOwnUpdate,
	"InterPodAffinity":     nodesMove | podsMove | CauseNamespace | CauseOwnUpdate,
	"NodeDeclaredFeatures": nodeAppears | CauseNodeOther | CauseOwnUpdate,
}

// interestOf joins the interests of the plugins that rejected; without any, or with one
// that is not known here, everything can help.
func interestOf(plugins []string) Cause {
	if len(plugins) == 0 {
		return causeAny
	}
	var all Cause
	for _, p := range plugins {
		c, ok := interests[p]
		if !ok {
			return causeAny
		}
		all |= c
	}
	return all
}

// happened remembers when causes happened last, for the pods that are out on offers.
func (c *Core) happened(causes Cause, sequence uint64) {
	for rest := causes; rest != 0; rest &= rest - 1 {
		c.past.sequence[bits.TrailingZeros32(uint32(rest))] = sequence
	}
}

// missed says whether something that can help the pod happened after what its verdict was
// computed from, so that waiting for it now would be waiting for the past.
func (c *Core) missed(e *entry) bool {
	v := &e.verdict
	if v.interest&CauseOwnUpdate != 0 && e.movedAt > v.factSequence {
		return true
	}
	if v.interest&CauseReservationGone != 0 && c.past.revision > v.ledgerRevision {
		return true
	}
	for rest := v.interest; rest != 0; rest &= rest - 1 {
		if c.past.sequence[bits.TrailingZeros32(uint32(rest))] > v.factSequence {
			return true
		}
	}
	return false
}

// wake requeues the parked pods that a cause can help, in arrival order.
func (c *Core) wake(cause Cause, event string, now time.Time) {
	var woken []*entry
	for interest, set := range c.parkedBy {
		if interest&cause == 0 {
			continue
		}
		for e := range set {
			if c.news(e, cause) {
				woken = append(woken, e)
			}
		}
	}
	slices.SortFunc(woken, bySerial)
	for _, e := range woken {
		e.sequence = c.world.facts.Sequence
		c.requeue(e, event, now)
	}
}

// news says whether a cause of this step is later than what the pod's verdict saw: the
// shard may have been ahead of the queue.
func (c *Core) news(e *entry, cause Cause) bool {
	if cause == CauseReservationGone {
		return c.past.revision > e.verdict.ledgerRevision
	}
	return c.world.facts.Sequence > e.verdict.factSequence
}

// flush requeues the pods that no event woke for too long: the net under the table above
// (upstream's flushUnschedulablePodsLeftover).
func (c *Core) flush(now time.Time) {
	for e := c.bags.parked.first(); e != nil; e = c.bags.parked.first() {
		if e.entered.Add(c.cfg.FlushAfter).After(now) {
			return
		}
		c.out.counts.Flushed++
		c.requeue(e, eventTimeout, now)
	}
}

// woken is a cause and the event it is counted under.
type woken struct {
	cause Cause
	event string
}

// causesOf reads the causes out of a batch of changes, each once, in a fixed order.
func causesOf(changes state.Changes) []woken {
	seen := map[Cause]string{}
	for i := range changes.Nodes {
		nodeCauses(&changes.Nodes[i], seen)
	}
	for i := range changes.Pods {
		podCauses(&changes.Pods[i], seen)
	}
	for i := range changes.Others {
		switch changes.Others[i].Kind {
		case events.KindNamespace:
			seen[CauseNamespace] = "NamespaceUpdate"
		case events.KindDisruptionBudget, events.KindPriorityClass:
			// Neither changes where a pod fits.
		default:
			seen[CauseOther] = "OtherUpdate"
		}
	}
	out := make([]woken, 0, len(seen))
	for _, c := range slices.Sorted(maps.Keys(seen)) {
		out = append(out, woken{cause: c, event: seen[c]})
	}
	return out
}

func nodeCauses(n *state.NodeChange, seen map[Cause]string) {
	switch {
	case n.Before == nil:
		seen[CauseNodeAdded] = "NodeAdd"
		return
	case n.After == nil:
		seen[CauseNodeDeleted] = "NodeDelete"
		return
	}
	before, after := n.Before.Object, n.After.Object
	if !equality.Semantic.DeepEqual(before.Status.Allocatable, after.Status.Allocatable) {
		seen[CauseNodeAllocatable] = "UpdateNodeAllocatable"
	}
	if !maps.Equal(before.Labels, after.Labels) {
		seen[CauseNodeLabels] = "UpdateNodeLabel"
	}
	if before.Spec.Unschedulable != after.Spec.Unschedulable ||
		!equality.Semantic.DeepEqual(before.Spec.Taints, after.Spec.Taints) {
		seen[CauseNodeTaints] = "UpdateNodeTaint"
	}
	if !maps.Equal(before.Annotations, after.Annotations) ||
		!slices.Equal(before.Status.DeclaredFeatures, after.Status.DeclaredFeatures) {
		seen[CauseNodeOther] = "UpdateNodeAnnotation"
	}
}

func podCauses(p *state.PodChange, seen map[Cause]string) {
	was, is := assigned(p.Before), assigned(p.After)
	switch {
	case was && !is:
		seen[CausePodGone] = "AssignedPodDelete"
	case !was && is:
		seen[CausePodAssigned] = "AssignedPodAdd"
	case was && is:
		if !maps.Equal(p.Before.Template.Labels, p.After.Template.Labels) || p.Before.Deleting != p.After.Deleting {
			seen[CausePodChanged] = "UpdatePodLabel"
		}
		if !equality.Semantic.DeepEqual(p.Before.Requests, p.After.Requests) {
			seen[CausePodScaledDown] = "UpdatePodScaleDown"
		}
	}
}

func assigned(p *state.Pod) bool { return p != nil && p.NodeName != "" && !p.Terminal }

// specMoved says whether an update of an unbound pod can change where it fits: anything
// but its status and bookkeeping (upstream's isPodUpdated).
func specMoved(before, after *state.Pod) bool {
	if before.NodeName != after.NodeName || !maps.Equal(before.Annotations(), after.Annotations()) {
		return true
	}
	b, a := before.Template, after.Template
	return b != a && (!maps.Equal(b.Labels, a.Labels) || !equality.Semantic.DeepEqual(b.Spec, a.Spec))
}
