package scaler

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// candidate is a node that can be removed, with how many pods have to move.
type candidate struct {
	name  string
	moved int
}

// superfluous returns the nodes that can be removed together, and remembers since when (Planner.UpdateClusterState).
func (m *memory) superfluous(cfg Config, v view, sim *simulation, now time.Time) []candidate {
	left, gone := map[types.UID]int32{}, map[string]bool{}
	for _, b := range v.budgets {
		left[b.UID] = b.Status.DisruptionsAllowed
	}
	for _, r := range sim.rooms {
		if leaving(r.node) {
			gone[r.node.Name] = true
		}
	}
	limit := len(m.unneeded) + 2*cfg.AtOnce
	since, found := map[string]time.Time{}, []candidate{}
	for _, r := range m.candidates(cfg, sim, now) {
		if len(found) >= limit {
			break
		}
		moved, ok := removable(v, sim, r, left, gone)
		if !ok {
			m.unremovable[r.node.Name] = now.Add(unremovableFor)
			continue
		}
		gone[r.node.Name] = true
		since[r.node.Name] = now
		if from, known := m.unneeded[r.node.Name]; known {
			since[r.node.Name] = from
		}
		found = append(found, candidate{r.node.Name, moved})
	}
	m.unneeded = since
	return found
}

// candidates are the elastic nodes that may be looked at: empty ones first, then those that were superfluous before.
func (m *memory) candidates(cfg Config, sim *simulation, now time.Time) []*room {
	var list []*room
	for _, r := range sim.rooms {
		if cfg.elastic(r.node) && ready(r.node) && !leaving(r.node) && !now.Before(m.unremovable[r.node.Name]) {
			list = append(list, r)
		}
	}
	rank := func(r *room) int {
		_, before := m.unneeded[r.node.Name]
		switch {
		case len(r.pods) == 0:
			return 0
		case before:
			return 1
		default:
			return 2
		}
	}
	slices.SortStableFunc(list, func(a, b *room) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.node.Name, b.node.Name))
	})
	return list
}

// removable reports whether all pods of a node may and can move to nodes that stay, and places them there.
func removable(v view, sim *simulation, r *room, left map[types.UID]int32, gone map[string]bool) (moved int, ok bool) {
	var moving []*corev1.Pod
	for _, pod := range r.pods {
		if !movable(pod) {
			continue
		}
		if metav1.GetControllerOf(pod) == nil {
			return 0, false // no controller would create it again
		}
		for _, b := range budgetsOf(v.budgets, pod) {
			if left[b.UID] < 1 {
				return 0, false
			}
		}
		moving = append(moving, pod)
	}
	before := len(sim.undo)
	for _, pod := range moving {
		elsewhere := func(other *room) bool { return other != r && !gone[other.node.Name] }
		if sim.place(pod, elsewhere) == nil {
			sim.back(before)
			return 0, false
		}
	}
	for _, pod := range moving {
		for _, b := range budgetsOf(v.budgets, pod) {
			left[b.UID] = max(0, left[b.UID]-1)
		}
	}
	return len(moving), true
}

// leaving reports whether a node is being removed.
func leaving(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == toBeDeleted })
}
