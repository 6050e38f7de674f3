package search

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/events/evidence"
	"github.com/berth-scheduler/berth/pkg/ledger/guard"
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/placement/engine"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/services/scheduler/decide/attempt"
	"github.com/berth-scheduler/berth/services/scheduler/decide/claims"
	"github.com/berth-scheduler/berth/services/scheduler/decide/contention"
	"github.com/berth-scheduler/berth/services/scheduler/decide/crossnode"
	"github.com/berth-scheduler/berth/services/scheduler/decide/record"
	"github.com/berth-scheduler/berth/services/scheduler/decide/shard"
)

// Searcher finds the nodes that a pod may be placed on. Its own state is where the next search starts, and which
// nodes are home nodes.
type Searcher struct {
	Shard  *shard.State
	Record *record.Recorder
	Rules  *crossnode.Rules
	// Extend adds the answers of extenders and plugins to a query, or extends it to the nodes that they must be
	// asked about.
	Extend func(engine.Query, *attempt.Attempt) engine.Query
	// HeldNodes returns the nodes with held places, by UID.
	HeldNodes func() map[string]int32
	// Start is where the next search of a profile that samples begins: among all nodes, and among the home nodes.
	Start [2]int
	home  homeNodes
	// Contention estimates whether other shards choose the same nodes at the same time.
	Contention *contention.Meter
	// Recorded, if not nil, is the scope of a recorded decision that is made again.
	Recorded *Scope
}

const (
	// minHome is how many home nodes a shard must have to try them first: fewer are not a fair sample of the
	// cluster. With fewer, home nodes that are nearly as good as the best are preferred (Scope.Near).
	minHome = 64
	// minNarrowed is how many home nodes must pass a pod that restricts its nodes, before it is placed on one of
	// them: with fewer there is little to choose from, and other shards have as few.
	minNarrowed = 8
	// timedShare: the rules are timed for one in so many attempts. Source: upstream's pluginMetricsSamplePercent
	// (pkg/scheduler/schedule_one.go) of 10.
	timedShare = 10
)

// Find evaluates a pod with its volumes and devices as they are promised. If hard spread of the pod counts pods
// whose places are only held, the result has only the nodes that also pass without those pods. The feasible nodes
// are ranked, best first. The result belongs to the engine: it is valid until the next query.
func (x *Searcher) Find(
	a *attempt.Attempt, profile *placement.Profile, v claims.Supply, concern *guard.Concern, avoided []string,
) record.Evaluation {
	onHold := x.heldPods(a.Pod, profile, concern)
	beside := x.besidesOf(a.Pod, profile, v.Lookups(x.Shard.View.Snapshot()))
	l := limits{avoided: avoided, beside: beside, whole: len(onHold) > 0}
	found := x.findWithin(a, profile, v, l, onHold)
	samples := profile.SampleSize(found.NodesTotal) < found.NodesTotal
	if found.DependsOnHolds && samples && found.Examined < found.NodesTotal {
		l.unsampled = true
		again := x.findWithin(a, profile, v, l, onHold)
		again.Basis = found.Basis
		return again
	}
	return found
}

// findWithin is Find within limits. onHold are the UIDs of the held pods without which the nodes must pass.
func (x *Searcher) findWithin(
	a *attempt.Attempt, profile *placement.Profile, v claims.Supply, l limits, onHold map[string]bool,
) record.Evaluation {
	done := x.Shard.UsePromises(v)
	found := x.evaluate(profile, a, l)
	done()
	if taken := l.beside.opinions(); len(taken) > 0 && nothingLeft(found.Result) {
		found.Diagnosis = x.diagnoseRejected(a, profile, v, taken)
	}
	if len(onHold) == 0 {
		return found
	}
	return x.requireWithoutHolds(a, profile, v, found, onHold)
}

// limits are the limits on the nodes that an evaluation finds. The zero value lets the query decide.
type limits struct {
	// avoided are UIDs of nodes that the pod's workload avoids.
	avoided []string
	// beside judges where pods that are nominated leave no room.
	beside *besides
	// whole: all nodes that pass, instead of the best ones or of those that are tried first.
	whole bool
	// unsampled: all nodes are evaluated even if the profile samples.
	unsampled bool
}

