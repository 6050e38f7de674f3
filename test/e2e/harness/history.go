package harness

import (
	"context"
	"errors"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/etcd"
)

// Ledger returns everything that has ever happened in the ledger that is kept in this etcd,
// in its own order.
func (s *Store) Ledger(ctx context.Context) (events []ledger.Event, err error) {
	store, err := etcd.Open(ctx, etcd.Config{Endpoints: []string{s.URL}})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	_, last, err := store.List(ctx, "")
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	watch := store.Watch(ctx, "", 1)
	for batch := range watch.Batches() {
		events = append(events, batch.Events...)
		if batch.Revision >= last {
			return events, nil
		}
	}
	return nil, errors.Join(errors.New("the history of the ledger broke off"), watch.Err())
}
