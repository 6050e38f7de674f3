package ledgertest

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/codec"
	"github.com/berth-scheduler/berth/pkg/ledger/txns"
)

// Run checks everything that package ledger promises of a Store and of Elections.
func Run(t *testing.T, open Open) {
	t.Helper()
	runAll(t, open, []contract{
		{"a transaction applies wholly or not at all", txnAtomic},
		{"compares look at the revision they name", compareTargets},
		{"a lost transaction brings back what it compared", currentValues},
		{"an identical transaction applies at most once", resubmission},
		{"a malformed transaction is surely refused", malformed},
		{"as many writes as compares fit", limits},
		{"a transaction that is too large is refused for certain", tooLarge},
		{"a recreated key is another key", aba},
		{"list is sorted, complete and dated", listing},
		{"no change of a contended key is lost", contention},
		{"a watch delivers whole revisions in order", watchOrder},
		{"a watch resumes where it is told", watchResume},
		{"a watch begins where the store is", watchBeyond},
		{"a watch behind compaction says so", watchCompacted},
		{"a watch ends with its context", watchEnds},
		{"a session's keys go with its lease", sessions},
		{"elections give one leader and growing terms", elections},
		{"a candidate that gives up leaves the way free", campaignEnds},
	})
}

func txnAtomic(t *testing.T, h Harness) {
	mustCommit(t, h.Store, put("k/a", "1"))
	r := commit(t, h.Store, ledger.Txn{
		Compares: []ledger.Compare{{Key: "k/a", Target: ledger.ModRevision, Revision: 999_999_999}},
		Puts:     []ledger.Put{{Key: "k/b", Value: []byte("x")}},
		Deletes:  []string{"k/a"},
	})
	if r.Succeeded {
		t.Fatal("a failed compare did not fail the transaction")
	}
	if kvs, _ := list(t, h.Store, "k/"); len(kvs) != 1 || string(kvs[0].Value) != "1" {
		t.Fatalf("a failed transaction changed something: %+v", kvs)
	}
	revision := mustCommit(t, h.Store, ledger.Txn{
		Puts:    []ledger.Put{{Key: "k/b", Value: []byte("x")}, {Key: "k/c", Value: []byte("y")}},
		Deletes: []string{"k/a"},
	})
	kvs, now := list(t, h.Store, "k/")
	want := []ledger.KV{
		{Key: "k/b", Value: []byte("x"), CreateRevision: revision, ModRevision: revision},
		{Key: "k/c", Value: []byte("y"), CreateRevision: revision, ModRevision: revision},
	}
	if diff := cmp.Diff(want, kvs); diff != "" {
		t.Errorf("after the transaction (-want +got):\n%s", diff)
	}
	if now < revision {
		t.Errorf("listed at %d, before the transaction's %d", now, revision)
	}
}

func compareTargets(t *testing.T, h Harness) {
	created := mustCommit(t, h.Store, put("k", "1"))
	modified := mustCommit(t, h.Store, put("k", "2"))
	for _, c := range []struct {
		compare ledger.Compare
		want    bool
	}{
		{ledger.Compare{Key: "k", Target: ledger.ModRevision, Revision: modified}, true},
		{ledger.Compare{Key: "k", Target: ledger.ModRevision, Revision: created}, false},
		{ledger.Compare{Key: "k", Target: ledger.CreateRevision, Revision: created}, true},
		{ledger.Compare{Key: "k", Target: ledger.CreateRevision, Revision: modified}, false},
		{ledger.Compare{Key: "k", Target: ledger.ModRevision}, false},
		{ledger.Compare{Key: "absent", Target: ledger.ModRevision}, true},
		{ledger.Compare{Key: "absent", Target: ledger.CreateRevision}, true},
		{ledger.Compare{Key: "absent", Target: ledger.CreateRevision, Revision: created}, false},
	} {
		if got := commit(t, h.Store, ledger.Txn{Compares: []ledger.Compare{c.compare}}); got.Succeeded != c.want {
			t.Errorf("compare %+v: %v, want %v", c.compare, got.Succeeded, c.want)
		}
	}
}

