package preempt

import (
	"errors"
	"fmt"
	"slices"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/txns"
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/placement/preempt"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/services/scheduler/decide/claims"
	"github.com/berth-scheduler/berth/services/scheduler/decide/crossnode"
	"github.com/berth-scheduler/berth/services/scheduler/decide/step"
)

// takeover is a hold that a more important pod could take over. The node counts the hold and its victims.
type takeover struct {
	node *state.NodeInfo
	hold ledger.Entry
}

// displace looks for a place that is held for a less important pod and fits this pod once all its victims are gone.
// It is tried before a search for victims, because no additional pod is evicted: the claims belong to the plan,
// which continues for this pod, so it does not matter how far the evictions have come. tried: the attempt has been
// dealt with for now; sent: a transaction has been sent.
func (nm *nominator) displace(s seeker) (tried, sent bool) {
	t, ok := nm.displaceable(s)
	if !ok {
		return false, false
	}
	return true, nm.sendDisplacement(s, t)
}

// displaceable returns the hold that displace takes: of those whose place fits, the one of the least important pod;
// among equals the one on the node with the smallest UID. Plans with a record are left out: while one is forming, T4
// would abort it and its room would not be cleared. At most maxDisplacements holds are tried, each with all rules.
func (nm *nominator) displaceable(s seeker) (takeover, bool) {
	if preempt.IsNever(s.pod) {
		return takeover{}, false
	}
	var nodes []string
	for uid, least := range nm.holds.heldNodes {
		if least < s.pod.Priority {
			nodes = append(nodes, uid)
		}
	}
	slices.Sort(nodes)
	var list []takeover
	for _, uid := range nodes {
		node, ok := nm.shard.View.Node(uid)
		if !ok || !nm.shard.Gate.Usable(node) {
			continue
		}
		for _, e := range nm.shard.View.Displaceable(uid, s.pod.Priority) {
			if e.Plan != "" && !ledger.IsRecorded(e.Plan) {
				list = append(list, takeover{node, e})
			}
		}
	}
	slices.SortStableFunc(list, func(a, b takeover) int { return int(a.hold.Priority) - int(b.hold.Priority) })
	for _, t := range list[:min(len(list), maxDisplacements)] {
		if nm.fitsInstead(s, t) {
			return t, true
		}
	}
	return takeover{}, false
}

// fitsInstead reports whether a pod fits in the place of a hold once all victims of its plan have gone. Pods that
// would be needed in addition are not considered.
func (nm *nominator) fitsInstead(s seeker, t takeover) bool {
	gone := map[string]bool{t.hold.PodUID: true}
	for _, v := range victimsOf(nm.shard.Ledger.Plans().Docs(t.hold.Plan), t.hold.Plan) {
		gone[v.PodUID] = true
	}
	in := placement.Input{Pod: s.pod, Nodes: []*state.NodeInfo{t.node}, Objects: nm.shard.View.Snapshot()}
	if !s.concern.None() {
		in.Nodes = nm.shard.View.Nodes()
	}
	fits, _, err := s.profile.FitsWithout(in, t.node, gone)
	return err == nil && fits
}

// sendDisplacement builds and sends T4; false if nothing was sent, and the attempt has been put back or has failed.
// The documents are those of the place, of the keepers that the pod relies on, and of all victims of the plan.
// Volumes and devices that a prepared hold has are freed, as this pod has no claims. A TransitionError means that
// the hold has ended or changed in the meantime.
func (nm *nominator) sendDisplacement(s seeker, t takeover) bool {
	a := s.Attempt
	b, ok := newPlan(nm.shard, a, t.node)
	entry, err := a.Entry(nm.shard.ID)
	if err != nil {
		nm.life.Fail(a, err.Error())
		return false
	}
	followed := crossnode.Following{}
	if s.concern.Together() {
		followed = nm.rules.Keepers(s.pod, t.node)
	}
	n, ready := nm.rules.Demands(&s.concern, t.node, followed)
	if !ok || !ready || followed.Waits || nm.places.hasStagedPod(t.node.Node.UID) {
		nm.life.Defer(a)
		return false
	}
	if !nm.terms.Registered(a, n, claims.Supply{}) {
		return false
	}
	x := txns.Displacement{
		Authority: b.authority, PodUID: t.hold.PodUID, Token: t.hold.Token, Entry: entry, Guards: n.Guards,
		Facts: nm.shard.View.TxnFacts(),
	}
	for _, p := range followed.Pins {
		b.openDoc(p.NodeUID, p.NodeName)
		x.Keepers = append(x.Keepers, txns.NodeEntry{NodeUID: p.NodeUID, Entry: p.Keeper})
	}
	for _, d := range nm.shard.Ledger.Plans().Docs(t.hold.Plan) {
		if _, open := b.docs[d.NodeUID]; !open {
			b.docs[d.NodeUID], b.order = d, append(b.order, d.NodeUID)
		}
	}
	if txns.IsPrepared(t.hold.Plan) {
		for _, doc := range nm.shard.HeldBy(t.hold.Token) {
			freed, _ := doc.ReleaseHolder(t.hold.Token)
			x.Exclusives = append(x.Exclusives, freed)
		}
	}
	x.Target, x.Docs = b.docs[t.node.Node.UID], b.except(t.node.Node.UID)
	change, err := txns.Displace(x)
	if err == nil {
		nm.pickFor(a, t.node.Node, &s.Decision)
		d := &displacement{nomination: nomination{
			seeker: s, node: t.node.Node, plan: x.Plan(t.hold), token: entry.Token,
		}, hold: t.hold}
		if err = nm.slot.Launch(d, change, a); err == nil {
			return true
		}
		nm.unpick(a)
	}
	var gone *txns.TransitionError
	if errors.As(err, &gone) {
		nm.life.Defer(a)
		return false
	}
	return nm.handleBuildError(a, err)
}

// displacement is a T4 in flight: the nomination of the new pod, and the hold that it takes over.
type displacement struct {
	nomination
	hold ledger.Entry
}

func (d *displacement) Kind() string { return "T4" }

// Done records the nomination of the new pod and the withdrawal of the displaced one. The displaced pod may belong
// to another shard: its owner sees the hold vanish from the ledger, and the queue offers the pod again. This shard
// writes the record, as it knows which pod has the place now.
func (d *displacement) Done(revision int64) {
	nm := d.by
	d.nomination.Done(revision)
	by := d.Attempt.Pod
	was := events.Decision{
		Kind: events.DecisionWithdrawn, Pod: podRef(d.hold), SchedulerName: d.hold.SchedulerName, Actor: nm.shard.ID,
		Token: d.hold.Token.String(), PodResourceVersion: d.hold.PodRV,
		FactSequence: nm.shard.Store.Position().Sequence, LedgerRevision: revision,
		NodeUID: d.node.UID, NodeName: d.node.Name,
		Message: fmt.Sprintf("The place held for it on node %s went to pod %s, which is more important "+
			"(priority %d, against %d).", d.node.Name, by.Key(), by.Priority, d.hold.Priority),
	}
	nm.effects.Decide(was)
	nm.effects.Plan(step.PlanReport{Event: step.PlanDisplaced, Pod: was.Pod, Node: d.node.Name, Detail: was.Message})
}
