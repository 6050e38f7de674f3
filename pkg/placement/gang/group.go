package gang

import (
	"cmp"
	"iter"
	"slices"

	corev1 "k8s.io/api/core/v1"
	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/placement/rule"
	"github.com/berth-scheduler/berth/pkg/state"
)

// Group holds the requirements of a group of pods. It is immutable.
type Group struct {
	Namespace, Name string
	// UID is that of the PodGroup: one that is deleted and created again under its name is another group.
	UID string
	// Gang: the members are placed together, or none of them. A group without it has the policy "basic".
	Gang bool
	// MinCount is how many members must be placed for any to be, at least 1 for a gang.
	MinCount int
	// Topology are the label keys of nodes for each of which all members must be on nodes of one value.
	Topology []string
}

// Together reports whether the members must be decided about together.
func (g *Group) Together() bool { return g.Gang || len(g.Topology) > 0 }

// Same reports whether two groups have the same requirements; nil is a group without an object.
func (g *Group) Same(o *Group) bool {
	if g == nil || o == nil {
		return g == o
	}
	return g.UID == o.UID && g.Gang == o.Gang && g.MinCount == o.MinCount && slices.Equal(g.Topology, o.Topology)
}

// Of returns the group that a pod is a member of. member is false for a pod without a group. The group is nil if its
// object does not exist.
func Of(pod *state.Pod, objects rule.Objects) (g *Group, member bool) {
	name := pod.PodGroup()
	if name == "" {
		return nil, false
	}
	return Find(objects, pod.Namespace, name), true
}

// Find returns a group by name; nil if there is none.
func Find(objects rule.Objects, namespace, name string) *Group {
	obj, ok := rule.Find[*schedulingv1alpha2.PodGroup](objects, events.KindPodGroup, namespace, name)
	if !ok {
		return nil
	}
	return New(obj)
}

// New returns the group of an object.
func New(obj *schedulingv1alpha2.PodGroup) *Group {
	g := &Group{Namespace: obj.Namespace, Name: obj.Name, UID: string(obj.UID), MinCount: 1}
	if policy := obj.Spec.SchedulingPolicy.Gang; policy != nil {
		g.Gang = true
		g.MinCount = max(int(policy.MinCount), 1)
	}
	if c := obj.Spec.SchedulingConstraints; c != nil {
		for _, t := range c.Topology {
			g.Topology = append(g.Topology, t.Key)
		}
	}
	return g
}

// Members are the pods of a group, by how far they are. Pods that have ended are none of them.
type Members struct {
	// Waiting have no node and no gates, and are not being deleted; in the order of their UIDs.
	Waiting []*state.Pod
	// Placed are bound, and are not being deleted: those that leave must not count for the minimum of others that come.
	Placed []*state.Pod
	// Others are gated, or being deleted.
	Others int
}

// Compare is the order in which the members of a gang are decided: by priority, then by age, then by name.
func Compare(a, b *state.Pod) int {
	return cmp.Or(cmp.Compare(b.Priority, a.Priority), a.Created().Compare(b.Created().Time), cmp.Compare(a.Name, b.Name))
}

// Known counts the members that upstream counts against the minimum before it tries a gang: all that exist. Source:
// PodGroupState.AllPodsCount in pkg/scheduler/backend/cache/podgroupstate.go.
func (m *Members) Known() int { return len(m.Waiting) + len(m.Placed) + m.Others }

// Sort sorts the pods of a group.
func Sort(pods iter.Seq[*state.Pod]) Members {
	var m Members
	for p := range pods {
		switch {
		case p.Terminal:
		case p.Gated || p.Deleting:
			m.Others++
		case p.NodeName != "":
			m.Placed = append(m.Placed, p)
		default:
			m.Waiting = append(m.Waiting, p)
		}
	}
	return m
}

// Shows reports whether a pod's condition has a message already.
func Shows(pod *state.Pod, message string) bool {
	return slices.ContainsFunc(pod.Status().Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Message == message
	})
}

// Known counts the pods of a group as Members.Known does.
func Known(pods iter.Seq[*state.Pod]) (n int) {
	for p := range pods {
		if !p.Terminal {
			n++
		}
	}
	return n
}
