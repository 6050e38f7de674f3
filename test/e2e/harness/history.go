package harness

import (
	"context"
	"errors"
	"strings"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/codec"
	"github.com/berth-scheduler/berth/pkg/ledger/etcd"
	"github.com/berth-scheduler/berth/pkg/ledger/identity"
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

// LedgerSize is the content of the ledger at one moment, by size.
type LedgerSize struct {
	// Keys and Bytes of all that is in it, keys included; Entries are reservations, claims and
	// pins in the documents of nodes.
	Keys, Bytes, Entries int
	// Under counts the keys by their prefixes.
	Under    KeyCounts
	Revision int64
}

// KeyCounts are numbers of keys by their names up to the first slash, it included.
type KeyCounts map[string]int

// Add counts a key so many times.
func (c KeyCounts) Add(key string, times int) {
	head, _, isPrefix := strings.Cut(key, "/")
	if isPrefix {
		head += "/"
	}
	if c[head] += times; c[head] == 0 {
		delete(c, head)
	}
}

// Size measures the ledger that is kept in this etcd.
func (s *Store) Size(ctx context.Context) (size LedgerSize, err error) {
	store, err := etcd.Open(ctx, etcd.Config{Endpoints: []string{s.URL}})
	if err != nil {
		return size, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	kvs, revision, err := store.List(ctx, "")
	if err != nil {
		return size, err
	}
	size.Keys, size.Revision, size.Under = len(kvs), revision, KeyCounts{}
	for _, kv := range kvs {
		size.Under.Add(kv.Key, 1)
		size.Bytes += len(kv.Key) + len(kv.Value)
		if !strings.HasPrefix(kv.Key, ledger.PrefixNode) {
			continue
		}
		d, err := codec.DecodeNodeDoc(kv)
		if err != nil {
			return size, err
		}
		size.Entries += len(d.Entries)
	}
	return size, nil
}

// Generation is which ledger is kept in this etcd; the zero value for none.
func (s *Store) Generation(ctx context.Context) (g identity.Generation, err error) {
	store, err := etcd.Open(ctx, etcd.Config{Endpoints: []string{s.URL}})
	if err != nil {
		return g, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	kvs, _, err := store.List(ctx, identity.KeyGeneration)
	for _, kv := range kvs {
		if kv.Key == identity.KeyGeneration {
			return identity.DecodeGeneration(kv)
		}
	}
	return g, err
}
