package search

import (
	"maps"
	"slices"
	"strings"

	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/services/scheduler/decide/claims"
)

// A pod may be nominated to a node by its status alone: an autoscaler or Kueue has written the name, or another
// scheduler. Nothing is held for it in the ledger, but it holds room against pods that are no more important: these are
// placed on the node only if they fit there both with the nominated pods and without them. A more important pod may
// take the room, and the nominated pod may go elsewhere. Source: RunFilterPluginsWithNominatedPods in
// pkg/scheduler/framework/runtime/framework.go.
//
// Shards learn of nominations from the facts, each at its own time, and no transaction compares them. A nomination
// therefore holds from when a shard has applied the fact; a place that another shard gives away before that comes
// first, as with kube-scheduler, whose informer is as late. When the nominated pod is reserved, it counts in the ledger
// instead, in one step: by the same view, it counts nowhere before.
//
// A node where a nomination stands in the way takes part in the comparison of scores, unlike upstream's, but is not
// chosen. No pod is evicted there for a pod that is no more important than the nominated one: upstream does so if the
// node then has room for both.

// besidesOf returns the pods that are nominated to nodes, and that a pod has to leave room for, by node name and sorted
// by UID; nil for none.
func (x *Searcher) besidesOf(pod *state.Pod) map[string][]*state.Pod {
	all := x.Shard.View.Nominated()
	if len(all) == 0 || x.Recorded != nil && !x.Recorded.Nominations {
		return nil
	}
	var besides map[string][]*state.Pod
	for uid, p := range all {
		if _, ours := x.Shard.Profiles[p.SchedulerName]; !ours || uid == pod.UID || p.Priority < pod.Priority {
			continue
		}
		if besides == nil {
			besides = map[string][]*state.Pod{}
		}
		name := p.Status().NominatedNodeName
		besides[name] = append(besides[name], p)
	}
	for _, pods := range besides {
		slices.SortFunc(pods, func(a, b *state.Pod) int { return strings.Compare(a.UID, b.UID) })
	}
	return besides
}

// taken are the nodes that a pod may not use because of pods that are nominated to them.
type taken struct {
	// by has the rejections, by node name; uids are the UIDs of these nodes.
	by   map[string]placement.Failure
	uids []string
	// own: the node that the pod itself is nominated to is one of them.
	own bool
}

// takenFor returns the nodes that a pod may not use because of nominations.
func (x *Searcher) takenFor(pod *state.Pod, profile *placement.Profile, v claims.Supply) (t taken, err error) {
	besides := x.besidesOf(pod)
	if besides == nil {
		return taken{}, nil
	}
	in := placement.Input{Pod: pod, Nodes: x.Shard.View.Nodes(), Objects: v.Lookups(x.Shard.View.Snapshot())}
	if t.by, err = profile.RejectedBeside(in, besides); err != nil {
		return taken{}, err
	}
	for _, n := range in.Nodes {
		if _, is := t.by[n.Node.Name]; is {
			t.uids = append(t.uids, n.Node.UID)
		}
	}
	_, t.own = t.by[pod.Status().NominatedNodeName]
	return t, nil
}

// opinions returns the rejections as opinions about the nodes.
func (t taken) opinions() map[string]placement.Opinion {
	opinions := make(map[string]placement.Opinion, len(t.by))
	for name, f := range t.by {
		opinions[name] = placement.Opinion{Rejected: true, Plugin: f.Plugin, Reasons: f.Reasons}
	}
	return opinions
}

// SpareNominated returns opinions to which is added that no pod is evicted for a pod on nodes where room is held
// against it by nominations. The map that is given is not changed.
func (x *Searcher) SpareNominated(
	pod *state.Pod, opinions map[string]placement.Opinion,
) map[string]placement.Opinion {
	besides := x.besidesOf(pod)
	if besides == nil {
		return opinions
	}
	all := maps.Clone(opinions)
	if all == nil {
		all = make(map[string]placement.Opinion, len(besides))
	}
	for name := range besides {
		o := all[name]
		o.Rejected, o.Unresolvable = true, true
		all[name] = o
	}
	return all
}
