package search

import (
	"maps"
	"slices"

	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/placement/rule"
	"github.com/berth-scheduler/berth/pkg/state"
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
//
// Only nodes that are about to be chosen are judged, best first, since thousands of pods may be nominated.

// nominated returns the pods that are nominated to nodes, by the name of the node and sorted by UID; none for a
// recorded decision of a version that did not count them.
func (x *Searcher) nominated() map[string][]*state.Pod {
	if x.Recorded != nil && !x.Recorded.Nominations {
		return nil
	}
	return x.Shard.View.Nominated()
}

// holdsRoomAgainst reports whether a nominated pod holds room against a pod.
func (x *Searcher) holdsRoomAgainst(pod, nominated *state.Pod) bool {
	_, ours := x.Shard.Profiles[nominated.SchedulerName]
	return ours && nominated.UID != pod.UID && nominated.Priority >= pod.Priority
}

// HoldsRoom reports whether pods that are nominated to a node hold room there against a pod, be it enough for both or
// not.
func (x *Searcher) HoldsRoom(pod *state.Pod, node string) bool {
	return slices.ContainsFunc(x.nominated()[node], func(p *state.Pod) bool { return x.holdsRoomAgainst(pod, p) })
}

// besides judges nodes for a pod by the pods that are nominated to them, each node once. nil judges nothing: no pod is
// nominated.
type besides struct {
	search  *Searcher
	profile *placement.Profile
	in      placement.Input
	// judge is nil until it is needed; err is its error.
	judge *placement.Beside
	err   error
	// taken are the rejections by node name; free are the other nodes that have been judged.
	taken map[string]placement.Failure
	free  map[string]bool
}

// besidesOf returns the besides of a pod, with the objects that its rules look at.
func (x *Searcher) besidesOf(pod *state.Pod, profile *placement.Profile, objects rule.Objects) *besides {
	if len(x.nominated()) == 0 {
		return nil
	}
	return &besides{
		search: x, profile: profile, taken: map[string]placement.Failure{}, free: map[string]bool{},
		in: placement.Input{Pod: pod, Nodes: x.Shard.View.Nodes(), Objects: objects},
	}
}

// takes reports whether nominations leave the pod no room on a node.
func (b *besides) takes(n *state.NodeInfo) bool {
	if b == nil || b.err != nil || b.free[n.Node.Name] {
		return false
	}
	if _, is := b.taken[n.Node.Name]; is {
		return true
	}
	f, is := b.rejects(n)
	if is {
		b.taken[n.Node.Name] = f
	} else {
		b.free[n.Node.Name] = true
	}
	return is
}

// rejects judges a node.
func (b *besides) rejects(n *state.NodeInfo) (placement.Failure, bool) {
	var pods []*state.Pod
	for _, p := range b.search.nominated()[n.Node.Name] {
		if b.search.holdsRoomAgainst(b.in.Pod, p) {
			pods = append(pods, p)
		}
	}
	if len(pods) == 0 {
		return placement.Failure{}, false
	}
	if b.judge == nil {
		if b.judge, b.err = b.profile.Beside(b.in); b.err != nil {
			return placement.Failure{}, false
		}
	}
	return b.judge.Rejects(n, pods)
}

// failed returns why nodes could not be judged.
func (b *besides) failed() error {
	if b == nil {
		return nil
	}
	return b.err
}

// opinions returns the rejections as opinions about the nodes, nil for none.
func (b *besides) opinions() map[string]placement.Opinion {
	if b == nil || len(b.taken) == 0 {
		return nil
	}
	opinions := make(map[string]placement.Opinion, len(b.taken))
	for name, f := range b.taken {
		opinions[name] = placement.Opinion{Rejected: true, Plugin: f.Plugin, Reasons: f.Reasons}
	}
	return opinions
}

// SpareNominated returns opinions to which is added that no pod is evicted for a pod on nodes where room is held
// against it by nominations. The map that is given is not changed.
func (x *Searcher) SpareNominated(
	pod *state.Pod, opinions map[string]placement.Opinion,
) map[string]placement.Opinion {
	if len(x.nominated()) == 0 {
		return opinions
	}
	all := maps.Clone(opinions)
	for name := range x.nominated() {
		if !x.HoldsRoom(pod, name) {
			continue
		}
		if all == nil {
			all = map[string]placement.Opinion{}
		}
		o := all[name]
		o.Rejected, o.Spared = true, true
		all[name] = o
	}
	return all
}
