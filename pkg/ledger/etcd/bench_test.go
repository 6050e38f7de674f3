package etcd_test

import (
	"fmt"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/registry"
	"github.com/berth-scheduler/berth/pkg/ledger/roster"
	"github.com/berth-scheduler/berth/pkg/ledger/txns"
)

// BenchmarkPlaceBatch is T1 against a real server that syncs its log. Every iteration is one transaction of each
// client, on nodes of its own. It reports per document.
func BenchmarkPlaceBatch(b *testing.B) {
	s := start(b, false)
	for _, c := range []struct{ docs, clients, guards int }{
		{1, 1, 0}, {12, 1, 0}, {32, 1, 0}, {1, 16, 0}, {12, 4, 0}, {32, 4, 0}, {12, 1, 3}, {12, 4, 3},
	} {
		b.Run(fmt.Sprintf("docs=%d/clients=%d/guards=%d", c.docs, c.clients, c.guards), func(b *testing.B) {
			store := s.open(b)
			session, err := store.OpenSession(b.Context(), ledger.MinSessionTTL)
			if err != nil {
				b.Fatal(err)
			}
			defer func() {
				if err := session.Close(b.Context()); err != nil {
					b.Error(err)
				}
			}()
			var shards []*placer
			for i := range c.clients {
				p := &placer{name: fmt.Sprintf("s%d", i), docs: make([]ledger.NodeDoc, c.docs), guards: make([]int64, c.guards)}
				if err := p.own(b, store, session, int32(i)); err != nil {
					b.Fatal(err)
				}
				shards = append(shards, p)
			}
			b.ResetTimer()
			var g errgroup.Group
			for _, p := range shards {
				g.Go(func() error {
					for range b.N {
						if err := p.place(b, store); err != nil {
							return err
						}
					}
					return nil
				})
			}
			if err := g.Wait(); err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(b.N*c.clients*c.docs)/b.Elapsed().Seconds(), "docs/s")
			b.ReportMetric(float64(b.N*c.clients)/b.Elapsed().Seconds(), "txn/s")
		})
	}
}

// placer is a shard that repeatedly places one pod per document; the previous pod has been handed over by then.
type placer struct {
	name      string
	partition int32
	epoch     int64
	podUIDs   []string
	docs      []ledger.NodeDoc
	token     ledger.Token
	// guards are the revisions of the carriers' guards of one term, in as many domains: the first pods of every
	// batch are spread over them.
	guards []int64
}

// needs returns the needs of the i-th pod of a batch as a carrier.
func (p *placer) needs(i int) txns.Needs {
	key := func(part registry.Part) string {
		return registry.KeyGuard(registry.TermID("term-of-"+p.name), fmt.Sprintf("zone-%d", i), part)
	}
	return txns.Needs{Guards: []registry.GuardUse{
		{Key: key(registry.Carriers), Compare: true, Revision: p.guards[i], Put: true},
		{Key: key(registry.Matchers), Compare: true},
	}}
}

// own takes the placer's partition and finds pods that belong to it.
func (p *placer) own(b *testing.B, store ledger.Store, session ledger.Session, partition int32) error {
	p.partition = partition
	for n := 0; len(p.podUIDs) < len(p.docs); n++ {
		if uid := fmt.Sprintf("00000000-0000-4000-8000-%012d", n); ledger.PartitionOf(uid) == partition {
			i := len(p.podUIDs)
			p.podUIDs = append(p.podUIDs, uid)
			p.docs[i].NodeUID, p.docs[i].NodeName = fmt.Sprintf("%s-node-%d", p.name, i), fmt.Sprintf("node-%d", i)
		}
	}
	txn, err := roster.TakePartition(partition, roster.Owner{Member: p.name}, session.Lease())
	if err != nil {
		return err
	}
	r, err := store.Commit(b.Context(), txn)
	p.epoch = r.Revision
	return err
}

func (p *placer) place(b *testing.B, store ledger.Store) error {
	batch := txns.PlaceBatch{Epochs: map[int32]int64{p.partition: p.epoch}, Needs: map[ledger.Token]txns.Needs{}}
	for i, d := range p.docs {
		p.token++
		d.Entries, d.HW = nil, map[string]uint64{ledger.KindPod: uint64(p.token)}
		placed, err := txns.Place(d, ledger.Entry{
			PodUID: p.podUIDs[i], Namespace: "bench", Name: "a-pod-of-some-deployment", Role: ledger.RoleReservation,
			State: ledger.Committed, PodRV: uint64(p.token), Token: p.token, Shard: "scheduler-0-abcde",
			SchedulerName: "default-scheduler", Requests: map[string]int64{"cpu": 100, "memory": 1 << 27},
		})
		if err != nil {
			return err
		}
		batch.Docs, batch.Placed = append(batch.Docs, placed), append(batch.Placed, p.token)
		if i < len(p.guards) {
			batch.Needs[p.token] = p.needs(i)
		}
	}
	txn, err := batch.Txn()
	if err != nil {
		return err
	}
	r, err := store.Commit(b.Context(), txn)
	if err != nil {
		return err
	}
	if !r.Succeeded {
		return fmt.Errorf("%s lost: %+v", p.name, r.Current)
	}
	for i := range batch.Docs {
		batch.Docs[i].Revision = r.Revision
	}
	p.docs = batch.Docs
	for i := range p.guards {
		p.guards[i] = r.Revision
	}
	return nil
}
