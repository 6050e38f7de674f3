package preempt

import (
	"maps"
	"math"
	"slices"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/events/evidence"
	"github.com/berth-scheduler/berth/pkg/ledger/guard"
	"github.com/berth-scheduler/berth/pkg/ledger/view"
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/placement/preempt"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/services/scheduler/decide/attempt"
	"github.com/berth-scheduler/berth/services/scheduler/decide/claims"
	"github.com/berth-scheduler/berth/services/scheduler/decide/crossnode"
	"github.com/berth-scheduler/berth/services/scheduler/decide/lifecycle"
	"github.com/berth-scheduler/berth/services/scheduler/decide/record"
	"github.com/berth-scheduler/berth/services/scheduler/decide/search"
	"github.com/berth-scheduler/berth/services/scheduler/decide/shard"
)

// A place that is kept for the replacement of a pod that is moved (T12) is taken over by the first pod of that owner
// and template that fits there, in its T1. No other pod counts it as free, with one exception: a more important pod
// that fits nowhere else displaces it, also in its T1. A replacement that does not fit in the place kept for it is
// placed elsewhere, and the place is released when that is done.

// maxDisplacements bounds the kept places, or holds, that one decision tries to take over: each is a trial with all
// rules.
const maxDisplacements = 64

// maxWithheldCrossed is as maxDisplacements, for Withheld and a pod with rules about pods on other nodes: each trial
// counts the pods of all nodes, for no more than a note in the record.
const maxWithheldCrossed = 8

// Places lets pods take over the places that are kept for the replacements of moved pods. It has no state: the kept
// places are in the ledger, and a staged pod is an attempt with a Pick.Kept.
type Places struct {
	shard    *shard.State
	attempts *attempt.Queues
	record   *record.Recorder
	life     *lifecycle.Attempts
	rules    *crossnode.Rules
	terms    *crossnode.Terms
	search   *search.Searcher
	holds    *Holds
}

// hasStagedPod reports whether a pod is staged in a kept place on a node. A hold there at the same time would count the
// room of the place, and nothing would take the hold back if the pod did not get the place.
func (ps *Places) hasStagedPod(nodeUID string) bool {
	return slices.ContainsFunc(ps.attempts.In(attempt.Staged), func(a *attempt.Attempt) bool {
		return a.Pick.Kept.Token != 0 && a.Pick.NodeUID == nodeUID
	})
}

// Place stages a pod on a place that is kept for it; false if there is none where it fits. done: the attempt has
// been dealt with for now: staged, or deferred because the node of such a place is behind the ledger. The places
// where the pod does not fit are noted in the attempt; when the pod has been placed elsewhere, one of them is
// released (ReleaseUnfit).
func (ps *Places) Place(
	a *attempt.Attempt, profile *placement.Profile, concern *guard.Concern, avoided []string,
) (done bool) {
	a.UnfitPlaces = nil
	for _, k := range ps.shard.View.PlaceholdersFor(a.Pod) {
		if ps.shard.Gate.Behind(k.Node) {
			ps.life.Defer(a)
			return true
		}
		if slices.Contains(avoided, k.Node.Node.UID) || !ps.fitsKept(a.Pod, profile, concern, k) {
			a.UnfitPlaces = append(a.UnfitPlaces, k.Entry.Plan)
			continue
		}
		ps.stageIn(a, concern, k, attempt.KeptPlace{
			Token: k.Entry.Token, Replacement: k.Entry.Replacement, Moved: k.Entry.PodUID,
		})
		return true
	}
	return false
}

// fitsKept reports whether a pod fits in the place of a placeholder: on the node without the placeholder, by all
// rules.
func (ps *Places) fitsKept(
	pod *state.Pod, profile *placement.Profile, concern *guard.Concern, k view.Placeholder,
) bool {
	if !ps.shard.Gate.Usable(k.Node) {
		return false
	}
	in := placement.Input{Pod: pod, Nodes: []*state.NodeInfo{k.Node}, Objects: ps.shard.View.Snapshot()}
	if !concern.None() {
		in.Nodes = ps.shard.View.Nodes()
	}
	gone := map[string]bool{view.PlaceholderUID(k.Entry.Token): true}
	fits, _, err := profile.FitsWithout(in, k.Node, gone)
	return err == nil && fits && !ps.search.DependsOnHolds(in, profile, concern, k.Node, gone)
}

