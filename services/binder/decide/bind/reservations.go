package bind

import (
	"maps"
	"slices"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/replica"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/services/binder/decide/basis"
	"github.com/berth-scheduler/berth/services/binder/decide/effect"
)

// Reservations has the reservations of the ledger.
type Reservations struct {
	*basis.Base
	env environment

	all map[basis.Attempt]*reservation
	// ofPod holds a pod's reservations: one, unless a promise was broken.
	ofPod map[string][]*reservation
	// ofNode has the reservations in the documents of nodes that have any.
	ofNode map[string]documented
	// waiting holds the reservations of held partitions that have work left and nothing in flight, except those that
	// wait for a turn.
	waiting map[basis.Attempt]*reservation
	// fencesRefused holds the reservations of held partitions whose fence the API server refuses repeatedly.
	fencesRefused map[basis.Attempt]*reservation
	unreported    unreportedBinds
	// hints holds the hints whose entry the ledger view does not show yet.
	hints map[basis.Attempt]events.Decision
	// dropped counts hints that were dropped because Limits.Foreign was reached.
	dropped uint64
}

// documented are the reservations in one document.
type documented struct {
	// keys are in the order of the document.
	keys []basis.Attempt
	// revision is that of the document.
	revision int64
}

// New returns an empty set of reservations.
func New(base *basis.Base, documents Documents) *Reservations {
	b := &Reservations{
		Base:          base,
		all:           map[basis.Attempt]*reservation{},
		ofPod:         map[string][]*reservation{},
		ofNode:        map[string]documented{},
		waiting:       map[basis.Attempt]*reservation{},
		fencesRefused: map[basis.Attempt]*reservation{},
		unreported:    unreportedBinds{},
		hints:         map[basis.Attempt]events.Decision{},
	}
	b.env = environment{
		Base: base, documents: documents, checker: checker{base, documents}, versions: versions{}, siblings: b,
	}
	return b
}

// work hands the answers to a reservation's effects to it.
type work struct {
	r *reservation
	b *Reservations
}

// Answered implements effect.Machine. The end of a bind gives the next reservations in the line their turn.
func (w work) Answered(in effect.Input) {
	bound := w.r.step == binding
	w.r.answered(&w.b.env, in)
	if bound {
		w.b.nextTurns()
	}
	w.b.reindex(w.r)
}

// Touched are reservations that are new or changed.
type Touched []*reservation

// Learn adopts a document if it is newer than the known one, whether it comes from the watch, a linearizable read or
// the binder's own transaction, and returns the reservations in it that are new or changed.
func (b *Reservations) Learn(d ledger.NodeDoc) Touched {
	c := replica.FirstSeen(d)
	return b.follow(&c, true)
}

// Follow is Learn for a document that has changed in the ledger view. Only the entries that changed are looked at,
// unless the reservations are those of another revision than that before the change: a read or a transaction may have
// shown a later one already, or several changes may have come at once.
func (b *Reservations) Follow(c *replica.DocChange) Touched {
	return b.follow(c, b.ofNode[c.After.NodeUID].revision != c.Before.Revision)
}

// follow adopts what a document became; whole means that every entry may have changed, not only those that c lists.
func (b *Reservations) follow(c *replica.DocChange, whole bool) (touched Touched) {
	d := &c.After
	if !b.env.documents.Learn(*d) {
		return nil
	}
	present := make([]basis.Attempt, 0, len(d.Entries))
	added := c.Added
	for i := range d.Entries {
		e := &d.Entries[i]
		changed := whole
		if len(added) > 0 && added[0] == e {
			changed = true
			added = added[1:]
		}
		if e.Role != ledger.RoleReservation {
			continue
		}
		key := basis.Attempt{Pod: e.PodUID, Token: e.Token}
		present = append(present, key)
		// The entry of an attempt that another document has too is dropped with either.
		if _, known := b.all[key]; known && !changed {
			continue
		}
		if r, changed := b.track(key, d, e); changed {
			touched = append(touched, r)
		}
	}
	b.untrack(d.NodeUID, documented{keys: present, revision: d.Revision})
	return touched
}

// Forget drops a document that a revision of the ledger deleted, and the reservations in it.
func (b *Reservations) Forget(nodeUID string, by int64) {
	if b.env.documents.Forget(nodeUID, by) {
		b.untrack(nodeUID, documented{})
	}
}