// evaluate finds the nodes that pass, in the scope of the decision (see Scope). Rules that count pods on other nodes
// see all nodes in every scope, and home nodes rank before other nodes of the same total. All nodes are evaluated for
// pods about which extenders or plugins are asked, since these must be asked about all nodes, and if hard spread
// depends on holds.
func (x *Searcher) evaluate(profile *placement.Profile, a *attempt.Attempt, l limits) record.Evaluation {
	basis := x.Record.Basis(profile, l.avoided)
	q := engine.Query{Pod: a.Pod, Seed: attempt.Seed(a.Pod.UID, a.Offer.Attempt), HomeFirst: x.Shard.HomeFirst,
		Unsampled: l.unsampled}
	if q.HomeFirst {
		x.markHome()
	}
	if !x.Shard.NoEvidence {
		q.Weigh = evidence.MaxCandidates
	}
	if len(l.avoided) > 0 {
		q.Limit = placement.TopK + len(l.avoided)
	}
	if profile.Extended(a.Pod) {
		q = x.Extend(q, a)
		if q.Opinions != nil {
			basis.Way = evidence.WayAdvised
		}
	} else if q.HomeFirst && !l.whole && plain(a.Pod) {
		s := x.scope(profile)
		basis.AllNodes, basis.Near = !s.Home, int32(s.Near)
		if r, ok := x.atHome(profile, q, s, l); ok && r.FeasibleCount >= enoughHome(a.Pod) &&
			(s.Swayed || !r.Swayed) {
			return x.found(record.Evaluation{Result: r, Home: true, Basis: basis})
		}
		q.Near = s.Near
	}
	// All nodes that pass are needed, since those that do not pass without the holds are removed afterwards.
	if l.whole {
		q.Limit, q.Everywhere = -1, true
	}
	r := x.permittedOfAll(profile, q, l)
	return x.found(record.Evaluation{Result: r, Basis: basis})
}

// atHome evaluates the home nodes only, if the scope has them tried first. ok is false if it does not, or if there are
// too few of them. If all usable nodes are home nodes, the query would be that for all nodes.
func (x *Searcher) atHome(
	profile *placement.Profile, q engine.Query, s Scope, l limits,
) (r placement.Result, ok bool) {
	usable, home := x.Shard.Engine.Candidates()
	if !s.Home || home < minHome || home == usable {
		return r, false
	}
	q.Home = true
	return x.permitted(profile, q, l), true
}

// found completes the result of a search, and counts it.
func (x *Searcher) found(e record.Evaluation) record.Evaluation {
	e.Usable, _ = x.Shard.Engine.Candidates()
	x.Record.Effects.CountSearch(e.Home)
	return e
}

// Query runs a query of the engine, and advances the start of the next search: with a profile that samples, each
// search begins where the last one ended, as upstream's do.
func (x *Searcher) Query(profile *placement.Profile, q engine.Query) placement.Result {
	start := &x.Start[0]
	if q.Home {
		start = &x.Start[1]
	}
	q.Start = *start
	q.Timer, q.TimeRules = x.Shard.Laps, q.Seed%timedShare == 0
	r := x.Shard.Engine.Evaluate(profile, q)
	if r.NodesTotal > 0 {
		*start = (*start + r.Examined) % r.NodesTotal
	}
	return r
}

// plain reports whether a pod may be placed on a home node before all nodes have been seen: it has no preferences
// among nodes that another node could satisfy better.
func plain(p *state.Pod) bool {
	spec := &p.Template.Spec
	if slices.ContainsFunc(spec.TopologySpreadConstraints, func(s corev1.TopologySpreadConstraint) bool {
		return s.WhenUnsatisfiable != corev1.DoNotSchedule
	}) {
		return false
	}
	about := spec.Affinity
	if about == nil {
		return true
	}
	preferred := 0
	if about.NodeAffinity != nil {
		preferred += len(about.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	if about.PodAffinity != nil {
		preferred += len(about.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	if about.PodAntiAffinity != nil {
		preferred += len(about.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	return preferred == 0
}

// enoughHome returns how many home nodes must pass a plain pod before it is placed on one of them.
func enoughHome(p *state.Pod) int {
	spec := &p.Template.Spec
	if len(spec.NodeSelector) > 0 || spec.Affinity != nil || len(spec.TopologySpreadConstraints) > 0 {
		return minNarrowed
	}
	return 1
}

// PreferNode moves a node to the front of the ranked ones, if it is among them.
func PreferNode(ranked []placement.Scored, nodeUID string) {
	for i := range ranked {
		if ranked[i].Node.Node.UID == nodeUID {
			ranked[0], ranked[i] = ranked[i], ranked[0]
			return
		}
	}
}
