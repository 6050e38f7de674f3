package etcd

import (
	"context"
	"errors"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/identity"
)

// verifyEvery is how often a running watch checks that the store is still the same. A watch by itself would wait
// forever for revisions that the store had before it was restored.
const verifyEvery = 5 * time.Second

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

// verify asks the store how far it has come, and whether it still knows the witness. An error other than
// *ledger.StoreReplacedError proves nothing.
func (s *Store) verify(ctx context.Context) error {
	generation, err := s.page(ctx, identity.KeyGeneration, nil)
	if err != nil {
		return err
	}
	witness, next := s.continuity.witnesses()
	if err := s.verifyWitness(ctx, witness); err != nil {
		return err
	}
	s.continuity.setWitness(next)
	for _, kv := range generation.Kvs {
		s.continuity.setGeneration(toKV(kv))
	}
	return nil
}

// verifyWitness checks whether the store still knows a witness.
func (s *Store) verifyWitness(ctx context.Context, witness ledger.KV) error {
	if witness.ModRevision == 0 {
		return nil
	}
	resp, err := s.page(ctx, witness.Key, []clientv3.OpOption{clientv3.WithRev(witness.ModRevision)})
	if errors.Is(err, rpctypes.ErrCompacted) {
		return nil // the revision is compacted, and the watch will deliver a newer value
	}
	if err != nil {
		return err
	}
	var had *ledger.KV
	for _, kv := range resp.Kvs {
		had = new(toKV(kv))
	}
	first, err := s.continuity.compareWitness(witness, had)
	if first {
		s.closeGeneration(err)
	}
	return err
}

// verifyLoop verifies repeatedly until ctx ends, or the store has been replaced or gone back: then it stops what runs
// under ctx.
func (s *Store) verifyLoop(ctx context.Context, stop context.CancelCauseFunc) {
	tick := time.NewTicker(verifyEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		var anew *ledger.StoreReplacedError
		if err := s.verify(ctx); errors.As(err, &anew) {
			stop(anew)
			return
		}
	}
}
