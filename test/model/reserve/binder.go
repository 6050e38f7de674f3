package reserve

// bind is a step of a binder or the API server for one pod on one node. There are any number of binders, and none of
// them knows of the others.
func (m *model) bind(w *world, p, n int, step stepFunc) {
	pod, e := &w.pods[p], w.docs[n].entries[p]
	if !pod.pending() {
		return
	}
	asked := pod.asked>>n&1 == 1
	// The refresh: read the pod, then the document; if the entry is Committed, ask with the
	// resourceVersion read. Only a pod that has not changed in between makes a difference, so
	// the two are one step here.
	if !asked && e.state == committed {
		t := *w
		t.pods[p].asked |= 1 << n
		step(does("a binder reads p%d, then finds its entry on node %c, and sends the bind", uint8(p), name(n)), t)
	}
	if !asked && m.without("the pod read before the document") && pod.placed>>n&1 == 1 {
		t := *w
		t.pods[p].asked |= 1 << n
		did := "a binder that found p%d's entry on node %c earlier reads the pod, and sends the bind"
		step(does(did, uint8(p), name(n)), t)
	}
	if asked || m.without("the resourceVersion precondition") && pod.placed>>n&1 == 1 {
		t := *w
		t.pods[p].node = uint8(n + 1)
		m.newVersion(&t, p)
		t.pods[p].since = t.rev
		if e.state == none || e.changed != 0 {
			t.violation = max(t.violation, boundAfterRelease)
		}
		step(does("the API server binds p%d to node %c", uint8(p), name(n)), t)
	}
}

// handOver is T5: a process that sees that the pod is bound or deleted drops its entry and raises the high-water to
// the fact that shows it. Here it is always the earliest such fact: a later one would only hold the shards back
// longer.
func (m *model) handOver(w *world, p, n int, step stepFunc) {
	if w.docs[n].entries[p].state == none || w.pods[p].since == 0 {
		return
	}
	t := *w
	t.docs[n].entries[p] = entry{}
	t.docs[n].hw = max(w.docs[n].hw, w.pods[p].since)
	t.moved(m, n, -1)
	step(does("p%d's entry on node %c is handed over", uint8(p), name(n)), t)
}

// fence is a binder that takes an entry back: mark, change the pod, look, release.
func (m *model) fence(w *world, p, n int, step stepFunc) {
	e, mark := w.docs[n].entries[p], !m.without("the mark before the change")
	switch {
	case e.state == none:
	case e.changed != 0:
		m.release(w, p, n, step)
	case e.state == committed && w.left.fences == 0:
	case e.state == committed && m.without("entries that do not expire"):
		t := *w
		t.left.fences--
		t.docs[n].entries[p] = entry{}
		t.moved(m, n, -1)
		step(does("the lease of p%d's entry on node %c expires", uint8(p), name(n)), t)
	case e.state == committed && mark:
		t := *w
		t.left.fences--
		t.docs[n].entries[p].state = fencing
		t.moved(m, n, -1)
		step(does("a binder marks p%d's entry on node %c Fencing", uint8(p), name(n)), t)
	case !w.pods[p].gone:
		m.change(w, p, n, step)
	}
}

// change is the fence's write to the pod. (A write that changes nothing does not move the pod's resourceVersion, and
// only reads the pod.)
func (m *model) change(w *world, p, n int, step stepFunc) {
	t := *w
	if !fencingOf(w, p, n) {
		t.left.fences--
	}
	did := "the binder that fences p%d on node %c only looks at it"
	if !m.without("the change of the pod") {
		m.newVersion(&t, p)
		did = "the binder that fences p%d on node %c changes it"
	}
	seen := t.pods[p]
	t.docs[n].entries[p].changed, t.docs[n].entries[p].bound = seen.rv, seen.node != 0
	step(does(did, uint8(p), name(n)), t)
}

func fencingOf(w *world, p, n int) bool { return w.docs[n].entries[p].state == fencing }

// release is T7, or the death of the binder before it: another one changes the pod again.
func (m *model) release(w *world, p, n int, step stepFunc) {
	e := w.docs[n].entries[p]
	t := *w
	t.docs[n].entries[p] = entry{}
	if e.bound && !m.without("the look after the change") {
		t.docs[n].hw = max(w.docs[n].hw, e.changed)
	}
	t.moved(m, n, -1)
	if e.bound {
		step(does("the binder has seen p%d bound, and releases node %c", uint8(p), name(n)), t)
	} else {
		step(does("the binder has seen p%d not bound, and releases node %c", uint8(p), name(n)), t)
	}
	if w.left.fences > 0 {
		t = *w
		t.left.fences--
		t.docs[n].entries[p].changed, t.docs[n].entries[p].bound = 0, false
		step(does("the binder that fences p%d on node %c dies", uint8(p), name(n)), t)
	}
}

// others is a change of a pod by users and controllers.
func (m *model) others(w *world, p int, step stepFunc) {
	if w.pods[p].gone {
		return
	}
	if w.left.updates > 0 {
		t := *w
		t.left.updates--
		m.newVersion(&t, p)
		step(does("somebody changes p%d", uint8(p)), t)
	}
	if w.left.deletes > 0 {
		t := *w
		t.left.deletes--
		t.pods[p].gone = true
		m.newVersion(&t, p)
		if w.pods[p].since == 0 {
			t.pods[p].since = t.rev
		}
		step(does("p%d is deleted", uint8(p)), t)
	}
}