func currentValues(t *testing.T, h Harness) {
	a := mustCommit(t, h.Store, put("k/a", "1"))
	b := mustCommit(t, h.Store, put("k/b", "2"))
	r := commit(t, h.Store, ledger.Txn{Compares: []ledger.Compare{
		{Key: "k/a", Target: ledger.ModRevision, Revision: a},
		{Key: "k/a", Target: ledger.CreateRevision, Revision: a},
		{Key: "k/b", Target: ledger.ModRevision, Revision: a},
		{Key: "k/none", Target: ledger.ModRevision},
	}})
	want := []ledger.KV{
		{Key: "k/a", Value: []byte("1"), CreateRevision: a, ModRevision: a},
		{Key: "k/b", Value: []byte("2"), CreateRevision: b, ModRevision: b},
	}
	if diff := cmp.Diff(want, r.Current); r.Succeeded || diff != "" {
		t.Errorf("succeeded %v, current values (-want +got):\n%s", r.Succeeded, diff)
	}
}

func resubmission(t *testing.T, h Harness) {
	first := mustCommit(t, h.Store, put("k", "0"))
	txn := put("k", "1")
	txn.Compares = []ledger.Compare{{Key: "k", Target: ledger.ModRevision, Revision: first}}
	second := mustCommit(t, h.Store, txn)
	r := commit(t, h.Store, txn)
	if r.Succeeded || len(r.Current) != 1 || r.Current[0].ModRevision != second || string(r.Current[0].Value) != "1" {
		t.Errorf("resubmitted: %+v, want the first copy's value at %d", r, second)
	}
}

