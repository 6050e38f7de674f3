package evict

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/replica"
	"github.com/berth-scheduler/berth/pkg/ledger/txns"
	"github.com/berth-scheduler/berth/services/binder/decide/basis"
	"github.com/berth-scheduler/berth/services/binder/decide/effect"
)

// Documents reports when the ledger last vouched for the documents that the binder knows.
type Documents interface {
	// Vouched returns when a node's document was valid at the latest, by the answers to this binder's requests.
	Vouched(nodeUID string) (at time.Time, known bool)
	// Distrust forgets that, so that the document has to be read again.
	Distrust(nodeUID string)
}

// Nominations shows to other components the places that are held for pods.
type Nominations interface {
	// Nominate shows the hold of a pod that has a plan.
	Nominate(doc ledger.NodeDoc, owner ledger.Entry)
}

// Evictor carries out plans and the orders of the descheduler.
type Evictor struct {
	*basis.Base
	documents   Documents
	nominations Nominations

	// plans holds the plans with a hold or placeholder, by id. removals holds the claims on victims, by pod UID: a
	// pod is claimed by one plan only.
	plans    map[string]*plan
	removals map[string]*removal
	// evictions holds the orders to evict.
	evictions map[basis.Attempt]*eviction
	// dropped counts orders that were dropped because Limits.Foreign was reached.
	dropped uint64
}

// New returns an evictor without work.
func New(base *basis.Base, documents Documents, nominations Nominations) *Evictor {
	return &Evictor{
		Base: base, documents: documents, nominations: nominations,
		plans: map[string]*plan{}, removals: map[string]*removal{}, evictions: map[basis.Attempt]*eviction{},
	}
}

// machine is a piece of work of an evictor.
type machine interface {
	answered(v *Evictor, in effect.Input)
}

// work is a machine that waits for the answer to its effect.
type work struct {
	machine
	v *Evictor
}

// Answered implements effect.Machine.
func (w work) Answered(in effect.Input) { w.answered(w.v, in) }

// begin registers an operation whose answer m waits for.
func (v *Evictor) begin(m machine) effect.OpID { return v.Begin(work{m, v}) }

// amend sends a transaction for m; it returns 0 if the change is not a valid one.
func (v *Evictor) amend(m machine, change txns.Change, why string) effect.OpID {
	return v.Amend(work{m, v}, change, why, false)
}

// Follow brings plans and removals in line with the documents that changed in the ledger view, and advances them.
func (v *Evictor) Follow(changes replica.Changes) {
	docs, touched := changes.Docs, map[string]bool{}
	if changes.Reset {
		docs = v.relisted()
		for id := range v.plans {
			touched[id] = true
		}
	}
	for i := range docs {
		touch(touched, docs[i].Before.Entries)
		touch(touched, docs[i].After.Entries)
		v.trackClaims(&docs[i])
	}
	for _, id := range changes.Plans {
		touched[id] = true
	}
	ids := slices.Sorted(maps.Keys(touched))
	for _, id := range ids {
		v.trackPlan(id)
	}
	for _, id := range ids {
		if p, ok := v.plans[id]; ok {
			p.advance(v)
		}
	}
	for _, id := range ids {
		for _, r := range v.removalsOf(id) {
			r.advance(v)
		}
	}
}

// touch adds the plans of a document's entries to a set, also those of entries that did not change: a plan is advanced
// on each revision of its documents.
func touch(plans map[string]bool, entries []ledger.Entry) {
	for i := range entries {
		if id := entries[i].Plan; id != "" {
			plans[id] = true
		}
	}
}

// RefuseOlder refuses pending evictions that were decided before this generation of the ledger. If the queue
// republishes all facts with it, those evictions may rest on facts from before a restore of Kubernetes. The
// descheduler can request them again.
func (v *Evictor) RefuseOlder() {
	if v.Ledger.Generation().FactsAfter == 0 {
		return
	}
	for _, k := range slices.SortedFunc(maps.Keys(v.evictions), basis.Attempt.Compare) {
		e := v.evictions[k]
		switch {
		case e.done:
		case e.op != 0:
			e.void = true
		default:
			e.refuse(v)
		}
	}
}

// relisted returns all documents after a list of the ledger, which may have skipped changes, and drops the removals
// whose claims are gone.
func (v *Evictor) relisted() []replica.DocChange {
	for uid, r := range v.removals {
		d, e, ok := v.Ledger.Plans().Victim(uid)
		if !ok || d.NodeUID != r.nodeUID || e.Plan != r.plan {
			r.claimGone = true
			delete(v.removals, uid)
		}
	}
	var docs []replica.DocChange
	for d := range v.Ledger.Docs() {
		docs = append(docs, replica.FirstSeen(d))
	}
	slices.SortFunc(docs, func(a, b replica.DocChange) int { return strings.Compare(a.After.NodeUID, b.After.NodeUID) })
	return docs
}