// stageIn stages an attempt in the room of a placeholder, or makes it wait for what its rules about other nodes need
// there. The attempt goes into the next T1 like any other: reserve replaces the placeholder by the reservation
// (attempt.Pick.Enter). No alternatives are remembered, as no other node was ranked.
func (ps *Places) stageIn(a *attempt.Attempt, concern *guard.Concern, k view.Placeholder, r attempt.KeptPlace) {
	profile := ps.shard.Profiles[a.Pod.SchedulerName]
	one := []placement.Scored{{Node: k.Node}}
	node, n := ps.rules.Choose(a, concern, one)
	if node == nil {
		ps.life.Defer(a)
		return
	}
	if !ps.terms.Registered(a, n, claims.Supply{}) {
		return
	}
	a.Pick = ps.life.PickOf(a, node, n)
	a.Pick.Feasible, a.Pick.Kept = 1, r
	basis := ps.record.Basis(profile, ps.shard.Avoid.AvoidedBy(a.Pod, ps.shard.Now))
	found := record.Evaluation{Result: placement.Result{Feasible: one}, Basis: basis}
	found.Basis.Way = evidence.WayKept
	if r.Displaces {
		found.Basis.Way = evidence.WayOusted
	}
	a.Pick.Evidence = ps.record.NumberChoice(ps.record.Evidence(a, profile, found, 0))
	a.Alternatives = [attempt.MaxAlternatives]attempt.Alternative{}
	ps.shard.View.StageInstead(a.Pod, a.Pick.NodeName, r.Token)
	ps.attempts.Append(attempt.Staged, a)
}

// displaceKept stages a pod that fits nowhere in room that is kept for a less important pod; of several such places
// it takes that of the least important pod. No additional pod is evicted for it. done: a place was found, and the
// attempt has been staged or waits.
func (ps *Places) displaceKept(
	a *attempt.Attempt, profile *placement.Profile, concern *guard.Concern,
) (done bool) {
	if preempt.IsNever(a.Pod) {
		return false
	}
	var list []view.Placeholder
	for _, uid := range ps.keepingBelow(a.Pod.Priority) {
		node, ok := ps.shard.View.Node(uid)
		if !ok {
			continue
		}
		for _, e := range ps.shard.View.PlaceholdersOn(uid, a.Pod.Priority) {
			list = append(list, view.Placeholder{Node: node, Entry: e})
		}
	}
	slices.SortStableFunc(list, func(x, y view.Placeholder) int { return int(x.Entry.Priority) - int(y.Entry.Priority) })
	for _, k := range list[:min(len(list), maxDisplacements)] {
		if ps.fitsKept(a.Pod, profile, concern, k) {
			ps.stageIn(a, concern, k, attempt.KeptPlace{Token: k.Entry.Token, Displaces: true})
			return true
		}
	}
	return false
}

// keepingBelow returns the UIDs of the nodes on which a place is kept for a pod of lower priority.
func (ps *Places) keepingBelow(priority int32) []string {
	var nodes []string
	for uid, least := range ps.holds.keptNodes {
		if least < priority {
			nodes = append(nodes, uid)
		}
	}
	slices.Sort(nodes)
	return nodes
}

// Withheld returns the names of the nodes on which a pod that fits nowhere would fit if no places were kept there. It
// returns nil if more places are kept than can be tried, or more nodes would do than a record lists: the list would not
// be complete.
func (ps *Places) Withheld(pod *state.Pod, profile *placement.Profile, concern *guard.Concern) (names []string) {
	most := maxDisplacements
	if !concern.None() {
		most = maxWithheldCrossed
	}
	if len(ps.holds.keptNodes) > most {
		return nil
	}
	for _, uid := range slices.Sorted(maps.Keys(ps.holds.keptNodes)) {
		node, ok := ps.shard.View.Node(uid)
		if !ok || !ps.shard.Gate.Usable(node) {
			continue
		}
		gone := map[string]bool{}
		for _, e := range ps.shard.View.PlaceholdersOn(uid, math.MaxInt32) {
			gone[view.PlaceholderUID(e.Token)] = true
		}
		in := placement.Input{Pod: pod, Nodes: []*state.NodeInfo{node}, Objects: ps.shard.View.Snapshot()}
		if !concern.None() {
			in.Nodes = ps.shard.View.Nodes()
		}
		if fits, _, err := profile.FitsWithout(in, node, gone); err == nil && fits {
			names = append(names, node.Node.Name)
		}
		if len(names) > events.MaxWithheld {
			return nil
		}
	}
	return names
}
