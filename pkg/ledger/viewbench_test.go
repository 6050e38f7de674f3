package ledger_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-scheduler/berth/pkg/ledger"
)

// promised returns the changes of a ledger in which a few shards place pods on nodes: every document is written
// repeatedly, with a few entries each time.
func promised(tb testing.TB, nodes, writes, entries int) ledger.ViewBatch {
	tb.Helper()
	var b ledger.ViewBatch
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
		value, err := ledger.EncodeNodeDoc(d)
		if err != nil {
			tb.Fatal(err)
		}
		b.Events.Events = append(b.Events.Events, ledger.Event{
			KV: ledger.KV{Key: ledger.PrefixNode + node, Value: value, ModRevision: revision}})
		b.Events.Revision = revision
	}
	return b
}

// Documents that another view has decoded lead to the same view, also where that view is ahead.
func TestKnownDocumentsMakeTheSamePicture(t *testing.T) {
	b := promised(t, 5, 6, 3)
	fold := func(b ledger.ViewBatch, ahead []ledger.KV) (*ledger.View, ledger.ViewChanges) {
		t.Helper()
		v := ledger.NewView()
		if _, err := v.Learn(ahead); err != nil {
			t.Fatal(err)
		}
		changes, err := v.Fold(b)
		if err != nil {
			t.Fatal(err)
		}
		return v, changes
	}
	_, all := fold(b, nil)
	again := b
	again.Known = all.Docs
	for name, ahead := range map[string][]ledger.KV{
		"nothing ahead": nil, "a document ahead": {b.Events.Events[13].KV},
		"two ahead": {b.Events.Events[29].KV, b.Events.Events[28].KV},
	} {
		plain, want := fold(b, ahead)
		known, got := fold(again, ahead)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: changes (-decoded +known):\n%s", name, diff)
		}
		if diff := cmp.Diff(places(plain), places(known)); diff != "" {
			t.Errorf("%s: who is promised what (-decoded +known):\n%s", name, diff)
		}
		if got := len(places(known)); got != 5*3 {
			t.Errorf("%s: %d pods are reserved, want 15", name, got)
		}
	}
}

// places returns the documents that reserve for each pod.
func places(v *ledger.View) map[string]ledger.NodeDoc {
	all := map[string]ledger.NodeDoc{}
	for uid := range v.Reserved() {
		all[uid], _, _ = v.Entry(uid)
	}
	return all
}

// twice returns changes of documents with four entries, first as a member has to decode them, then as another view
// of the same process has decoded them.
func twice(tb testing.TB, nodes, writes int) (decoded, known ledger.ViewBatch) {
	tb.Helper()
	decoded = promised(tb, nodes, writes, 4)
	all, err := ledger.NewView().Fold(decoded)
	if err != nil {
		tb.Fatal(err)
	}
	known = decoded
	known.Known = all.Docs
	return decoded, known
}

// BenchmarkFold measures a member's cost for one changed document of the ledger, by itself and when another view of
// the same process has decoded it.
func BenchmarkFold(b *testing.B) {
	const nodes, writes = 50, 20
	decoded, known := twice(b, nodes, writes)
	for name, batch := range map[string]ledger.ViewBatch{"decoded": decoded, "known": known} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := ledger.NewView().Fold(batch); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*nodes*writes), "ns/doc")
		})
	}
}
