package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/events/eventlog"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/codec"
	"github.com/berth-scheduler/berth/pkg/ledger/identity"
	"github.com/berth-scheduler/berth/pkg/ledger/mem"
	queuecore "github.com/berth-scheduler/berth/services/queue/decide"
)

// The ledger's store is wiped, or restored from a backup. Members find that out at their next call: they record it in
// the ledger and restart, as pkg/ledger/etcd and the services do; and the leader of the queues begins the next
// generation, as services/queue/generation does, whose verdict is the product's own.

// storeLoss is the state of the store that can be lost.
type storeLoss struct {
	backup mem.Backup
	// recorded is the revision up to which the ledger's history is in the log.
	recorded int64
	// doubtful: the ledger is not what members have relied upon, and its next generation is not open yet. Decisions
	// made then rest on promises that no store holds any more.
	doubtful bool
	losses   int
	// lostTail: the log of facts has lost some of them.
	lostTail bool
	kubernetes
}

const (
	// generationGrace is how long a generation stays closed: longer than anything that was under way.
	generationGrace = 21 * time.Second
	clusterUID      = "cluster"
)

// backUp makes a backup of the store, and of Kubernetes, as administrators do now and then.
func (w *world) backUp() {
	if w.cluster.family != storeReplaced {
		return
	}
	if w.chance(10) {
		w.backup = w.store.Backup()
	}
	if w.chance(2) || w.kept == nil && w.chance(20) {
		w.keepAPI()
	}
}

// loseStore replaces the ledger's store by an empty one, or by its content of some time ago.
func (w *world) loseStore() error {
	if w.cluster.family != storeReplaced || w.doubtful || w.losses > 1 || w.goesBack && w.restores == 0 {
		return nil
	}
	if w.goesBack && (w.restoreUnobserved() || w.chance(40)) {
		return nil // that run is about something else
	}
	underWay := func(c *call) bool { return c.to == toEtcd && !c.done }
	if !slices.ContainsFunc(w.calls, underWay) && w.chance(70) {
		return nil // rather while something is under way to it
	}
	b, what := w.backup, "ledger restored from a backup"
	if w.chance(50) {
		b, what = mem.Backup{}, "ledger wiped"
	}
	w.hit(what)
	w.tracef("%s: it was at revision %d", what, w.store.Revision())
	w.store = w.store.Restore(b, w.chance(50))
	w.doubtful, w.losses = true, w.losses+1
	clear(w.leases.renewed)
	kvs, revision, err := w.store.List(w.ctx, "")
	if err != nil {
		return err
	}
	o := w.oracle
	o.promised = newPromises()
	for _, kv := range kvs {
		if err = o.promised.put(kv.Key, kv.Value); err != nil {
			return err
		}
	}
	clear(o.places)
	return o.truth.Reset(kvs, revision)
}

// noticeReplacedStore: a process learns that the store is not the one that it has worked with. It closes the generation
// and restarts.
func (p *proc) noticeReplacedStore() {
	w := p.w
	w.hit("store found to have begun anew")
	w.tracef("%s finds that the store began anew", p.member())
	if g := w.generation(); g.Revision == 0 || g.Open {
		if t, err := g.Doubt("seen by " + p.member()); err == nil {
			w.visit(p, "generation", t)
		}
	}
	p.up = false
	if w.faults.on {
		return
	}
	for _, other := range w.processes() {
		if other.base() == p {
			other.start()
		}
	}
}

func (w *world) read(key string) ledger.KV {
	kvs, _, _ := w.store.List(w.ctx, key) // in memory
	for _, kv := range kvs {
		if kv.Key == key {
			return kv
		}
	}
	return ledger.KV{}
}

func (w *world) generation() (g identity.Generation) {
	if kv := w.read(identity.KeyGeneration); kv.ModRevision > 0 {
		g, _ = identity.DecodeGeneration(kv) // a value of this simulation
	}
	return g
}

func (w *world) floor() (f ledger.Floor) {
	if kv := w.read(ledger.KeyFloor); kv.ModRevision > 0 {
		f, _ = codec.DecodeFloor(kv) // a value of this simulation
	}
	return f
}

// renewal is how far the leader is with a new generation.
type renewal struct {
	next    identity.Generation
	cleared time.Time
	// factsAfter is the FactsAfter of the next generation, even if a mutant writes another.
	factsAfter uint64
}

// claim ties the ledger to the cluster, when a leader begins.
func (q *queueReplica) claim() error {
	before, err := identity.BindCluster(q.w.ctx, q.w.store, clusterUID)
	q.w.observe(nil)
	q.claimed, q.recorded = before, q.w.recorded
	return err
}

// checkGeneration reports whether the ledger is what members have relied upon, and advances its next generation if not.
// unused is an epoch of facts later than any used so far; factsAfter is the generation's epoch of facts.
func (q *queueReplica) checkGeneration(unused uint64) (factsAfter uint64, sound bool, err error) {
	w := q.w
	switch {
	case w.down(&q.proc, toEtcd), w.down(&q.proc, toAPI):
		return 0, false, nil
	case q.renewal != nil:
		return q.renew()
	}
	seen, known, err := q.seen()
	if err != nil || !known {
		return 0, false, err
	}
	verdict, why := queuecore.JudgeGeneration(seen)
	switch verdict {
	case queuecore.GenerationKept:
		return seen.Generation.FactsAfter, true, nil
	case queuecore.GenerationFirst:
		sound, err = q.first(seen.Store)
		return 0, sound, err
	}
	return 0, false, q.next(seen, why, unused)
}

