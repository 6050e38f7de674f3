package sim

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/events"
)

// rooms is S1's record of nodes whose allocatable shrinks. Earlier promises stay, and so do promises of a member that
// has not read of the change. Everything else has to fit the present allocatable.
type rooms struct {
	// excess is the use of a node beyond its capacity that is accepted, by name: pods that were there when it shrank,
	// or that were decided on before. It decreases as pods leave.
	excess map[string]int64
	// granted is the room that the decisions of the last step may have rested on.
	granted map[string]int64
}

func newRooms() rooms {
	return rooms{excess: map[string]int64{}, granted: map[string]int64{}}
}

func (r *rooms) grant(node string, room int64) { r.granted[node] = max(r.granted[node], room) }

// shrank notes that a node of that name has less room than before.
func (o *oracle) shrank(node string) { o.excess[node] = max(o.excess[node], o.taken(node)) }

// taken is the capacity of a node that is in use or may yet be, by name, whether such a node exists or not.
func (o *oracle) taken(node string) (used int64) {
	reserved := o.promised.reservations()
	for _, p := range o.w.api.pods() {
		if p.Status.Phase == corev1.PodSucceeded {
			continue
		}
		if p.Spec.NodeName == node {
			used += size(p)
		}
		for _, r := range reserved[string(p.UID)] {
			if p.Spec.NodeName == "" && r.node == node {
				used += size(p)
			}
		}
	}
	return used
}

// accepted reports whether so much of a node may be in use, and continues from there.
func (r *rooms) accepted(n *corev1.Node, used int64) bool {
	limit := max(room(n), r.excess[n.Name], r.granted[n.Name])
	delete(r.excess, n.Name)
	if used > room(n) {
		r.excess[n.Name] = used
	}
	return used <= limit
}

// knowledge is how far the facts of a shard had come for each of the decisions in its hands: a bound from
// below, the resourceVersion up to which it knew all nodes when the pod was offered to it.
type knowledge map[string]uint64

// believed is the most room that the sender of a transaction can have taken a node for: the largest that
// one of that name has had since the version which the sender knew.
func (o *oracle) believed(name, podUID string, c *committed) int64 {
	if !o.resized[name] || c != nil && c.knowsAll {
		return 0 // unchanged
	}
	knew := uint64(0)
	if c != nil {
		knew = c.knew[podUID]
	}
	most, before := int64(0), int64(0)
	for _, change := range o.w.api.history {
		n, is := change.object.(*corev1.Node)
		if change.kind != events.KindNode || !is || n.Name != name {
			continue
		}
		if change.rv <= knew {
			before = room(n)
			continue
		}
		most = max(most, room(n))
	}
	return max(most, before)
}

// checkRoom is S1 in its strict form: no other scheduler binds here. Every reservation of every document counts on
// the node of its name.
func (o *oracle) checkRoom(all []podPlacement) {
	used, names, there := map[string]int64{}, map[string][]string{}, map[string]bool{}
	for _, s := range all {
		used[s.node.Name] += size(s.pod)
		names[s.node.Name] = append(names[s.node.Name], s.pod.Name)
	}
	for _, n := range o.w.api.nodes() {
		there[n.Name] = true
		if !o.accepted(n, used[n.Name]) {
			o.w.note("S1", "node %s has room for %d, and has %v", n.Name, room(n), names[n.Name])
		}
	}
	for name, room := range o.granted {
		if !there[name] { // it is deleted, and may come back
			o.excess[name] = max(o.excess[name], min(room, o.taken(name)))
		}
	}
	clear(o.granted)
}
