package view

import (
	"strings"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/pkg/state/resources"
)

// recount counts one pod where the counting rule requires, and nowhere else.
func (v *View) recount(uid string) {
	if c, counted := v.tally.counted[uid]; counted && c.fact {
		v.recountAs(uid, c.pod)
		return
	}
	pod, _ := v.facts.snapshot.Pod(uid)
	v.recountAs(uid, pod)
}

// recountAs is recount for a caller that has the snapshot's pod; nil if the snapshot has none.
func (v *View) recountAs(uid string, fact *state.Pod) {
	node, pod := v.place(uid, fact)
	v.kept.note(uid, node, pod, v.ledger.Plans())
	v.noteNominated(uid, node, fact)
	v.tally.dropAdditional(uid)
	v.tally.countOn(uid, node, pod)
	if c, counted := v.tally.counted[uid]; counted && c.fact != (c.pod == fact) {
		c.fact = c.pod == fact
		v.tally.counted[uid] = c
	}
	v.countAdditional(uid, node, pod)
}

// countAdditional counts every further reservation of an unbound pod on the node of that reservation's document: as
// long as the reservation exists, a bind may follow it.
func (v *View) countAdditional(uid, node string, pod *state.Pod) {
	if pod == nil || pod.NodeName != "" {
		return
	}
	for doc := range v.ledger.Reservations(uid) {
		if doc.NodeName != node {
			v.tally.additional[uid] = append(v.tally.additional[uid], v.tally.count(doc.NodeName, pod))
		}
	}
}

// place is the counting rule: it returns the node's name and the pod to count there, or nil. pod is the snapshot's,
// nil if it has none.
func (v *View) place(uid string, pod *state.Pod) (string, *state.Pod) {
	delete(v.unknown, uid)
	if strings.HasPrefix(uid, placeholderPrefix) {
		return v.placeholder(uid)
	}
	known := pod != nil
	if known && pod.NodeName != "" {
		if pod.Terminal {
			return "", nil
		}
		return pod.NodeName, pod
	}
	if doc, entry, ok := v.ledger.Entry(uid); ok {
		return v.placeReserved(pod, doc, entry)
	}
	st, ok := v.staged[uid]
	switch {
	case !ok, !known && v.facts.PodProgress() >= st.pod.ResourceVersion && v.facts.PodProgress() > 0:
		return "", nil // nothing staged, or deleted since it was staged
	case known:
		return st.node, pod
	default:
		return st.node, st.pod
	}
}

// placeReserved is the counting rule for a pod with a reservation; pod is nil if it is not known.
func (v *View) placeReserved(pod *state.Pod, doc ledger.NodeDoc, entry ledger.Entry) (string, *state.Pod) {
	if pod != nil && pod.ResourceVersion >= entry.PodRV {
		return doc.NodeName, pod
	}
	if progress, ok := v.facts.store.Position().Progress(events.KindPod); ok && progress >= entry.PodRV {
		if pod == nil {
			return "", nil
		}
		return doc.NodeName, pod
	}
	// The pod is not known, or only in a version older than the one that the reservation was decided on: its labels
	// and terms may have been different. Until the facts catch up it counts as the entry describes it.
	v.unknown[entry.PodUID] = struct{}{}
	now, ok := v.tally.counted[entry.PodUID]
	if ok && now.slot.name == doc.NodeName && unbound(now.pod) == 1 && now.pod.ResourceVersion >= entry.PodRV {
		return doc.NodeName, now.pod
	}
	return doc.NodeName, podOfEntry(entry)
}

// placeholder returns where a placeholder counts, by the UID under which it counts. It takes room, but no rule
// about other pods sees it, because it is not the pod that it stands for.
func (v *View) placeholder(uid string) (string, *state.Pod) {
	token, err := ledger.ParseToken(strings.TrimPrefix(uid, placeholderPrefix))
	if err != nil {
		return "", nil
	}
	d, e, ok := v.ledger.Plans().Owner(ledger.PlanID(token, false))
	if !ok || e.Role != ledger.RoleMove || e.Token != token || v.kept.taken[token] {
		return "", nil
	}
	p := podOfEntry(e)
	p.UID = uid
	p.Name = ""
	p.Kind = placeholderKind
	return d.NodeName, p
}

// podOfEntry returns the pod as far as its reservation describes it.
func podOfEntry(e ledger.Entry) *state.Pod {
	p := &state.Pod{
		UID: e.PodUID, Namespace: e.Namespace, Name: e.Name,
		ResourceVersion: e.PodRV, Priority: e.Priority, SchedulerName: e.SchedulerName,
		Requests: resources.FromMap(e.Requests),
	}
	p.NonZero = p.Requests
	p.NonZero.MilliCPU, p.NonZero.Memory = e.NonZeroCPU, e.NonZeroMemory
	for _, port := range e.Ports {
		p.Ports = append(p.Ports, state.HostPort{IP: port.IP, Protocol: port.Protocol, Port: port.Port})
	}
	return p
}
