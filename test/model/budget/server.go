package budget

// send is the binder: mark the claim, look at the pod, send the eviction with its UID. One
// whose answer does not come is sent again after another look.
func (m *model) send(w *world, p int, step stepFunc) {
	pod := &w.pods[p]
	c := pod.claim
	if c.by == 0 || w.left.sends == 0 || pod.sent+pod.spent >= maxRequests {
		return
	}
	looks := pod.leaving == 0 && !pod.swapped && !c.replaced
	if !looks && !(c.replaced && m.without("a look after a failed precondition")) {
		return
	}
	t := *w
	t.left.sends--
	next := &t.pods[p]
	next.sent++
	next.claim.evicting = true
	switch {
	case c.replaced:
		next.late++
		step(does("the binder sends the eviction of p%d once more, blindly", uint8(p)), t)
	case c.evicting && !c.refused:
		next.claim.unknown = true
		step(does("the binder has no answer, finds p%d running, and evicts it again", uint8(p)), t)
	default:
		next.claim.refused = false
		step(does("the binder marks p%d and sends its eviction", uint8(p)), t)
	}
}

// serve is the API server with the evictions of one pod: look at the pod, take from the
// budget, delete the pod; the preconditions are looked at last.
func (m *model) serve(w *world, p int, step stepFunc) {
	pod := &w.pods[p]
	if pod.sent > 0 {
		m.admit(w, p, step)
	}
	if pod.spent == 0 {
		return
	}
	t := *w
	next := &t.pods[p]
	next.spent--
	switch {
	case pod.swapped:
		if pod.late > 0 && pod.sent == 0 {
			next.late--
			t.violation = burnt
		}
		next.claim.replaced = pod.claim.by != 0
		step(does("an eviction of p%d fails: it is another pod. The budget stays spent", uint8(p)), t)
	default:
		if pod.leaving == 0 {
			t.rev++
			next.leaving = t.rev
		}
		step(does("an eviction deletes p%d", uint8(p)), t)
	}
}

// admit is the first half of an eviction, up to the write of the budget's status.
func (m *model) admit(w *world, p int, step stepFunc) {
	t := *w
	next := &t.pods[p]
	next.sent--
	if next.foreign > next.sent {
		next.foreign--
	}
	switch {
	case w.pods[p].leaving != 0:
		step(does("an eviction finds p%d leaving already", uint8(p)), t)
	case w.status.allowed == 0:
		next.late = min(next.late, next.sent+next.spent)
		next.claim.refused = w.pods[p].claim.by != 0
		step(does("an eviction of p%d is refused: the budget allows none", uint8(p)), t)
	default:
		t.rev++
		t.status.allowed--
		next.spent++
		next.disrupted = true
		step(does("an eviction of p%d takes from the budget, which allows %d now", uint8(p), t.status.allowed), t)
	}
}

// controller is the disruption controller: it counts healthy pods as far as it has read, except those that the status
// lists as about to leave, and writes the status if no other writer has since.
func (m *model) controller(w *world, step stepFunc) {
	for p := range m.pods {
		pod := &w.pods[p]
		if pod.leaving != 0 && !pod.controller {
			t := *w
			t.pods[p].controller = true
			step(does("the disruption controller reads that p%d is leaving", uint8(p)), t)
		}
		if pod.disrupted && pod.leaving == 0 && w.left.timeouts > 0 {
			t := *w
			t.left.timeouts--
			t.pods[p].disrupted = false
			m.sync(&t)
			did := "the disruption controller stops waiting for p%d to leave; the budget allows %d"
			step(does(did, uint8(p), t.status.allowed), t)
		}
	}
	t := *w
	if m.sync(&t) {
		step(does("the disruption controller counts; the budget allows %d", t.status.allowed), t)
	}
}

// sync is one round of the controller; false if it would change nothing.
func (m *model) sync(w *world) bool {
	before, healthy := *w, 0
	for p := range m.pods {
		pod := &w.pods[p]
		pod.disrupted = pod.disrupted && !pod.controller
		if !pod.controller && !pod.disrupted {
			healthy++
		}
	}
	w.status.allowed = uint8(max(0, healthy-m.desired))
	if *w == before {
		return false
	}
	w.rev++
	return true
}

// others is a change of a pod by another client.
func (m *model) others(w *world, p int, step stepFunc) {
	pod := &w.pods[p]
	if w.left.swaps > 0 && pod.claim.by != 0 && pod.leaving == 0 && !pod.swapped {
		t := *w
		t.left.swaps--
		t.pods[p].swapped = true
		step(does("p%d is replaced by another pod of its name", uint8(p)), t)
	}
	if w.left.foreign > 0 && pod.leaving == 0 && pod.sent+pod.spent < maxRequests {
		t := *w
		t.left.foreign--
		t.pods[p].sent++
		t.pods[p].foreign++
		step(does("somebody else sends an eviction of p%d", uint8(p)), t)
	}
}
