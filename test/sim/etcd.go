package sim

import (
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/roster"
)

// leases are the sessions' times as the ledger keeps them.
type leases struct{ renewed map[int64]time.Duration }

func (l *leases) alive(id int64) bool { _, ok := l.renewed[id]; return ok }

func (l *leases) renew(id int64, now time.Duration) { l.renewed[id] = now }

// promote models the promotion of a new etcd leader: every lease starts again with its full TTL.
func (l *leases) promote(now time.Duration) {
	for id := range l.renewed {
		l.renewed[id] = now
	}
}

// expireLeases ends those that have not been renewed for their time.
func (w *world) expireLeases() {
	for _, id := range slices.Sorted(maps.Keys(w.leases.renewed)) {
		if w.now-w.leases.renewed[id] >= memberTTL {
			w.revoke(id)
			w.hit("lease expired")
		}
	}
}

// revoke ends a lease, and with it its keys.
func (w *world) revoke(id int64) {
	delete(w.leases.renewed, id)
	w.store.Expire(id)
	w.observe(nil)
}

// transact sends a transaction. The coverage has its name and its outcome.
func (w *world) transact(p *proc, what string, t ledger.Txn, onResult func(ledger.TxnResult, error) error) {
	meant := committed{what: what, who: p, member: p.member(), txn: t}
	if s := w.shardOf(p); s != nil {
		meant.knew = s.known(what, t)
	}
	c := &call{
		who: p, to: toEtcd, what: what,
		carry: func() (any, error) { return w.commit(meant) },
		onResult: func(result any, err error) error {
			r, _ := result.(ledger.TxnResult)
			if r.Succeeded {
				p.answered = max(p.answered, r.Revision)
			}
			return onResult(r, err)
		},
	}
	w.delay(c, t)
	w.send(c)
}

// commit runs a transaction on the ledger and lets the oracle check its changes.
func (w *world) commit(meant committed) (ledger.TxnResult, error) {
	p, what, t := meant.who, meant.what, meant.txn
	if w.mutant.txn != nil {
		t = w.mutant.txn(w, what, t)
	}
	if w.mutant.sent != nil {
		t = w.mutant.sent(w, meant)
	}
	r, err := w.store.Commit(w.ctx, t)
	if err != nil {
		return r, err
	}
	if r.Succeeded {
		w.hit(what + ": then")
	} else {
		w.hit(what + ": else")
	}
	w.tracef("%s %s: succeeded %t at %d", meant.member, what, r.Succeeded, r.Revision)
	if r.Succeeded {
		w.observe(&meant)
		w.runAdverseEvents(what, p, t)
	}
	return r, w.broken()
}

func isRefused(err error, refused **ledger.TxnError) bool { return errors.As(err, refused) }

// election is the queue's; the oldest candidate leads, its create revision is the term.
const electionPrefix = roster.PrefixElection + "queue/"

func (w *world) leads(prefix, key string) (term int64, leads bool) {
	kvs, _, err := w.store.List(w.ctx, prefix)
	if err != nil {
		return 0, false
	}
	for _, kv := range kvs {
		if kv.Key == key {
			term = kv.CreateRevision
		}
	}
	older := slices.ContainsFunc(kvs, func(kv ledger.KV) bool { return kv.CreateRevision < term })
	return term, term > 0 && !older
}
