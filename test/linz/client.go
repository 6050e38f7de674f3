package linz

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/replica"
	"github.com/berth-scheduler/berth/pkg/ledger/roster"
	"github.com/berth-scheduler/berth/pkg/ledger/txns"
)

const (
	// patience is how long a client waits for one answer; then the outcome is unknown.
	patience = 1500 * time.Millisecond
	// leaseTTL of a client's session: the shortest there is, so that some run out while the
	// leader is away.
	leaseTTL = ledger.MinSessionTTL
	// maxEntries of a document; more are handed over.
	maxEntries = 4
)

// history holds the operations of the clients of one round.
type history struct {
	mu struct {
		sync.Mutex
		operations []porcupine.Operation
		// open are those without an end.
		open []porcupine.Operation
	}
	begin time.Time
}

func (h *history) now() int64 { return int64(time.Since(h.begin)) }

func (h *history) add(client int, in operation, called int64, out answer) {
	op := porcupine.Operation{ClientId: client, Input: in, Call: called, Output: out, Return: h.now()}
	h.mu.Lock()
	defer h.mu.Unlock()
	if out.unknown {
		h.mu.open = append(h.mu.open, op)
		return
	}
	h.mu.operations = append(h.mu.operations, op)
}

// all closes the open operations at the end of the run. Each gets a client of its own, because its client has gone on
// to other operations.
func (h *history) all(clients int) []porcupine.Operation {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := h.mu.operations
	end := h.now() + 1
	for i, op := range h.mu.open {
		op.ClientId, op.Return = clients+i, end
		out = append(out, op)
	}
	return out
}

// client is one shard, as far as the ledger is concerned.
type client struct {
	id       int
	name     string
	site     *site
	store    ledger.Store
	history  *history
	rng      *rand.Rand
	session  ledger.Session
	attempts ledger.Token
	// careless leaves the compares of documents out: the broken variant.
	careless bool
	// known is what the client last saw, by key; epochs are those of the partitions it believes to hold.
	known  map[string]ledger.KV
	epochs map[int32]int64
	// versions numbers the written values, over all clients, so that no value is written twice.
	versions *atomic.Uint64
	// behind: a transaction on its view of documents and names has been refused.
	behind bool
	// broken lists violations that reads have shown.
	broken []string
	// taken is the value that the client last wrote under a partition's key.
	taken map[string][]byte
}

// act does one thing.
func (c *client) act(ctx context.Context) error {
	if c.session != nil {
		select {
		case <-c.session.Done():
			c.session = nil // and the epochs are void, which the client does not know
		default:
		}
	}
	if c.session == nil {
		opening, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		session, err := c.store.OpenSession(opening, leaseTTL)
		if err != nil {
			return nil // the leader is away
		}
		c.session = session
	}
	n := c.rng.IntN(2)
	switch dice := c.rng.IntN(10); {
	case dice < 2, c.behind:
		c.read(ctx)
		return nil
	case dice == 2 && c.epochs[c.site.parts[n]] != 0:
		return c.release(ctx, n)
	case dice == 3 && c.rng.IntN(3) == 0:
		ending, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		_ = c.session.Close(ending) // as if it had run out; if that fails it will
		c.session = nil
		return nil
	case dice == 4:
		return c.collect(ctx)
	case c.epochs[c.site.parts[n]] == 0:
		return c.take(ctx, n)
	default:
		return c.place(ctx, n)
	}
}

func (c *client) read(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	called := c.history.now()
	kvs, _, err := c.store.List(ctx, "")
	if err != nil {
		return // a read without an answer shows nothing
	}
	all := map[int]content{}
	for i := range c.site.keys {
		all[i] = 0
	}
	c.history.add(c.id, operation{kind: opRead}, called, answer{seen: c.site.seen(kvs, all)})
	c.learn(kvs, all)
	c.behind = false
	c.checkNames()
}

// learn takes over what the store has shown of some keys.
func (c *client) learn(kvs []ledger.KV, keys map[int]content) {
	for i := range keys {
		delete(c.known, c.site.keys[i])
	}
	for _, kv := range kvs {
		if i, ok := c.site.index(kv.Key); ok {
			if _, asked := keys[i]; asked {
				c.known[kv.Key] = kv
			}
		}
	}
}

// lost applies the owners of partitions that a refused transaction has shown. Nodes' documents and names are read
// again, all of them at once, before the next operation: one of them alone says nothing about the others.
func (c *client) lost(kvs []ledger.KV, keys map[int]content) {
	owners := map[int]content{}
	for i := range keys {
		if _, ok := roster.ParseOwn(c.site.keys[i]); ok {
			owners[i] = keys[i]
		}
	}
	c.learn(kvs, owners)
	c.behind = c.behind || len(owners) < len(keys)
}

func (c *client) take(ctx context.Context, n int) error {
	c.attempts++
	owner := roster.Owner{Member: c.name, Incarnation: uint64(c.id)<<32 | uint64(c.attempts)}
	txn, err := roster.TakePartition(c.site.parts[n], owner, c.session.Lease())
	if err != nil {
		return err
	}
	key, value := txn.Puts[0].Key, txn.Puts[0].Value
	c.taken[key] = value
	called := c.history.now()
	result, known := c.commit(ctx, txn)
	epoch := result.Revision
	if known && !result.Succeeded {
		// An earlier copy of the same transaction may have done it.
		kv := c.known[key]
		if epoch = kv.CreateRevision; contentOf(kv.Value) != contentOf(value) {
			return nil
		}
	}
	// The lease may end at any later time, and the key with it.
	c.history.add(c.id, operation{kind: opExpire, key: n, held: contentOf(value)}, called, answer{unknown: true})
	if known {
		c.epochs[c.site.parts[n]] = epoch
	}
	return nil
}

