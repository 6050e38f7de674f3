package replica_test

import (
	"fmt"
	"testing"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/codec"
	"github.com/berth-scheduler/berth/pkg/ledger/replica"
)

// slidingDocument returns the values of a node's document that is written repeatedly. Each value ends the oldest entry
// of the one before and adds one; the first value follows on the last one in the same way.
func slidingDocument(tb testing.TB, node string, entries int) [][]byte {
	tb.Helper()
	ring := 2*entries + 8
	values := make([][]byte, ring)
	for i := range values {
		d := ledger.NodeDoc{NodeUID: node, NodeName: node, HW: map[string]uint64{
			ledger.KindPod: uint64(1000 + i), ledger.KindNode: 17}}
		for n := range entries {
			number := (i + n) % ring
			d.Entries = append(d.Entries, ledger.Entry{
				PodUID: fmt.Sprintf("%s-0000-4000-8000-%012x", node[:8], number), Namespace: "default",
				Name: fmt.Sprintf("web-7c5d8b9f6d-%05d", number), Role: ledger.RoleReservation, State: ledger.Committed,
				PodRV: uint64(number + 1000), PlacementHash: uint64(number+1) << 40, Token: ledger.Token(number+1) << 32,
				Shard: "scheduler-0", SchedulerName: "default-scheduler",
				Requests:   map[string]int64{"cpu": 100, "memory": 500 << 20},
				NonZeroCPU: 100, NonZeroMemory: 500 << 20,
			})
		}
		value, err := codec.EncodeNodeDoc(d)
		if err != nil {
			tb.Fatal(err)
		}
		values[i] = value
	}
	return values
}

// BenchmarkFollowDocument measures a member's cost for one revision of a document in which one entry was replaced, as
// the watch delivers it.
func BenchmarkFollowDocument(b *testing.B) {
	for _, entries := range []int{1, 4, 24} {
		b.Run(fmt.Sprintf("entries=%d", entries), func(b *testing.B) {
			const nodes = 50
			values := make([][][]byte, nodes)
			keys := make([]string, nodes)
			for i := range nodes {
				node := fmt.Sprintf("%08x-0000-4000-9000-000000000000", i)
				values[i], keys[i] = slidingDocument(b, node, entries), ledger.KeyNode(node)
			}
			v := replica.NewView()
			revision, write := int64(1), 0
			b.ReportAllocs()
			for b.Loop() {
				revision++
				node := write % nodes
				value := values[node][write/nodes%len(values[node])]
				write++
				batch := replica.Batch{Events: ledger.EventBatch{Revision: revision, Events: []ledger.Event{
					{KV: ledger.KV{Key: keys[node], Value: value, ModRevision: revision}}}}}
				if _, err := v.Fold(batch); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
