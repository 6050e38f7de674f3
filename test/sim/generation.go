package sim

import (
	"slices"
	"time"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/mem"
	"github.com/berth-scheduler/berth/services/queue/queuecore"
)

// The ledger's store is wiped, or restored from a backup. Members find that out when they talk to it next: they
// say so in the ledger and start anew, as pkg/ledger/etcd and the services do; and the leader of the queues
// begins the next generation, as services/queue/generation.go does, whose verdict is the product's own.

// storeLoss is what there is to lose.
type storeLoss struct {
	backup mem.Backup
	// recorded is the revision up to which the ledger's history is in the log.
	recorded int64
	// doubtful: the ledger is not what members have relied upon, and its next generation is not open yet. What
	// is decided then rests on promises that nobody has any more.
	doubtful bool
	losses   int
	// lostTail: the log of facts has lost some of them.
	lostTail bool
}

const (
	// generationGrace is how long a generation stays closed: longer than anything that was under way.
	generationGrace = 21 * time.Second
	clusterUID      = "cluster"
)

// backUp keeps what the store holds, as people do now and then.
func (w *world) backUp() {
	if w.cluster.family == anew && w.chance(10) {
		w.backup = w.store.Backup()
	}
}

// loseStore replaces the ledger's store by an empty one, or by what it held some time ago.
func (w *world) loseStore() error {
	if w.cluster.family != anew || w.doubtful || w.losses > 1 {
		return nil
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

// notices: a process learns that the store is not the one that it has worked with. It closes the generation, and
// starts anew.
func (p *proc) notices() {
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

func (w *world) generation() (g ledger.Generation) {
	if kv := w.read(ledger.KeyGeneration); kv.ModRevision > 0 {
		g, _ = ledger.DecodeGeneration(kv) // a value of this simulation
	}
	return g
}

func (w *world) floor() (f ledger.Floor) {
	if kv := w.read(ledger.KeyFloor); kv.ModRevision > 0 {
		f, _ = ledger.DecodeFloor(kv) // a value of this simulation
	}
	return f
}

// renewal is how far the leader is with a new generation.
type renewal struct {
	next    ledger.Generation
	cleared time.Time
}

// claim ties the ledger to the cluster, when a leader begins.
func (q *queueReplica) claim() error {
	before, err := ledger.ClaimCluster(q.w.ctx, q.w.store, clusterUID)
	q.w.observe(nil)
	q.claimed, q.recorded = before, q.w.recorded
	return err
}

// sound says whether the ledger is what members have relied upon, and brings its next generation on if not.
func (q *queueReplica) sound() (bool, error) {
	w := q.w
	switch {
	case w.down(&q.proc, toEtcd):
		return false, nil
	case q.renewal != nil:
		return q.renew()
	}
	last, err := w.log.Last(w.ctx, events.Facts)
	if err != nil {
		return false, err
	}
	id, err := w.store.ID(w.ctx)
	if err != nil {
		return false, err
	}
	seen := queuecore.LedgerSeen{
		Generation: w.generation(), Store: id, Revision: w.store.Revision(), Claimed: q.claimed,
		FactsTold: last > 0, Recorded: q.recorded,
	}
	verdict, why := queuecore.JudgeGeneration(seen)
	switch verdict {
	case queuecore.GenerationKept:
		return true, nil
	case queuecore.GenerationFirst:
		return q.first(id)
	}
	next, t, err := seen.Generation.Next(id, why, w.floor())
	if err != nil {
		return false, err
	}
	w.tracef("%s begins generation %d: %s", q.member(), next.Number, why)
	if !w.visit(&q.proc, "generation", t) {
		return false, nil
	}
	next.Revision = w.store.Revision()
	q.renewal = &renewal{next: next}
	return false, q.clear()
}

// first gives a new ledger its first generation.
func (q *queueReplica) first(store uint64) (bool, error) {
	t, err := ledger.FirstGeneration(store)
	return err == nil && q.w.visit(&q.proc, "generation", t), err
}

// renew goes on with a new generation: when it has been closed for long enough, it is cleared once more and opened.
func (q *queueReplica) renew() (bool, error) {
	w, r := q.w, q.renewal
	switch {
	case q.clock().Sub(r.cleared) < generationGrace:
		return false, nil
	case w.generation().Revision != r.next.Revision:
		q.renewal = nil // somebody else is at it
		return false, nil
	}
	if err := q.clear(); err != nil {
		return false, err
	}
	hw := map[string]uint64{}
	for _, kind := range []string{ledger.KindPod, ledger.KindNode, ledger.KindBudget, ledger.KindClaim} {
		if slices.Contains(w.api.kinds, events.Kind(kind)) { // those that are served
			hw[kind] = w.api.rv
		}
	}
	t, err := r.next.OpenAt(hw, w.floor())
	if err != nil {
		return false, err
	}
	if w.visit(&q.proc, "generation", t) {
		w.hit("next generation opened")
		w.tracef("%s opens generation %d", q.member(), r.next.Number)
		w.doubtful, q.renewal = false, nil
		q.claimed, q.recorded, w.recorded = true, 0, w.store.Revision()
	}
	return false, nil
}

// clear deletes what a closed generation promises.
func (q *queueReplica) clear() error {
	w, r := q.w, q.renewal
	kvs, _, err := w.store.List(w.ctx, "")
	if err != nil {
		return err
	}
	for keys := ledger.Promises(kvs); len(keys) > 0; {
		var t ledger.Txn
		if t, keys = r.next.Clear(keys); !w.visit(&q.proc, "generation", t) {
			q.renewal = nil
			return nil
		}
	}
	r.cleared = q.clock()
	return nil
}
