package etcd

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/berth-scheduler/berth/pkg/ledger"
)

const (
	// verifyEvery is how often a running watch asks whether the store is still what it was. A watch
	// by itself would wait for ever for revisions that the store had before it was restored.
	verifyEvery = 5 * time.Second
	// doubtTimeout bounds the attempt to tell the others.
	doubtTimeout = 5 * time.Second
)

// continuity notices that the client is connected to another store, or to one that went back. Safe for
// concurrent use.
type continuity struct {
	mu struct {
		sync.Mutex
		// id is the cluster's, 0 until the first answer; seen is the highest revision that a
		// linearizable answer has had.
		id   uint64
		seen int64
		anew *ledger.AnewError
		// generation is the number of the ledger's when the store was last found to be what it had been, 0
		// for none.
		generation uint64
		// witness is a value that a listing or a watch has told of; its ModRevision is 0 for none. A store
		// that was restored may have come beyond seen again before anybody asks, but what it had at this
		// revision is something else then. next is the newest such value. It becomes the witness once the
		// store has been found to know the one before: until then it may be of another store.
		witness, next ledger.KV
	}
}

// told takes in what the store has told of its own accord.
func (c *continuity) told(b ledger.EventBatch) {
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

// listed takes in a listing.
func (c *continuity) listed(kvs []ledger.KV, revision int64) {
	if len(kvs) == 0 {
		return
	}
	newest := slices.MaxFunc(kvs, func(a, b ledger.KV) int { return cmp.Compare(a.ModRevision, b.ModRevision) })
	c.told(ledger.EventBatch{Revision: revision, Events: []ledger.Event{{KV: newest}}})
	if at := slices.IndexFunc(kvs, func(kv ledger.KV) bool { return kv.Key == ledger.KeyGeneration }); at >= 0 {
		c.found(kvs[at])
	}
}

// witnesses are the one to ask for, and the one that takes its place if it is known.
func (c *continuity) witnesses() (witness, next ledger.KV) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.witness, c.mu.next
}

// known makes next the witness.
func (c *continuity) known(next ledger.KV) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.witness = next
}

// found notes the ledger's generation as it was read from a store that is what it had been.
func (c *continuity) found(kv ledger.KV) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if g, err := ledger.DecodeGeneration(kv); err == nil {
		c.mu.generation = g.Number
	}
}

// begun is the number of the generation that this member has worked in.
func (c *continuity) begun() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.generation
}

// compare holds what the store says it had at the revision of a witness against it: nil if that is nothing.
// first is true for the answer that gives the store away.
func (c *continuity) compare(witness ledger.KV, had *ledger.KV) (first bool, err error) {
	if had != nil && had.ModRevision == witness.ModRevision && bytes.Equal(had.Value, witness.Value) {
		return false, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.anew != nil {
		return false, c.mu.anew
	}
	c.mu.anew = &ledger.AnewError{Was: c.mu.id, Now: c.mu.id, Seen: witness.ModRevision, Key: witness.Key}
	return true, c.mu.anew
}

// reached is what every linearizable request that begins now must find; an error once the store is
// known to have begun anew.
func (c *continuity) reached() (seen int64, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.anew != nil {
		return 0, c.mu.anew
	}
	return c.mu.seen, nil
}

// check looks at the header of the answer to a request that began when seen had been reached. first is
// true for the answer that gives the store away.
func (c *continuity) check(h *pb.ResponseHeader, seen int64) (first bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.anew != nil {
		return false, c.mu.anew
	}
	if c.mu.id == 0 {
		c.mu.id = h.GetClusterId()
	}
	if h.GetClusterId() != c.mu.id || h.GetRevision() < seen {
		c.mu.anew = &ledger.AnewError{Was: c.mu.id, Now: h.GetClusterId(), Seen: seen, Revision: h.GetRevision()}
		return true, c.mu.anew
	}
	c.mu.seen = max(c.mu.seen, h.GetRevision())
	return false, nil
}

func (c *continuity) id() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.id
}

// continues checks an answer, and tells the others if it is the first that gives the store away.
func (s *Store) continues(h *pb.ResponseHeader, seen int64) error {
	first, err := s.continuity.check(h, seen)
	if first {
		s.doubt(err)
	}
	return err
}

// doubt closes the ledger's generation. Members that start later cannot tell that the store went back;
// without the mark they would take it for what it was. It is an attempt: if it fails, the next member
// that notices makes it.
func (s *Store) doubt(cause error) {
	ctx, cancel := context.WithTimeout(context.Background(), doubtTimeout) //nolint:background // no caller waits for it
	defer cancel()
	resp, err := s.client.Get(ctx, ledger.KeyGeneration)
	if err != nil {
		return
	}
	var now ledger.Generation
	for _, kv := range resp.Kvs {
		if now, err = ledger.DecodeGeneration(toKV(kv)); err != nil {
			now = ledger.Generation{Revision: kv.GetModRevision()}
		}
	}
	if known := s.continuity.begun(); now.Revision != 0 && (!now.Open || known > 0 && now.Number > known) {
		return // another member has noticed before, and it is closed, or a later one has begun
	}
	txn, err := now.Doubt(cause.Error())
	if err != nil {
		return
	}
	// Whoever was faster has closed it, or opened the next one.
	_, _ = s.client.Txn(ctx).If(compares(txn)...).Then(writes(txn)...).Commit()
}

// ID implements ledger.Store.
func (s *Store) ID(ctx context.Context) (uint64, error) {
	if id := s.continuity.id(); id != 0 {
		return id, nil
	}
	if err := s.verify(ctx); err != nil {
		return 0, err
	}
	return s.continuity.id(), nil
}

// verify asks the store for how far it is, and whether it still knows the witness. An error that is not
// *ledger.AnewError says nothing.
func (s *Store) verify(ctx context.Context) error {
	generation, err := s.page(ctx, ledger.KeyGeneration, nil)
	if err != nil {
		return err
	}
	witness, next := s.continuity.witnesses()
	if err := s.recognise(ctx, witness); err != nil {
		return err
	}
	s.continuity.known(next)
	for _, kv := range generation.Kvs {
		s.continuity.found(toKV(kv))
	}
	return nil
}

// recognise asks whether the store still knows a witness.
func (s *Store) recognise(ctx context.Context, witness ledger.KV) error {
	if witness.ModRevision == 0 {
		return nil
	}
	resp, err := s.page(ctx, witness.Key, []clientv3.OpOption{clientv3.WithRev(witness.ModRevision)})
	if errors.Is(err, rpctypes.ErrCompacted) {
		return nil // it has forgotten, and a newer one will be told
	}
	if err != nil {
		return err
	}
	var had *ledger.KV
	for _, kv := range resp.Kvs {
		had = new(toKV(kv))
	}
	first, err := s.continuity.compare(witness, had)
	if first {
		s.doubt(err)
	}
	return err
}

// vouch verifies again and again until ctx ends, or the store has begun anew: then it stops what runs
// under ctx.
func (s *Store) vouch(ctx context.Context, stop context.CancelCauseFunc) {
	tick := time.NewTicker(verifyEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		var anew *ledger.AnewError
		if err := s.verify(ctx); errors.As(err, &anew) {
			stop(anew)
			return
		}
	}
}