func malformed(t *testing.T, h Harness) {
	over := func(n int) ledger.Txn {
		var txn ledger.Txn
		for _, k := range numbered("k/%03d", n) {
			txn.Puts = append(txn.Puts, ledger.Put{Key: k})
		}
		return txn
	}
	for name, txn := range map[string]ledger.Txn{
		"empty put key":      {Puts: []ledger.Put{{}}},
		"empty compare key":  {Compares: []ledger.Compare{{Target: ledger.ModRevision}}},
		"no target":          {Compares: []ledger.Compare{{Key: "k"}}},
		"negative revision":  {Compares: []ledger.Compare{{Key: "k", Target: ledger.ModRevision, Revision: -1}}},
		"key put twice":      {Puts: []ledger.Put{{Key: "k"}, {Key: "k"}}},
		"key put and erased": {Puts: []ledger.Put{{Key: "k"}}, Deletes: []string{"k"}},
		"too many puts":      over(ledger.MaxTxnOps + 1),
		"no such lease":      {Puts: []ledger.Put{{Key: "k", Lease: 4242}}},
	} {
		_, err := h.Store.Commit(within(t), txn)
		wantTxnError(t, name, err)
	}
	if kvs, _ := list(t, h.Store, ""); len(kvs) != 0 {
		t.Errorf("a refused transaction wrote %+v", kvs)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var refused *ledger.TxnError
	if _, err := h.Store.Commit(ctx, put("k", "1")); err == nil || errors.As(err, &refused) {
		t.Errorf("commit with a dead context: %v, want an unknown outcome", err)
	}
}

// tooLarge: a transaction at the limits is carried out; one beyond them is certainly refused, as too large.
func tooLarge(t *testing.T, h Harness) {
	sized := func(bytes int) ledger.Txn {
		var txn ledger.Txn
		keys := numbered("k/%03d", ledger.MaxTxnOps)
		for _, k := range keys {
			txn.Compares = append(txn.Compares, ledger.Compare{Key: k, Target: ledger.ModRevision})
			txn.Puts = append(txn.Puts, ledger.Put{Key: k})
		}
		rest := bytes - txn.Bytes()
		for i := range txn.Puts {
			n := rest / (len(txn.Puts) - i)
			txn.Puts[i].Value, rest = make([]byte, n), rest-n
		}
		return txn
	}
	ops := sized(ledger.MaxTxnBytes)
	ops.Compares = append(ops.Compares, ledger.Compare{Key: "one more", Target: ledger.ModRevision})
	for name, txn := range map[string]ledger.Txn{
		"a byte too many": sized(ledger.MaxTxnBytes + 1), "4 MiB": sized(4 << 20), "a compare too many": ops,
	} {
		_, err := h.Store.Commit(within(t), txn)
		var refused *ledger.TxnError
		if !errors.As(err, &refused) || !refused.TooLarge {
			t.Errorf("%s: got error %v, want *ledger.TxnError that says it is too large", name, err)
		}
	}
	if kvs, _ := list(t, h.Store, ""); len(kvs) != 0 {
		t.Errorf("a refused transaction wrote %d keys", len(kvs))
	}
	mustCommit(t, h.Store, sized(ledger.MaxTxnBytes))
	if r := commit(t, h.Store, sized(ledger.MaxTxnBytes)); r.Succeeded || len(r.Current) != ledger.MaxTxnOps {
		t.Errorf("repeated: succeeded %v with %d current values, want %d", r.Succeeded, len(r.Current), ledger.MaxTxnOps)
	}
}

func limits(t *testing.T, h Harness) {
	var txn ledger.Txn
	for _, k := range numbered("k/%03d", ledger.MaxTxnOps) {
		txn.Compares = append(txn.Compares, ledger.Compare{Key: k, Target: ledger.CreateRevision})
		txn.Puts = append(txn.Puts, ledger.Put{Key: k})
	}
	mustCommit(t, h.Store, txn)
	if r := commit(t, h.Store, txn); r.Succeeded || len(r.Current) != ledger.MaxTxnOps {
		t.Errorf("repeated: succeeded %v with %d current values, want %d", r.Succeeded, len(r.Current), ledger.MaxTxnOps)
	}
}

func aba(t *testing.T, h Harness) {
	first := mustCommit(t, h.Store, put("k", "1"))
	mustCommit(t, h.Store, ledger.Txn{Deletes: []string{"k"}})
	again := mustCommit(t, h.Store, put("k", "1"))
	kv, ok := get(t, h.Store, "k")
	if !ok || kv.CreateRevision != again || again <= first {
		t.Fatalf("recreated key: %+v, want create revision %d after %d", kv, again, first)
	}
	for _, target := range []ledger.CompareTarget{ledger.ModRevision, ledger.CreateRevision} {
		r := commit(t, h.Store, ledger.Txn{Compares: []ledger.Compare{{Key: "k", Target: target, Revision: first}}})
		if r.Succeeded {
			t.Errorf("target %d: the revision of the former incarnation still compares", target)
		}
	}
	_, before := list(t, h.Store, "")
	if r := commit(t, h.Store, ledger.Txn{Deletes: []string{"absent"}}); !r.Succeeded || r.Revision != before {
		t.Errorf("deleting nothing: %+v, want success at revision %d", r, before)
	}
}

func listing(t *testing.T, h Harness) {
	if kvs, revision := list(t, h.Store, ""); len(kvs) != 0 || revision < 1 {
		t.Fatalf("empty store lists %+v at %d", kvs, revision)
	}
	keys := []string{"b/2", "b/1", "a", "b/10", "c", "b0"}
	var last int64
	for _, k := range keys {
		last = mustCommit(t, h.Store, put(k, k))
	}
	for prefix, want := range map[string]string{"": "a b/1 b/10 b/2 b0 c", "b/": "b/1 b/10 b/2", "x": ""} {
		kvs, revision := list(t, h.Store, prefix)
		var got []string
		for _, kv := range kvs {
			got = append(got, kv.Key)
		}
		if strings.Join(got, " ") != want || revision != last {
			t.Errorf("list %q: %v at %d, want %s at %d", prefix, got, revision, want, last)
		}
	}
}

// contention: 16 writers increment a counter in one document; a lost update loses a count.
func contention(t *testing.T, h Harness) {
	const writers, rounds = 16, 20
	var g errgroup.Group
	for range writers {
		g.Go(func() error {
			doc := ledger.NodeDoc{NodeUID: "node", NodeName: "node"}
			for n := 0; n < rounds; {
				next := doc
				next.HW = map[string]uint64{ledger.KindPod: doc.HW[ledger.KindPod] + 1}
				txn, err := txns.Replace(next)
				if err != nil {
					return err
				}
				r, err := h.Store.Commit(t.Context(), txn)
				if err != nil {
					return err
				}
				if r.Succeeded {
					doc, n = next, n+1
					doc.Revision = r.Revision
					continue
				}
				now, err := txns.Refreshed([]ledger.NodeDoc{doc}, r)
				if err != nil {
					return err
				}
				doc = now[0]
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	kv, _ := get(t, h.Store, ledger.KeyNode("node"))
	doc, err := codec.DecodeNodeDoc(kv)
	if err != nil || doc.HW[ledger.KindPod] != writers*rounds {
		t.Errorf("counted %d (%v), want %d", doc.HW[ledger.KindPod], err, writers*rounds)
	}
}
