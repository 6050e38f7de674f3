package budget

// read lets component e read the budget or the pods; each comes when it comes.
func (m *model) read(w *world, e int, step stepFunc) {
	now := view{allowed: w.status.allowed, progress: w.rev, pods: w.rev}
	if had := w.views[e]; had.allowed != now.allowed || had.progress != now.progress {
		t := *w
		t.views[e].allowed, t.views[e].progress = now.allowed, now.progress
		step(does("component %d reads that the budget allows %d", uint8(e), now.allowed), t)
	}
	if w.views[e].pods != now.pods {
		t := *w
		t.views[e].pods = now.pods
		for p := range m.pods {
			if w.pods[p].leaving != 0 {
				t.pods[p].seen |= 1 << e
			}
		}
		step(does("component %d reads which pods are leaving", uint8(e)), t)
	}
}

// claim is T10's first half: a claim on the budget, if the budget allows one more. The budget's document is compared,
// so the claims counted are current; the facts may be stale, as the component has read them.
func (m *model) claim(w *world, e, p int, step stepFunc) {
	pod := &w.pods[p]
	if w.left.claims == 0 || pod.claim.by != 0 || pod.seen>>e&1 == 1 || pod.swapped || pod.requests != (requests{}) {
		return
	}
	v := w.views[e]
	behind := v.progress < w.hw || v.pods < w.hw && m.counts
	if behind && !m.without("the high-water of the budget's document") && !m.without("the budget's document") {
		return
	}
	if int(v.allowed) <= m.open(w, e) || m.counts && m.room(w, e) <= 0 && !m.without("a count of one's own") {
		return
	}
	t := *w
	t.left.claims--
	t.pods[p].claim = claim{by: uint8(e + 1)}
	step(does("component %d claims p%d", uint8(e), uint8(p)), t)
}

// open is how many claims the status that a component has read may not show: their pods run,
// as far as it knows, or left after that status.
func (m *model) open(w *world, e int) int {
	n := 0
	for p := range m.pods {
		pod := &w.pods[p]
		reflected := pod.seen>>e&1 == 1 &&
			(w.views[e].progress >= pod.leaving || m.without("the budget read past the victim's leaving"))
		foreign := int(pod.claim.by) != e+1 && m.without("the budget's document")
		if pod.claim.by != 0 && !reflected && !foreign {
			n++
		}
	}
	return n
}

// room is the number of further claims that the component counts: the pods that run, to its knowledge, less those
// that have to stay and those that are claimed.
func (m *model) room(w *world, e int) int {
	n := -m.desired
	for p := range m.pods {
		pod := &w.pods[p]
		foreign := int(pod.claim.by) != e+1 && m.without("the budget's document")
		if pod.seen>>e&1 == 0 && (pod.claim.by == 0 || foreign) {
			n++
		}
	}
	return n
}

// settle is T10's second half: a claim is removed when its victim has left, and the high-water rises to that
// revision. The component that settles must have read the budget that far; in the model it has read everything.
func (m *model) settle(w *world, p int, step stepFunc) {
	pod := &w.pods[p]
	if pod.claim.by == 0 || pod.leaving == 0 {
		return
	}
	t := *w
	t.pods[p].claim = claim{}
	t.hw = max(w.hw, pod.leaving)
	step(does("the claim on p%d is settled", uint8(p)), t)
}

// drop gives a claim up (T8): one without an eviction, or whose only eviction has surely
// failed. What the refused call may have taken shows in the budget from now on.
func (m *model) drop(w *world, p int, step stepFunc) {
	c := w.pods[p].claim
	surely := c.refused && (!c.unknown || m.without("unknown is not failed"))
	if c.by == 0 || w.left.drops == 0 || c.evicting && !surely && !c.replaced {
		return
	}
	t := *w
	t.left.drops--
	t.pods[p].claim = claim{}
	t.hw = max(w.hw, w.rev)
	step(does("the claim on p%d is given up", uint8(p)), t)
}
