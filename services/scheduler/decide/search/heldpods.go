package search

import (
	"maps"
	"slices"

	"github.com/berth-scheduler/berth/pkg/ledger/guard"
	"github.com/berth-scheduler/berth/pkg/ledger/txns"
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/placement/engine"
	"github.com/berth-scheduler/berth/pkg/placement/names"
	"github.com/berth-scheduler/berth/pkg/placement/rule"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/services/scheduler/decide/attempt"
	"github.com/berth-scheduler/berth/services/scheduler/decide/avoid"
	"github.com/berth-scheduler/berth/services/scheduler/decide/claims"
	"github.com/berth-scheduler/berth/services/scheduler/decide/crossnode"
	"github.com/berth-scheduler/berth/services/scheduler/decide/record"
	"github.com/berth-scheduler/berth/services/scheduler/decide/shard"
)

// A place that is held counts like a placement, but may still be given up. For most rules this is the strict side.
// For hard spread it is not: skew is measured against the domain with the fewest pods, and the hold may count in
// that domain. So a pod with such a rule may only be placed where the rules pass it both with the holds and without
// them. Upstream also evaluates twice, with and without the pods that are nominated to the node in question, but
// never counts pods nominated to other nodes (RunFilterPluginsWithNominatedPods in
// pkg/scheduler/framework/runtime/framework.go).
//
// A pod that fits only with the holds has no place. It is rejected with upstream's message, and waits until one of
// the held pods is bound or its place is given up. The queue treats these as the events of a pod that was assigned
// or deleted.
//
// The two views are upstream's, and do not cover every outcome of several holds: a hold in the pod's domain may stay
// when a hold that evened it out is given up. The promotion of the remaining hold checks again.
//
// A place that is held for plugins (txns.IsPrepared) counts in both views: upstream assumes a pod that waits at
// Permit, and otherwise the last pods of a group that waits there would find no place.

// heldPods returns the UIDs of the pods that hard spread of a pod counts and whose places are only held; nil for none.
func (x *Searcher) heldPods(pod *state.Pod, profile *placement.Profile, concern *guard.Concern) map[string]bool {
	if len(x.HeldNodes()) == 0 || !concern.CountsBatch() {
		return nil
	}
	var matchers []*crossnode.Matcher
	rules, _ := profile.CrossRules(pod, x.Shard.View.Snapshot()) // an error would have ended the attempt before
	for i := range rules {
		if rules[i].Kind == rule.CrossSpread {
			matchers = append(matchers, x.Rules.MatcherOf(rules[i].Terms))
		}
	}
	var held map[string]bool
	for nodeUID := range x.HeldNodes() {
		doc, _ := x.Shard.Ledger.Doc(nodeUID)
		for i := range doc.Entries {
			e := &doc.Entries[i]
			if e.Namespace != pod.Namespace || !shard.IsHold(e) || txns.IsPrepared(e.Plan) || !x.counts(matchers, e.PodUID) {
				continue
			}
			if held == nil {
				held = map[string]bool{}
			}
			held[e.PodUID] = true
		}
	}
	return held
}

// counts reports whether one of the rules selects an unbound pod. An unknown pod counts.
func (x *Searcher) counts(rules []*crossnode.Matcher, podUID string) bool {
	pod, known := x.Shard.View.Pod(podUID)
	if !known {
		return true
	}
	selects := func(m *crossnode.Matcher) bool { return m.Matches(pod) }
	return pod.NodeName == "" && slices.ContainsFunc(rules, selects)
}