// track creates or updates the reservation of one entry.
func (b *Reservations) track(key basis.Attempt, d *ledger.NodeDoc, e *ledger.Entry) (r *reservation, changed bool) {
	r, ok := b.all[key]
	if !ok {
		r = b.newReservation(key, d, *e)
		delete(b.hints, key)
		b.all[key] = r
		b.ofPod[key.Pod] = append(b.ofPod[key.Pod], r)
		return r, true
	}
	changed = r.entry.State != e.State || r.entry.Wanted != e.Wanted
	if r.entry.State != e.State {
		r.since = b.Now
		r.settled = false
	}
	if r.entry.PodRV != e.PodRV {
		r.precondition = precondition{rv: e.PodRV} // promoted: the pod's version was checked again
	}
	r.entry = *e
	return r, changed
}

// newReservation returns the reservation of an entry that is seen for the first time, with the hint that has waited for
// it.
func (b *Reservations) newReservation(key basis.Attempt, d *ledger.NodeDoc, e ledger.Entry) *reservation {
	r := &reservation{precondition: precondition{rv: e.PodRV}}
	r.task = task{
		trackedEntry: trackedEntry{
			key: key, nodeUID: d.NodeUID, nodeName: d.NodeName, entry: e, since: b.Now, hint: b.hints[key],
		},
		machine: work{r, b}, Pacing: basis.Pacing{Retry: b.Limits.Retry},
	}
	r.fence.task = &r.task
	return r
}

// untrack drops the reservations of entries that left a document, given those in it now. One with an effect in flight
// lives on until its answer, so that a successful bind is still reported.
func (b *Reservations) untrack(nodeUID string, present documented) {
	before := b.ofNode[nodeUID].keys
	if len(present.keys) > 0 {
		b.ofNode[nodeUID] = present
	} else {
		delete(b.ofNode, nodeUID)
	}
	// Entries that stay keep their order.
	stay := 0
	for _, key := range before {
		if stay < len(present.keys) && present.keys[stay] == key {
			stay++
			continue
		}
		r, ok := b.all[key]
		if !ok || slices.Contains(present.keys, key) || r.nodeUID != nodeUID {
			continue
		}
		r.removed = true
		r.turn.lined = false
		r.reportUnansweredRelease(&b.env)
		b.keepUnreported(r)
		delete(b.all, key)
		delete(b.waiting, key)
		rest := slices.DeleteFunc(b.ofPod[key.Pod], func(o *reservation) bool { return o == r })
		if len(rest) == 0 {
			delete(b.ofPod, key.Pod)
			continue
		}
		b.ofPod[key.Pod] = rest
	}
}

// adopt implements siblings.
func (b *Reservations) adopt(d ledger.NodeDoc, self *task) {
	for _, r := range b.Learn(d) {
		if &r.task != self {
			b.advance(r)
		}
	}
}

// advance takes a reservation's next step, if it can be taken.
func (b *Reservations) advance(r *reservation) {
	r.advance(&b.env)
	b.reindex(r)
}

// nextTurns advances the reservations whose turn it is.
func (b *Reservations) nextTurns() {
	for b.env.turns.free(b.Limits.Binds) {
		key, waited, ok := b.env.turns.next(b.Now)
		if !ok {
			return
		}
		r := b.all[key]
		r.excuse(waited, b.Now)
		b.advance(r)
	}
}

// keepUnreported remembers the bind by a plugin of a reservation that was handed over by a process which saw the pod
// bound sooner.
func (b *Reservations) keepUnreported(r *reservation) {
	if !r.settled && r.entry.State == ledger.Committed && r.entry.Delegated && !r.declinedByPlugins() {
		b.unreported[r.key] = unreportedBind{&r.trackedEntry, r.precondition.rv}
	}
}

// ReportPluginBinds reports the binds by plugins that the facts show only after their reservation has left the ledger.
func (b *Reservations) ReportPluginBinds() { b.unreported.report(b.Base, b.env.documents) }

// Hint attaches a hint to its ledger entry, and tries to advance the entry. A hint ahead of the ledger view waits
// here until the view shows the entry.
func (b *Reservations) Hint(key basis.Attempt, d events.Decision) {
	if r, ok := b.all[key]; ok {
		r.hint = d
		if r.entry.Delegated {
			r.since = b.Now
		}
		b.advance(r)
		return
	}
	if d.LedgerRevision <= b.Revision {
		return // the view is past it and has no such entry: an old attempt
	}
	if len(b.hints) >= b.Limits.Foreign {
		b.dropped++
		return
	}
	b.hints[key] = d
}

