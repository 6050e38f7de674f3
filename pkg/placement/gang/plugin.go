package gang

import (
	"fmt"
	"slices"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/placement/names"
	"github.com/berth-scheduler/berth/pkg/placement/rule"
	"github.com/berth-scheduler/berth/pkg/state"
)

// Plugin is upstream's rule GangScheduling, as far as it is about one pod: a member of a group is not worth trying
// while its PodGroup does not exist, or while a gang has fewer members than it needs. It rejects no node. Upstream has
// it disabled by default; here every profile has it, as members must not be placed one by one. Source:
// plugins/gangscheduling/gangscheduling.go.
type Plugin struct{}

// Name implements rule.Plugin.
func (Plugin) Name() string { return names.GangScheduling }

// Compile implements rule.Plugin.
func (Plugin) Compile(*state.Pod, rule.Objects) (rule.Compiled, error) { return rule.Compiled{}, nil }

// Expects implements rule.Expecter, with upstream's messages.
func (Plugin) Expects(pod *state.Pod, objects rule.Objects) (what string) {
	g, member := Of(pod, objects)
	switch {
	case !member:
		return ""
	case g == nil:
		return NoObject(pod.PodGroup())
	case g.Gang && Known(objects.PodsOfGroup(pod.Namespace, g.Name)) < g.MinCount:
		return TooFew
	}
	return ""
}

// NoObject is the message for a pod whose PodGroup does not exist. Source: PreEnqueue.
func NoObject(name string) string {
	return fmt.Sprintf("waiting for pods's pod group %q to appear in scheduling queue", name)
}

// TooFew is the message for members of a gang that has fewer pods than it needs. Source: PreEnqueue.
const TooFew = "waiting for minCount pods from a gang to appear in scheduling queue"

// WaitsForOthers is the message for members that would fit, of a gang of which too few do. Source:
// submitPodGroupAlgorithmResult, which puts the group's status before that of Permit; what the framework adds to a
// status of Permit is left out.
const WaitsForOthers = "pod group is unschedulable, waiting for minCount pods from a gang to be scheduled"

// Events implements rule.Plugin. The queue itself has a group tried again when members come.
func (Plugin) Events() []rule.Event {
	return []rule.Event{
		{Kind: events.KindPodGroup, Actions: rule.Add},
		{Kind: events.KindNode, Actions: rule.Add | rule.UpdateNodeLabel},
	}
}

// Hint implements rule.Plugin: the object of the group has come; or a node has, or has changed its labels, that is in a
// domain of the group's topology.
func (Plugin) Hint(pod *state.Pod, c rule.Change) bool {
	if pod.PodGroup() == "" {
		return false
	}
	if c.Kind == events.KindNode {
		g, _ := Of(pod, rule.OrNone(c.Objects))
		return g != nil && len(g.Topology) > 0 && c.NewNode != nil && !slices.ContainsFunc(g.Topology, func(key string) bool {
			return c.NewNode.Object.Labels[key] == ""
		})
	}
	o := c.NewObject
	return o != nil && o.Namespace == pod.Namespace && o.Name == pod.PodGroup()
}

// Interest implements rule.Classifier: all members get the same hint.
func (Plugin) Interest(pod *state.Pod) rule.Interest {
	return rule.Interest{Class: rule.Joined(pod.Namespace, pod.PodGroup()), Nodes: rule.Everything}
}
