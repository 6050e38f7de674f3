package replica_test

import (
	"fmt"
	"testing"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/codec"
	"github.com/berth-scheduler/berth/pkg/ledger/replica"
)

// placementHistory returns the changes of a ledger in which a few shards place pods on nodes: every document is written
// repeatedly, with a few entries each time.
func placementHistory(tb testing.TB, nodes, writes, entries int) replica.Batch {
	tb.Helper()
	var b replica.Batch
	for i := range nodes * writes {
		revision, node := int64(i+2), fmt.Sprintf("node-%d", i%nodes)
		d := ledger.NodeDoc{NodeUID: node, NodeName: node, HW: map[string]uint64{ledger.KindPod: uint64(revision)}}
		for n := range entries {
			number := i/nodes + n // each write ends the oldest and adds one
			d.Entries = append(d.Entries, ledger.Entry{
				PodUID: fmt.Sprintf("%08x-0000-4000-8000-%012x", i%nodes, number), Namespace: "default",
				Name: fmt.Sprintf("pod-%d-%d", i%nodes, number), Role: ledger.RoleReservation, State: ledger.Committed,
				PodRV: uint64(number + 1), Token: ledger.Token(number + 1), Shard: "scheduler-0",
				SchedulerName: "default-scheduler",
				Requests:      map[string]int64{"cpu": 100, "memory": 500 << 20, "pods": 1},
			})
		}
		value, err := codec.EncodeNodeDoc(d)
		if err != nil {
			tb.Fatal(err)
		}
		b.Events.Events = append(b.Events.Events, ledger.Event{
			KV: ledger.KV{Key: ledger.PrefixNode + node, Value: value, ModRevision: revision}})
		b.Events.Revision = revision
	}
	return b
}

// BenchmarkFold measures a member's cost for one changed document of the ledger.
func BenchmarkFold(b *testing.B) {
	const nodes, writes = 50, 20
	batch := placementHistory(b, nodes, writes, 4)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := replica.NewView().Fold(batch); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*nodes*writes), "ns/doc")
}