// Advance advances reservations that have changed.
func (b *Reservations) Advance(touched Touched) {
	for _, r := range touched {
		b.advance(r)
	}
}

// AdvanceDue advances the waiting reservations whose time has come, in an order that depends only on keys.
func (b *Reservations) AdvanceDue() {
	var due []basis.Attempt
	for k, r := range b.waiting {
		if !b.Now.Before(r.Due) {
			due = append(due, k)
		}
	}
	slices.SortFunc(due, basis.Attempt.Compare)
	for _, k := range due {
		if r, ok := b.waiting[k]; ok {
			b.advance(r)
		}
	}
}

// Reindex brings the set of waiting reservations in line with the partitions that the binder holds.
func (b *Reservations) Reindex() {
	for _, r := range b.all {
		b.reindex(r)
	}
}

// reindex keeps a waiting reservation in the set that ticks and facts visit, and one whose fence is refused in the set
// of these. Most reservations of a large cluster belong to other binders, and are therefore not in the first.
func (b *Reservations) reindex(r *reservation) {
	if r.fence.refusal.reported() {
		b.fencesRefused[r.key] = r
	} else if b.fencesRefused[r.key] == r {
		delete(b.fencesRefused, r.key)
	}
	if r.op == 0 && !r.removed && !r.settled && !r.turn.lined && b.Holds(r.key.Pod) {
		b.waiting[r.key] = r
		return
	}
	delete(b.waiting, r.key)
}

// ForgetRefused drops from fencesRefused the reservations that have ended without the write, and those that are now
// another binder's.
func (b *Reservations) ForgetRefused() {
	maps.DeleteFunc(b.fencesRefused, func(key basis.Attempt, r *reservation) bool {
		if !r.removed && !r.settled && r.entry.State == ledger.Fencing && b.Holds(key.Pod) {
			return false
		}
		r.fence.refusal = refusal{}
		return true
	})
}

// Placed reports whether the ledger holds a reservation of the pod for which a bind may be in flight.
func (b *Reservations) Placed(podUID string) bool {
	for _, r := range b.ofPod[podUID] {
		if r.entry.State == ledger.Committed || r.entry.State == ledger.Fencing {
			return true
		}
	}
	return false
}

// Releasing reports whether the place of a decision's attempt has yet to be given back.
func (b *Reservations) Releasing(d events.Decision) bool {
	token, err := ledger.ParseToken(d.Token)
	if err != nil {
		return false
	}
	r, reserved := b.all[basis.Attempt{Pod: d.Pod.UID, Token: token}]
	return reserved && !r.settled
}

// Replaced keeps versions of unbound pods that newer facts have replaced.
func (b *Reservations) Replaced(pods []*state.Pod) {
	for _, p := range pods {
		b.env.versions.add(p)
	}
}

// ForgetVersions drops what is known of earlier versions of pods: with a new generation of the ledger, they may be
// versions that Kubernetes has yet to reach again.
func (b *Reservations) ForgetVersions() { clear(b.env.versions) }

// ForgetHints drops the hints whose entry the ledger view will never show.
func (b *Reservations) ForgetHints() {
	maps.DeleteFunc(b.hints, func(_ basis.Attempt, d events.Decision) bool { return d.LedgerRevision <= b.Revision })
}

// ForgetPods drops the earlier versions of pods that do not wait any more.
func (b *Reservations) ForgetPods() {
	maps.DeleteFunc(b.env.versions, func(uid string, _ []version) bool {
		p, known, _ := b.Pod(uid, 0)
		_, waits := b.ofPod[uid]
		return !waits && (!known || p.NodeName != "")
	})
}

// Stats counts what Reservations remembers.
type Stats struct {
	Reservations, Hints, FencesRefused int
	// Waiting counts the reservations with work left and nothing in flight, Unreported those whose bind by a plugin the
	// facts have yet to show. Binding and Lined count those that are being bound and that wait for a turn.
	Waiting, Unreported, Binding, Lined int
	Dropped                             uint64
}

// Stats counts what is remembered.
func (b *Reservations) Stats() Stats {
	return Stats{
		Reservations: len(b.all), Hints: len(b.hints), FencesRefused: len(b.fencesRefused),
		Waiting: len(b.waiting), Unreported: len(b.unreported), Binding: b.env.turns.inFlight, Lined: b.env.turns.line.Len(),
		Dropped: b.dropped,
	}
}
