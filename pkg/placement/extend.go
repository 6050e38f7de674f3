package placement

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	configv1 "k8s.io/kube-scheduler/config/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"github.com/berth-scheduler/berth/pkg/state"
)

// Extenders is the name by which diagnoses list nodes that an extender has turned down. Source:
// framework.ExtenderName; any change wakes a pod that waits for it, as it is the name of no rule.
const Extenders = "Extender"

// extenderScale brings the points of an extender, 0 to MaxExtenderPriority, to those of rules.
const extenderScale = MaxScore / extenderv1.MaxExtenderPriority

// Opinion is what custom plugins and extenders think of one node for one pod, together.
type Opinion struct {
	// Rejected: the pod must not go there. Unresolvable: it would not help if pods left, so that nobody is evicted
	// there for the pod.
	Rejected, Unresolvable bool
	// Plugin is who rejects it; empty for an extender. Reasons say why, in their words; none if they
	// gave none.
	Plugin  string
	Reasons []string
	// Points are added to the total, weights and scale included (see ExtenderPoints).
	Points int64
}

// ExtenderPoints are the points of a node that an extender of some weight has given a score.
// Source: prioritizeNodes in pkg/scheduler/schedule_one.go.
func ExtenderPoints(score, weight int64) int64 { return score * weight * extenderScale }

// OrderedExtenders are extenders in the order in which they are asked: those that can be ignored
// last. Source: buildExtenders in pkg/scheduler/scheduler.go.
func OrderedExtenders(given []configv1.Extender) []configv1.Extender {
	ordered := slices.Clone(given)
	slices.SortStableFunc(ordered, func(a, b configv1.Extender) int {
		switch {
		case a.Ignorable == b.Ignorable:
			return 0
		case b.Ignorable:
			return -1
		default:
			return 1
		}
	})
	return ordered
}

// ranksByExtender tells whether an extender has a say in where pods go.
func ranksByExtender(e configv1.Extender) bool { return e.FilterVerb != "" || e.PrioritizeVerb != "" }

// ShowsObjects tells whether somebody outside is shown pods and nodes, and may look at what no rule
// does.
func (c ProfileConfig) ShowsObjects() bool { return len(c.Extenders) > 0 || c.Custom != nil }

// Extended tells whether custom plugins or extenders have a say in where a pod may go: then a node is
// chosen among those that have an Opinion.
func (p *Profile) Extended(pod *state.Pod) bool {
	return p.custom.decides() || slices.ContainsFunc(p.extenders, func(e configv1.Extender) bool {
		return ranksByExtender(e) && Interested(e, pod)
	})
}

// AdvisedOnVictims tells whether extenders are asked who may go for a pod: those with a preemptVerb about nodes
// and victims, those with a filterVerb alone about the nodes.
func (p *Profile) AdvisedOnVictims(pod *state.Pod) bool {
	return slices.ContainsFunc(p.extenders, func(e configv1.Extender) bool {
		return (e.PreemptVerb != "" || e.FilterVerb != "") && Interested(e, pod)
	})
}

// FilteredByExtenders tells whether an extender has to let a pod pass before it may go to a node.
func (p *Profile) FilteredByExtenders(pod *state.Pod) bool {
	return slices.ContainsFunc(p.extenders, func(e configv1.Extender) bool {
		return e.FilterVerb != "" && Interested(e, pod)
	})
}

// Interested tells whether an extender is asked about a pod at all: it manages a resource that one
// of the pod's containers requests, or does not say what it manages. Source: HTTPExtender.IsInterested.
func Interested(e configv1.Extender, pod *state.Pod) bool {
	if len(e.ManagedResources) == 0 {
		return true
	}
	if pod.Template == nil {
		return false
	}
	managed := func(name corev1.ResourceName) bool {
		return slices.ContainsFunc(e.ManagedResources, func(m configv1.ExtenderManagedResource) bool {
			return m.Name == string(name)
		})
	}
	asks := func(c corev1.Container) bool {
		for name := range c.Resources.Requests {
			if managed(name) {
				return true
			}
		}
		for name := range c.Resources.Limits {
			if managed(name) {
				return true
			}
		}
		return false
	}
	spec := &pod.Template.Spec
	return slices.ContainsFunc(spec.Containers, asks) || slices.ContainsFunc(spec.InitContainers, asks)
}

// rejectedByExtender tells whether a custom plugin or an extender has turned a node down that the rules
// let pass.
func (in *Input) rejectedByExtender(n *state.NodeInfo) bool { return in.Opinions[n.Node.Name].Rejected }

// advise adds the points of custom plugins and extenders to the totals of the feasible nodes.
func (e *evaluation) advise() {
	if len(e.Opinions) == 0 {
		return
	}
	for i, n := range e.feasible {
		e.totals[i] += e.Opinions[n.Node.Name].Points
	}
}
