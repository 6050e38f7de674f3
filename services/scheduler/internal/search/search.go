package search

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/events/evidence"
	"github.com/berth-scheduler/berth/pkg/ledger/guard"
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/placement/engine"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/services/scheduler/internal/attempt"
	"github.com/berth-scheduler/berth/services/scheduler/internal/claims"
	"github.com/berth-scheduler/berth/services/scheduler/internal/crossnode"
	"github.com/berth-scheduler/berth/services/scheduler/internal/record"
	"github.com/berth-scheduler/berth/services/scheduler/internal/shard"
)

// Searcher finds the nodes that a pod may go to.
type Searcher struct {
	Shard  *shard.State
	Record *record.Recorder
	Rules  *crossnode.Rules
	// Extend adds to a query what extenders and plugins have said, or what they must be asked about.
	Extend func(engine.Query, *attempt.Attempt) engine.Query
	// Held returns the nodes with places that are held, by UID.
	Held func() map[string]int32
	// Start is where the next search of a profile that samples begins: among all nodes, and among the home ones.
	Start [2]int
	home  homeNodes
}

const (
	// minHome is how many home nodes a shard must have to try them first: fewer are not a
	// fair sample of the cluster, and in a small cluster a lost race costs little.
	minHome = 64
	// minNarrowed is how many home nodes have to let a pod pass that has rules about where it may go, for it to
	// go to one of them: with fewer there is little to choose from, and the others have as few.
	minNarrowed = 8
	// timedShare: of so many attempts, the rules of one are timed. Source: upstream's
	// pluginMetricsSamplePercent (pkg/scheduler/schedule_one.go) of 10.
	timedShare = 10
)

// Find evaluates a pod with volumes and devices as they are promised. If hard spread of the pod counts others whose
// places are only held, the nodes are left that it passes without them, too.
func (x *Searcher) Find(
	a *attempt.Attempt, profile *placement.Profile, v claims.Supply, concern *guard.Concern, avoided []string,
) record.Look {
	onHold := x.onHold(a.Pod, profile, concern)
	found := x.evaluateWith(a, profile, v, scope{avoided: avoided, whole: len(onHold) > 0})
	return x.besideHolds(a, profile, v, found, onHold)
}

func (x *Searcher) evaluateWith(a *attempt.Attempt, p *placement.Profile, v claims.Supply, s scope) record.Look {
	defer x.Shard.LookUp(v)()
	return x.evaluate(p, a, s)
}

// scope is which nodes an evaluation finds.
type scope struct {
	// avoided are UIDs of nodes that the pod's workload avoids.
	avoided []string
	// whole: all that pass, not the best of them, nor those that are tried first.
	whole bool
}

// evaluate asks the home nodes first when that costs the pod nothing, then all usable nodes, where home nodes rank
// before others of the same total. Rules that count pods elsewhere see all nodes either way.
func (x *Searcher) evaluate(profile *placement.Profile, a *attempt.Attempt, s scope) record.Look {
	avoided := s.avoided
	basis := x.Record.Basis(profile, avoided)
	q := engine.Query{Pod: a.Pod, Seed: attempt.Seed(a.Pod.UID, a.Offer.Attempt), HomeFirst: x.Shard.HomeFirst}
	if q.HomeFirst {
		x.markHome()
	}
	if !x.Shard.NoEvidence {
		q.Weigh = evidence.MaxCandidates
	}
	if len(avoided) > 0 {
		q.Limit = placement.TopK + len(avoided)
	}
	if profile.Extended(a.Pod) {
		q = x.Extend(q, a)
		if q.Opinions != nil {
			basis.Way = evidence.WayAdvised
		}
	} else if q.HomeFirst && plain(a.Pod) && !s.whole {
		if usable, home := x.Shard.Engine.Candidates(); home >= minHome && home < usable {
			home := q
			home.Home = true
			if r := without(avoided, x.Query(profile, home)); r.FeasibleCount >= enoughHome(a.Pod) {
				return record.Look{Result: r, Home: true, Basis: basis}
			}
		}
	}
	if s.whole {
		q.Limit, q.Everywhere = -1, true
	}
	return record.Look{Result: without(avoided, x.Query(profile, q)), Basis: basis}
}

// without takes nodes out of those that a pod may go to.
func without(avoided []string, r placement.Result) placement.Result {
	if len(avoided) == 0 {
		return r
	}
	before := len(r.Feasible)
	r.Weighed = placement.Weighed{} // its places would not be those of the nodes any more
	r.Feasible = slices.DeleteFunc(r.Feasible, func(s placement.Scored) bool {
		return slices.Contains(avoided, s.Node.Node.UID)
	})
	r.FeasibleCount -= before - len(r.Feasible)
	return r
}

// Query asks the engine, and moves on where the next search begins.
func (x *Searcher) Query(profile *placement.Profile, q engine.Query) placement.Result {
	start := &x.Start[0]
	if q.Home {
		start = &x.Start[1]
	}
	q.Start = *start
	q.Laps, q.TimeRules = x.Shard.Laps, q.Seed%timedShare == 0
	r := x.Shard.Engine.Evaluate(profile, q)
	if r.NodesTotal > 0 {
		*start = (*start + r.Examined) % r.NodesTotal
	}
	return r
}

// plain says that the pod states no preference among the nodes that it may go to, so that a subset of them
// is as good a choice as all.
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

// enoughHome is how many home nodes have to let a plain pod pass for it to go to one of them.
func enoughHome(p *state.Pod) int {
	spec := &p.Template.Spec
	if len(spec.NodeSelector) > 0 || spec.Affinity != nil || len(spec.TopologySpreadConstraints) > 0 {
		return minNarrowed
	}
	return 1
}

// PreferNode puts a node first if it is among some.
func PreferNode(ranked []placement.Scored, nodeUID string) {
	for i := range ranked {
		if ranked[i].Node.Node.UID == nodeUID {
			ranked[0], ranked[i] = ranked[i], ranked[0]
			return
		}
	}
}