// requireWithoutHolds reduces a result to the nodes that also pass without the held pods. If none is left, the
// result depends on holds, and its diagnosis is that of the failed nodes.
func (x *Searcher) requireWithoutHolds(
	a *attempt.Attempt, p *placement.Profile, v claims.Supply, r record.Evaluation, held map[string]bool,
) record.Evaluation {
	if r.Err != nil || len(r.Feasible) == 0 {
		return r
	}
	in := placement.Input{
		Pod: a.Pod, Nodes: nodesWithout(x.Shard.View.Nodes(), held), Candidates: []*state.NodeInfo{},
		Objects: v.Lookups(x.Shard.View.Snapshot()), Limit: -1, Details: true, Everywhere: true,
	}
	among := uidsOf(r.Feasible)
	for _, n := range in.Nodes {
		if among[n.Node.UID] {
			in.Candidates = append(in.Candidates, n)
		}
	}
	without := p.Evaluate(in)
	if without.Err != nil {
		return record.Evaluation{Result: placement.Result{Err: without.Err}, Basis: r.Basis}
	}
	fitting := namesOf(r.Feasible)
	passed := uidsOf(without.Feasible)
	r.Weighed = placement.Weighed{} // their indexes would no longer be those of the nodes
	r.Feasible = slices.DeleteFunc(r.Feasible, func(s placement.Scored) bool { return !passed[s.Node.Node.UID] })
	if r.FeasibleCount = len(r.Feasible); r.FeasibleCount == 0 {
		r.DependsOnHolds, r.Withheld = true, record.Withheld(fitting)
		opinions := map[string]placement.Opinion{}
		for i := range without.Nodes {
			f := &without.Nodes[i]
			opinions[f.Node.Node.Name] = placement.Opinion{Rejected: true, Plugin: f.Plugin, Reasons: f.Reasons}
		}
		r.Diagnosis = x.diagnoseRejected(a, p, v, opinions)
	}
	return r
}

// diagnoseRejected explains why no node is feasible: some would be, but are rejected for reasons that the view does not
// show, by node name. It adds the other opinions to them.
func (x *Searcher) diagnoseRejected(
	a *attempt.Attempt, p *placement.Profile, v claims.Supply, rejected map[string]placement.Opinion,
) placement.Diagnosis {
	in := placement.Input{
		Pod: a.Pod, Nodes: x.Shard.View.Nodes(), Objects: v.Lookups(x.Shard.View.Snapshot()), Everywhere: true,
		Opinions: map[string]placement.Opinion{}, Guidance: a.Advice.Guidance, Excluded: map[string]string{},
	}
	if p.Extended(a.Pod) {
		maps.Copy(in.Opinions, x.Extend(engine.Query{}, a).Opinions)
	}
	for _, n := range in.Nodes {
		if x.Shard.Gate.Usable(n) {
			in.Candidates = append(in.Candidates, n)
		}
	}
	for _, uid := range x.Shard.Avoid.AvoidedBy(a.Pod, x.Shard.Now) {
		in.Excluded[uid] = avoid.OwnerMessage
	}
	// A node that rejects the pod for more than a while counts as that.
	for _, n := range in.Nodes {
		if _, is := rejected[n.Node.Name]; is {
			delete(in.Excluded, n.Node.UID)
		}
	}
	maps.Copy(in.Opinions, rejected)
	return p.Evaluate(in).Diagnosis
}

// uidsOf returns the set of the nodes' UIDs.
func uidsOf(ranked []placement.Scored) map[string]bool {
	uids := make(map[string]bool, len(ranked))
	for i := range ranked {
		uids[ranked[i].Node.Node.UID] = true
	}
	return uids
}

// namesOf returns the names of the nodes.
func namesOf(ranked []placement.Scored) []string {
	names := make([]string, len(ranked))
	for i := range ranked {
		names[i] = ranked[i].Node.Node.Name
	}
	return names
}

// nodesWithout returns all nodes, without the given unbound pods. Nodes that have one are copied, and the others
// shared.
func nodesWithout(nodes []*state.NodeInfo, pods map[string]bool) []*state.NodeInfo {
	nodes = slices.Clone(nodes)
	for i, n := range nodes {
		for p := range n.Pods() {
			if p.NodeName != "" || !pods[p.UID] {
				continue
			}
			if nodes[i] == n {
				nodes[i] = n.Clone()
			}
			nodes[i].RemovePod(p.UID)
		}
	}
	return nodes
}

// DependsOnHolds reports whether a pod that fits on a node of the input, without the pods in gone, would not fit if
// the pods whose places are held were gone as well.
func (x *Searcher) DependsOnHolds(
	in placement.Input, profile *placement.Profile, concern *guard.Concern, node *state.NodeInfo, gone map[string]bool,
) bool {
	held := x.heldPods(in.Pod, profile, concern)
	if len(held) == 0 {
		return false
	}
	maps.Copy(held, gone)
	fits, why, err := profile.FitsWithout(in, node, held)
	return err == nil && !fits && why.Plugin == names.PodTopologySpread
}