// seen gathers what the generation is judged by; known is false as long as not all of it is.
func (q *queueReplica) seen() (seen queuecore.LedgerEvidence, known bool, err error) {
	w := q.w
	last, err := w.log.Last(w.ctx, eventlog.Facts)
	if err != nil {
		return seen, false, err
	}
	id, err := w.store.ID(w.ctx)
	if err != nil {
		return seen, false, err
	}
	seen = queuecore.LedgerEvidence{
		Generation: w.generation(), Store: id, Revision: w.store.Revision(), Claimed: q.claimed,
		FactsPublished: last > 0, Recorded: q.recorded, WentBack: q.wentBack,
	}
	if seen.WentBack != "" {
		return seen, true, nil
	}
	seen.WentBack, known = q.compared(seen.Generation)
	return seen, known, nil
}

// compared returns a description of the kind of which Kubernetes has lost changes that facts or the ledger know of.
// It is known once the view of the ledger is current.
func (q *queueReplica) compared(g identity.Generation) (wentBack string, known bool) {
	view := q.holds.View()
	if view.Revision() == 0 || view.Generation().Revision < g.Revision || view.Floor().Revision < q.w.floor().Revision {
		return "", false
	}
	versions, been := q.w.versions(), q.facts.Seen()
	for _, kind := range versionedKinds {
		at, served := versions[kind]
		published, counted := been.Versions[events.Kind(kind)], view.Reached(kind)
		if q.w.mutant.usableFacts {
			published, _ = q.facts.Snapshot().Position().Progress(events.Kind(kind))
		}
		switch {
		case !served:
		case been.Epoch > g.FactsAfter && at < published:
			wentBack = fmt.Sprintf("the API server has %ss at resourceVersion %d, and the log of facts at %d",
				kind, at, published)
		case at < counted:
			wentBack = fmt.Sprintf("the API server has %ss at resourceVersion %d, and the ledger rests on %d",
				kind, at, counted)
		}
	}
	return wentBack, true
}

// versionedKinds are those that the ledger has high-waters of.
var versionedKinds = []string{ledger.KindPod, ledger.KindNode, ledger.KindBudget, ledger.KindClaim}

// versions is how far the API server is with each of versionedKinds that it serves.
func (w *world) versions() map[string]uint64 {
	all := map[string]uint64{}
	for _, kind := range versionedKinds {
		if slices.Contains(w.api.kinds, events.Kind(kind)) {
			all[kind] = w.api.rv
		}
	}
	return all
}

// reached is versions as the watches of a round take them.
func (w *world) reached() map[events.Kind]uint64 {
	all := map[events.Kind]uint64{}
	for kind, rv := range w.versions() {
		all[events.Kind(kind)] = rv
	}
	return all
}

// first gives a new ledger its first generation.
func (q *queueReplica) first(store uint64) (bool, error) {
	t, err := identity.FirstGeneration(store)
	return err == nil && q.w.visit(&q.proc, "generation", t), err
}

// next begins the next generation.
func (q *queueReplica) next(seen queuecore.LedgerEvidence, why string, unused uint64) error {
	w, factsAfter := q.w, unused
	if seen.WentBack != "" {
		w.hit("Kubernetes found to have gone back")
	}
	if w.mutant.factsBefore {
		factsAfter = 0
	}
	next, t, err := seen.Generation.Next(seen.Store, why, w.floor(), factsAfter)
	if err != nil {
		return err
	}
	w.tracef("%s begins generation %d: %s", q.member(), next.Number, why)
	if !w.visit(&q.proc, "generation", t) {
		return nil
	}
	next.Revision, w.unseen = w.store.Revision(), w.unseen && seen.WentBack == ""
	q.renewal = &renewal{next: next, factsAfter: max(unused, next.FactsAfter)}
	return q.clear()
}

// renew advances a new generation: when it has been closed for long enough, it is cleared once more and opened.
func (q *queueReplica) renew() (factsAfter uint64, sound bool, err error) {
	w, r := q.w, q.renewal
	switch {
	case q.clock().Sub(r.cleared) < generationGrace:
		return 0, false, nil
	case w.generation().Revision != r.next.Revision:
		q.renewal = nil // another process does it
		return 0, false, nil
	}
	if err := q.clear(); err != nil || q.renewal == nil {
		return 0, false, err
	}
	t, err := r.next.OpenAt(w.versions(), w.floor())
	if err != nil {
		return 0, false, err
	}
	if !w.visit(&q.proc, "generation", t) {
		return 0, false, nil
	}
	w.hit("next generation opened")
	w.tracef("%s opens generation %d, for facts after epoch %d", q.member(), r.next.Number, r.next.FactsAfter)
	q.renewal = nil
	q.claimed, q.recorded, w.recorded = true, 0, w.store.Revision()
	w.opened()
	return r.factsAfter, true, nil
}

// clear deletes what a closed generation promises.
func (q *queueReplica) clear() error {
	w, r := q.w, q.renewal
	kvs, _, err := w.store.List(w.ctx, "")
	if err != nil {
		return err
	}
	for keys := identity.Promises(kvs); len(keys) > 0; {
		var t ledger.Txn
		if t, keys = r.next.Clear(keys); !w.visit(&q.proc, "generation", t) {
			q.renewal = nil
			return nil
		}
	}
	r.cleared = q.clock()
	return nil
}
