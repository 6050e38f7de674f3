package sim

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/replica"
)

// keptPlace is a place that the ledger keeps for the replacement of a pod (T12).
type keptPlace struct {
	// victim is the pod to move.
	victim *corev1.Pod
	// node is where the place is.
	node string
}

// checkPlaces checks how the kept places of one document are used. S13: a place is given to the pod that replaces the
// moved one, or to a more important pod.
func (o *oracle) checkPlaces(d replica.DocChange) {
	for _, e := range d.After.Entries {
		if _, known := o.places[e.Token]; e.Role != ledger.RoleMove || known {
			continue
		}
		if victim, ok := o.w.api.pod(e.PodUID); ok {
			o.places[e.Token] = keptPlace{victim, d.After.NodeName}
		}
	}
	came := slices.DeleteFunc(slices.Clone(d.After.Entries), func(e ledger.Entry) bool {
		before, known := d.Before.Find(e.PodUID)
		return e.Role != ledger.RoleReservation || known && before.Token == e.Token
	})
	for _, m := range d.Before.Entries {
		still := func(e ledger.Entry) bool { return e.Role == ledger.RoleMove && e.Token == m.Token }
		if m.Role != ledger.RoleMove || slices.ContainsFunc(d.After.Entries, still) {
			continue
		}
		place, known := o.places[m.Token]
		delete(o.places, m.Token)
		if known && len(came) > 0 {
			came = o.placeTaken(place, m, came)
		}
	}
}

// placeTaken finds the new entry that has taken a place, and returns the others.
func (o *oracle) placeTaken(place keptPlace, m ledger.Entry, came []ledger.Entry) []ledger.Entry {
	for i, e := range came {
		p, ok := o.w.api.pod(e.PodUID)
		switch {
		case !ok: // it is deleted, and its sender has not observed that
		case sameOwner(p, place.victim):
			o.w.hit("place of a move taken over")
		case e.Priority > m.Priority:
			o.w.hit("place of a move taken by somebody more important")
		default:
			continue
		}
		return slices.Delete(came, i, i+1)
	}
	o.w.note("S13", "the place on node %s for the replacement of pod %s is gone, and of those that came nobody replaces "+
		"it or is more important", place.node, place.victim.Name)
	return came
}

func sameOwner(a, b *corev1.Pod) bool {
	return len(a.OwnerReferences) > 0 && len(b.OwnerReferences) > 0 && a.OwnerReferences[0].UID == b.OwnerReferences[0].UID
}

// checkKept is S13: the kept places of a node fit on it together with the pods that are bound there.
func (o *oracle) checkKept(all []podPlacement) {
	kept := map[string]int64{}
	for _, p := range o.places {
		kept[p.node] += size(p.victim)
	}
	for _, n := range o.w.api.nodes() {
		used := kept[n.Name]
		if used == 0 {
			continue
		}
		for _, s := range all {
			if s.node.Name == n.Name {
				used += size(s.pod)
			}
		}
		if used > room(n) {
			o.w.note("S13", "node %s has room for %d, and with the places kept there %d are taken", n.Name, room(n), used)
		}
	}
}
