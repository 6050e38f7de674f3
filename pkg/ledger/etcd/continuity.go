package etcd

import (
	"bytes"
	"cmp"
	"slices"
	"sync"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/identity"
)

// continuity detects that the client is connected to another store, or to one that went back. It is safe for
// concurrent use.
type continuity struct {
	mu struct {
		sync.Mutex
		// id is the etcd cluster's, 0 until the first answer; seen is the highest revision that a linearizable
		// answer has had.
		id   uint64
		seen int64
		anew *ledger.StoreReplacedError
		// generation is the number of the ledger's generation when the store was last found unchanged, 0 if there
		// is none.
		generation uint64
		// witness is a value that a listing or a watch has delivered; its ModRevision is 0 if there is none. A
		// store that was restored may have passed seen again before the next check, but then it has another value
		// at the revision of the witness. next is the newest such value. It becomes the witness once the store has
		// been found to know the previous witness: until then it may come from another store.
		witness, next ledger.KV
	}
}

// observe records what a watch has delivered.
func (c *continuity) observe(b ledger.EventBatch) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.seen = max(c.mu.seen, b.Revision)
	for _, ev := range slices.Backward(b.Events) {
		if !ev.Deleted && ev.ModRevision > c.mu.next.ModRevision {
			c.mu.next = ev.KV
			break
		}
	}
	if c.mu.witness.ModRevision == 0 {
		c.mu.witness = c.mu.next
	}
}

// observeList records a listing.
func (c *continuity) observeList(kvs []ledger.KV, revision int64) {
	if len(kvs) == 0 {
		return
	}
	newest := slices.MaxFunc(kvs, func(a, b ledger.KV) int { return cmp.Compare(a.ModRevision, b.ModRevision) })
	c.observe(ledger.EventBatch{Revision: revision, Events: []ledger.Event{{KV: newest}}})
	if at := slices.IndexFunc(kvs, func(kv ledger.KV) bool { return kv.Key == identity.KeyGeneration }); at >= 0 {
		c.setGeneration(kvs[at])
	}
}

// witnesses returns the witness to verify, and the value that replaces it if the store knows it.
func (c *continuity) witnesses() (witness, next ledger.KV) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.witness, c.mu.next
}

// setWitness makes next the witness.
func (c *continuity) setWitness(next ledger.KV) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.witness = next
}

// setGeneration records the ledger's generation as it was read from an unchanged store.
func (c *continuity) setGeneration(kv ledger.KV) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if g, err := identity.DecodeGeneration(kv); err == nil {
		c.mu.generation = g.Number
	}
}

// knownGeneration returns the number of the generation that this member has worked in.
func (c *continuity) knownGeneration() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.generation
}

// compareWitness compares a witness with the value that the store reports for its revision; nil means no value. first
// is true for the answer that first reveals a difference.
func (c *continuity) compareWitness(witness ledger.KV, had *ledger.KV) (first bool, err error) {
	if had != nil && had.ModRevision == witness.ModRevision && bytes.Equal(had.Value, witness.Value) {
		return false, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.anew != nil {
		return false, c.mu.anew
	}
	c.mu.anew = &ledger.StoreReplacedError{Was: c.mu.id, Now: c.mu.id, Seen: witness.ModRevision, Key: witness.Key}
	return true, c.mu.anew
}

// requiredRevision returns the revision that every linearizable request that begins now must find; an error once the
// store is known to have been replaced or gone back.
func (c *continuity) requiredRevision() (seen int64, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.anew != nil {
		return 0, c.mu.anew
	}
	return c.mu.seen, nil
}

// checkHeader examines the header of the answer to a request that began when seen had been reached. first is true for
// the answer that first reveals a difference.
func (c *continuity) checkHeader(h *pb.ResponseHeader, seen int64) (first bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.anew != nil {
		return false, c.mu.anew
	}
	if c.mu.id == 0 {
		c.mu.id = h.GetClusterId()
	}
	if h.GetClusterId() != c.mu.id || h.GetRevision() < seen {
		c.mu.anew = &ledger.StoreReplacedError{Was: c.mu.id, Now: h.GetClusterId(), Seen: seen, Revision: h.GetRevision()}
		return true, c.mu.anew
	}
	c.mu.seen = max(c.mu.seen, h.GetRevision())
	return false, nil
}

// id returns the identity of the store, 0 until the first answer.
func (c *continuity) id() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.id
}
