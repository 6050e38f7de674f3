package scaler

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

const (
	// toBeDeleted is the taint of a node that is being removed (utils/taints).
	toBeDeleted = "ToBeDeletedByClusterAutoscaler"
	// newPods is how young pods may be for one more loop without a new node, in case more arrive.
	newPods = 2 * time.Second
	// unremovableFor is how long a node is not looked at again whose pods fit nowhere else.
	unremovableFor = 10 * time.Second
)

// view is the cluster as one loop reads it.
type view struct {
	nodes   []*corev1.Node
	pods    []*corev1.Pod
	budgets []*policyv1.PodDisruptionBudget
	storage
}

// memory is what loops know of earlier ones.
type memory struct {
	// added and failed are the last time that nodes were added, and that a removal failed.
	added, failed time.Time
	// unneeded is since when nodes are superfluous, unremovable until when nodes are not looked at, by name.
	unneeded, unremovable map[string]time.Time
	// empty and drained are nodes that are being removed, by name.
	empty, drained map[string]bool
}

func newMemory() *memory {
	return &memory{
		unneeded: map[string]time.Time{}, unremovable: map[string]time.Time{},
		empty: map[string]bool{}, drained: map[string]bool{},
	}
}

// plan is what one loop decides.
type plan struct {
	// add is how many nodes are added.
	add int
	// empty and drain are nodes to remove, as they are or after their pods were evicted.
	empty, drain []string
}

// decide is one loop (StaticAutoscaler.RunOnce).
func (m *memory) decide(cfg Config, v view, now time.Time) plan {
	sim, waiting := m.simulate(cfg, v)
	var p plan
	if len(waiting) > 0 && !allNew(waiting, now) {
		p.add = min(sim.needed(cfg.template(), waiting), cfg.Most-cfg.count(v.nodes))
		if p.add > 0 {
			m.added = now
		}
	}
	removable := m.superfluous(cfg, v, sim, now)
	if p.add > 0 || now.Sub(m.added) < cfg.AfterAdd || !m.failed.IsZero() && now.Sub(m.failed) < cfg.AfterAdd {
		return p
	}
	for _, r := range removable {
		if now.Sub(m.unneeded[r.name]) < cfg.Unneeded {
			continue
		}
		switch {
		case r.moved == 0 && len(m.empty)+len(m.drained)+len(p.empty) < cfg.AtOnce:
			p.empty = append(p.empty, r.name)
		case r.moved > 0 && len(m.drained)+len(p.drain) < cfg.DrainedAtOnce:
			p.drain = append(p.drain, r.name)
		}
	}
	return p
}

// simulate returns the cluster with the pods that wait and fit, and the pods that wait and do not.
func (m *memory) simulate(cfg Config, v view) (*simulation, []*corev1.Pod) {
	sim, at := &simulation{storage: v.storage}, map[string]*room{}
	for _, node := range v.nodes {
		if cfg.elastic(node) && !ready(node) {
			node = cfg.upcoming(node) // it is about to be as the template
		}
		r := newRoom(node)
		at[node.Name], sim.rooms = r, append(sim.rooms, r)
	}
	var waiting []*corev1.Pod
	for _, pod := range v.pods {
		name := cmp.Or(pod.Spec.NodeName, pod.Status.NominatedNodeName)
		switch {
		case pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed:
		case pod.Spec.NodeName == "" && pod.DeletionTimestamp != nil:
		case name != "":
			if r := at[name]; r != nil {
				r.take(pod)
			}
			if m.drained[name] && movable(pod) {
				waiting = append(waiting, pod)
			}
		case unschedulable(pod):
			waiting = append(waiting, pod)
		}
	}
	slices.SortStableFunc(waiting, func(a, b *corev1.Pod) int { return cmp.Compare(priority(b), priority(a)) })
	return sim, slices.DeleteFunc(waiting, func(pod *corev1.Pod) bool { return sim.place(pod, anywhere) != nil })
}

// needed is how many nodes like the template the pods need.
func (s *simulation) needed(template *corev1.Node, pods []*corev1.Pod) int {
	fresh := &simulation{storage: s.storage}
	for _, group := range groups(pods, template) {
		left := group
		for len(left) > 0 && fresh.place(left[0], anywhere) != nil {
			left = left[1:]
		}
		for _, pod := range left {
			last := len(fresh.rooms) - 1
			if last >= 0 && fresh.place(pod, func(r *room) bool { return r == fresh.rooms[last] }) != nil {
				continue
			}
			if last >= 0 && len(fresh.rooms[last].pods) == 0 {
				break // it does not fit an empty node
			}
			next := newRoom(template)
			fresh.rooms = append(fresh.rooms, next)
			if fresh.place(pod, func(r *room) bool { return r == next }) == nil {
				break
			}
		}
	}
	return len(slices.DeleteFunc(fresh.rooms, func(r *room) bool { return len(r.pods) == 0 }))
}

// groups are the pods of one owner each, larger pods first.
func groups(pods []*corev1.Pod, template *corev1.Node) [][]*corev1.Pod {
	index, list := map[string]int{}, [][]*corev1.Pod{}
	for _, pod := range pods {
		owner := string(pod.UID)
		if c := metav1.GetControllerOf(pod); c != nil {
			owner = string(c.UID)
		}
		at, known := index[owner]
		if !known {
			at, list = len(list), append(list, nil)
			index[owner] = at
		}
		list[at] = append(list[at], pod)
	}
	slices.SortStableFunc(list, func(a, b []*corev1.Pod) int {
		return cmp.Compare(score(b[0], template), score(a[0], template))
	})
	return list
}

// score is the share of a node that a pod needs.
func score(pod *corev1.Pod, template *corev1.Node) float64 {
	r, empty := newRoom(template), newRoom(template)
	r.take(pod)
	return float64(empty.cpu-r.cpu)/float64(empty.cpu) + float64(empty.memory-r.memory)/float64(empty.memory)
}

func ready(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	}) && !slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == corev1.TaintNodeNotReady })
}

func unschedulable(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable
	})
}

// allNew reports whether even the oldest of the pods is new.
func allNew(pods []*corev1.Pod, now time.Time) bool {
	oldest := slices.MinFunc(pods, func(a, b *corev1.Pod) int {
		return a.CreationTimestamp.Compare(b.CreationTimestamp.Time)
	})
	return oldest.CreationTimestamp.Add(newPods).After(now)
}

func priority(pod *corev1.Pod) int32 {
	if pod.Spec.Priority == nil {
		return 0
	}
	return *pod.Spec.Priority
}

// movable reports whether a pod has to be placed elsewhere when its node is removed.
func movable(pod *corev1.Pod) bool {
	c := metav1.GetControllerOf(pod)
	return pod.DeletionTimestamp == nil && (c == nil || c.Kind != "DaemonSet" && c.Kind != "Node")
}

// budgetsOf are the budgets of a pod.
func budgetsOf(all []*policyv1.PodDisruptionBudget, pod *corev1.Pod) []*policyv1.PodDisruptionBudget {
	var found []*policyv1.PodDisruptionBudget
	for _, b := range all {
		selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
		if err == nil && b.Namespace == pod.Namespace && selector.Matches(labels.Set(pod.Labels)) {
			found = append(found, b)
		}
	}
	return found
}
