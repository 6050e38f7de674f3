package placement

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	configv1 "k8s.io/kube-scheduler/config/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"github.com/berth-scheduler/berth/pkg/placement/rule"
	"github.com/berth-scheduler/berth/pkg/state"
)

// Extenders is the name under which diagnoses list nodes that an extender has rejected. Source:
// framework.ExtenderName. It is the name of no rule, so any change wakes a pod that was rejected by it.
const Extenders = "Extender"

// extenderScale scales the points of an extender, 0 to MaxExtenderPriority, to those of rules.
const extenderScale = rule.MaxScore / extenderv1.MaxExtenderPriority

// ExtenderPoints returns the points of a node that an extender of some weight has given a score. Source:
// prioritizeNodes in pkg/scheduler/schedule_one.go.
func ExtenderPoints(score, weight int64) int64 { return score * weight * extenderScale }

// OrderedExtenders returns the extenders in the order in which they are called: those that can be ignored last.
// Source: buildExtenders in pkg/scheduler/scheduler.go.
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

// ranksByExtender reports whether an extender influences where pods are placed.
func ranksByExtender(e configv1.Extender) bool { return e.FilterVerb != "" || e.PrioritizeVerb != "" }

// Interested reports whether an extender is called for a pod at all: it manages a resource that one of the pod's
// containers requests, or it does not list managed resources. Source: HTTPExtender.IsInterested.
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