func (c *client) release(ctx context.Context, n int) error {
	part := c.site.parts[n]
	txn, err := roster.ReleasePartition(part, c.epochs[part])
	if err != nil {
		return err
	}
	delete(c.epochs, part)
	c.commit(ctx, txn)
	return nil
}

// place reserves one or two nodes, in one transaction, on what the client knows of them.
func (c *client) place(ctx context.Context, n int) error {
	batch := txns.PlaceBatch{Epochs: map[int32]int64{c.site.parts[n]: c.epochs[c.site.parts[n]]}}
	first := c.rng.IntN(len(c.site.nodes))
	for i := range 1 + c.rng.IntN(2) {
		node := c.site.nodes[(first+i)%len(c.site.nodes)]
		view, err := c.view()
		if err != nil {
			return err
		}
		name, rv := c.site.names[node], c.next()
		if len(batch.Docs) > 0 && batch.Docs[0].NodeName == name {
			continue
		}
		switch view.Names().Admission(node, name, rv) {
		case replica.Unadmitted:
			return c.admit(ctx, view, node, rv)
		case replica.Superseded:
			continue
		}
		doc := view.Open(node, name, rv).Cover(ledger.KindNode, rv)
		if len(doc.Entries) >= maxEntries {
			doc.Entries = nil // as if all of them were bound
		}
		c.attempts++
		token := ledger.Token(uint64(c.id+1)<<32 | uint64(c.attempts))
		doc.Entries = append(doc.Entries, ledger.Entry{
			PodUID: c.site.pods[n], Namespace: "d", Name: "p", Role: ledger.RoleReservation, State: ledger.Committed,
			PodRV: 1, Token: token, Shard: c.name,
		})
		batch.Docs, batch.Placed = append(batch.Docs, doc), append(batch.Placed, token)
	}
	if len(batch.Docs) == 0 {
		return nil
	}
	txn, err := batch.Txn()
	if err != nil {
		return err
	}
	result, known := c.commit(ctx, txn)
	if known && !result.Succeeded && result.Current != nil {
		if kv := c.known[roster.KeyOwn(c.site.parts[n])]; kv.CreateRevision != c.epochs[c.site.parts[n]] {
			delete(c.epochs, c.site.parts[n]) // deposed
		}
	}
	return nil
}

// commit carries a transaction out; while its outcome is unknown, it sends the identical one again, as the protocol
// requires.
func (c *client) commit(ctx context.Context, txn ledger.Txn) (result ledger.TxnResult, known bool) {
	for range 3 {
		if result, known = c.once(ctx, txn); known || ctx.Err() != nil {
			return result, known
		}
	}
	return result, false
}

func (c *client) once(ctx context.Context, txn ledger.Txn) (ledger.TxnResult, bool) {
	in := c.operation(txn)
	sent := txn
	if c.careless {
		sent.Compares = nil
		for _, cmp := range txn.Compares {
			if cmp.Target != ledger.ModRevision {
				sent.Compares = append(sent.Compares, cmp)
			}
		}
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	called := c.history.now()
	result, err := c.store.Commit(ctx, sent)
	if err != nil {
		c.history.add(c.id, in, called, answer{unknown: true})
		return result, false
	}
	out := answer{succeeded: result.Succeeded}
	if !result.Succeeded {
		out.seen = c.site.seen(result.Current, in.compares)
		if c.careless {
			out.seen = nil
		}
		c.lost(result.Current, in.compares)
	} else {
		for _, put := range txn.Puts {
			c.known[put.Key] = ledger.KV{
				Key: put.Key, Value: put.Value, ModRevision: result.Revision, CreateRevision: c.created(put.Key, result.Revision),
			}
		}
		for _, key := range txn.Deletes {
			delete(c.known, key)
		}
	}
	c.history.add(c.id, in, called, out)
	return result, true
}

func (c *client) created(key string, revision int64) int64 {
	if kv, ok := c.known[key]; ok && kv.CreateRevision != 0 {
		return kv.CreateRevision
	}
	return revision
}

// operation is the transaction in contents: what stood there at the compared revisions.
func (c *client) operation(txn ledger.Txn) operation {
	in := operation{kind: opTxn, compares: map[int]content{}, puts: map[int]content{}}
	for _, cmp := range txn.Compares {
		i, ok := c.site.index(cmp.Key)
		switch {
		case !ok: // the registry of terms, which no client writes
		case cmp.Revision == 0:
			in.compares[i] = 0
		default:
			in.compares[i] = contentOf(c.compared(cmp.Key))
		}
	}
	for _, put := range txn.Puts {
		if i, ok := c.site.index(put.Key); ok {
			in.puts[i] = contentOf(put.Value)
		}
	}
	for _, key := range txn.Deletes {
		if i, ok := c.site.index(key); ok {
			in.puts[i] = 0
		}
	}
	return in
}

// compared is the value at the revision that the client compares with.
func (c *client) compared(key string) []byte {
	if value, ok := c.taken[key]; ok {
		return value
	}
	return c.known[key].Value
}
