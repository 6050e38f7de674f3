package scale

import (
	"fmt"
	"strings"
	"time"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/mem"
)

// store is one etcd cluster: the in-memory ledger behind a server that takes time.
type store struct {
	world  *world
	number int
	proc   *process
	mem    *mem.Store
	// history is what its watch delivers; created is the create revision of every key.
	history []revision
	created map[string]int64
}

// revision is the change of one transaction.
type revision struct {
	at     time.Duration
	shard  int
	events ledger.EventBatch
}

// place is one pod on one node.
type place struct{ pod, node int32 }

// commit is a transaction of a shard with the places that it makes.
type commit struct {
	store  int
	txn    ledger.Txn
	places []place
	// answered receives the answer on the shard's side.
	answered func(ledger.TxnResult)
}

func newStore(w *world, number int) *store {
	return &store{
		world: w, number: number, mem: mem.New(), created: map[string]int64{},
		proc: w.machine.process(fmt.Sprintf("etcd-%d", number), etcdWidth),
	}
}

// send carries a transaction out when its turn comes: first the processor, then the disk, whose
// syncs later transactions share.
func (s *store) send(shard int, c commit) {
	w := s.world
	docs := 0
	for _, p := range c.txn.Puts {
		if strings.HasPrefix(p.Key, ledger.PrefixNode) {
			docs++
		}
	}
	watchers := w.readers(s.number) + len(w.binders) + 1
	cost := w.costs.of(costTxn, 1) + w.costs.of(costDoc, docs) + w.costs.of(costWatch, docs*watchers)
	w.after(w.hop(), func() {
		s.proc.do(cost, func() {
			w.after(w.costs.of(delaySync, 1), func() { s.carryOut(shard, c) })
		})
	})
}

func (s *store) carryOut(shard int, c commit) {
	w := s.world
	r, err := s.mem.Commit(w.ctx, c.txn)
	if err != nil {
		w.breaks(fmt.Errorf("transaction of shard %d: %w", shard, err))
		return
	}
	w.tallyTxn(r.Succeeded)
	if r.Succeeded {
		s.record(shard, c.txn, r)
		w.reserved(c.places)
		end := len(s.history)
		for _, reader := range w.shards {
			if w.reads(reader.id, s.number) {
				w.after(w.hop(), func() { reader.told(&reader.ledgers[s.number], end) })
			}
		}
	}
	w.after(w.hop(), func() { c.answered(r) })
}

// record adds to the history the changes of a transaction that watches deliver.
func (s *store) record(shard int, t ledger.Txn, r ledger.TxnResult) {
	told := revision{at: s.world.now, shard: shard, events: ledger.EventBatch{Revision: r.Revision}}
	for _, p := range t.Puts {
		if s.created[p.Key] == 0 {
			s.created[p.Key] = r.Revision
		}
		told.events.Events = append(told.events.Events, ledger.Event{KV: ledger.KV{
			Key: p.Key, Value: p.Value, Lease: p.Lease, ModRevision: r.Revision, CreateRevision: s.created[p.Key],
		}})
	}
	for _, key := range t.Deletes {
		delete(s.created, key)
		gone := ledger.Event{KV: ledger.KV{Key: key, ModRevision: r.Revision}, Deleted: true}
		told.events.Events = append(told.events.Events, gone)
	}
	s.history = append(s.history, told)
}