// trackClaims creates, updates and drops the removals of one document's claims.
func (v *Evictor) trackClaims(d *replica.DocChange) {
	for _, e := range d.Removed {
		if e.Role != ledger.RoleVictim {
			continue
		}
		r, ok := v.removals[e.PodUID]
		if !ok || r.nodeUID != d.Before.NodeUID || r.plan != e.Plan {
			continue
		}
		if now, still := d.After.Victim(e.PodUID); !still || now.Plan != r.plan {
			r.claimGone = true
			delete(v.removals, e.PodUID)
		}
	}
	for i := range d.After.Entries {
		e := &d.After.Entries[i]
		if e.Role != ledger.RoleVictim {
			continue
		}
		r, ok := v.removals[e.PodUID]
		if !ok {
			v.removals[e.PodUID] = newRemoval(v, d.After.NodeUID, *e)
			continue
		}
		r.follow(v, *e)
	}
}

// trackPlan creates or drops the plan of an id, depending on whether it has an owner.
func (v *Evictor) trackPlan(id string) {
	_, _, owned := v.Ledger.Plans().Owner(id)
	p, known := v.plans[id]
	switch {
	case owned && !known:
		v.plans[id] = &plan{id: id, since: v.Now, Pacing: basis.Pacing{Retry: v.Limits.Retry}}
	case !owned && known:
		p.ended = true
		delete(v.plans, id)
	}
}

// DueSince returns the sorted ids of the plans that have work which has become due since a time.
func (v *Evictor) DueSince(since time.Time) []string {
	due := map[string]bool{}
	pick := func(p basis.Pacing, plan string) {
		if p.Due.After(since) && !p.Due.After(v.Now) {
			due[plan] = true
		}
	}
	for id, p := range v.plans {
		pick(p.Pacing, id)
	}
	for _, r := range v.removals {
		pick(r.Pacing, r.plan)
	}
	return slices.Sorted(maps.Keys(due))
}

// AdvancePlans advances plans and their removals.
func (v *Evictor) AdvancePlans(ids []string) {
	for _, id := range ids {
		v.advancePlan(id)
	}
}

// AdvanceFor advances everything that concerns a pod.
func (v *Evictor) AdvanceFor(podUID string) {
	if len(v.plans)+len(v.removals) == 0 {
		return
	}
	if r, ok := v.removals[podUID]; ok {
		v.advancePlan(r.plan)
	}
	if _, e, _ := v.Ledger.Entry(podUID); e.Plan != "" {
		v.advancePlan(e.Plan)
	}
}

// advancePlan advances a plan and its removals.
func (v *Evictor) advancePlan(id string) {
	if p, ok := v.plans[id]; ok {
		p.advance(v)
	}
	for _, r := range v.removalsOf(id) {
		r.advance(v)
	}
}

// removalsOf returns the removals of a plan, in the order of documents and entries.
func (v *Evictor) removalsOf(id string) []*removal {
	var out []*removal
	for _, d := range v.Ledger.Plans().Docs(id) {
		for _, e := range d.Entries {
			if r, ok := v.removals[e.PodUID]; ok && e.Role == ledger.RoleVictim && e.Plan == id {
				out = append(out, r)
			}
		}
	}
	return out
}

// AdvanceAll advances all plans and removals.
func (v *Evictor) AdvanceAll() {
	for _, id := range slices.Sorted(maps.Keys(v.plans)) {
		v.plans[id].advance(v)
	}
	for _, uid := range slices.Sorted(maps.Keys(v.removals)) {
		if r, ok := v.removals[uid]; ok {
			r.advance(v)
		}
	}
}

// Moot reports whether an eviction that waits for a worker must not be begun any more.
func (v *Evictor) Moot(op effect.OpID) bool {
	w, is := v.Waiting(op).(work)
	if !is {
		return false
	}
	r, is := w.machine.(*removal)
	return is && r.moot(v)
}

// UnderWay reports whether an eviction of the pod was sent that may still arrive.
func (v *Evictor) UnderWay(podUID string) bool {
	r, ok := v.removals[podUID]
	return ok && r.sent && r.underWay(v)
}

// Stats counts what an evictor remembers.
type Stats struct {
	Orders, Plans, Removals int
	Dropped                 uint64
}

// Stats counts what the evictor remembers.
func (v *Evictor) Stats() Stats {
	return Stats{Orders: len(v.evictions), Plans: len(v.plans), Removals: len(v.removals), Dropped: v.dropped}
}
