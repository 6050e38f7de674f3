package ledgertest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/roster"
)

func sessions(t *testing.T, h Harness) {
	for _, ttl := range []time.Duration{0, time.Second, 2500 * time.Millisecond} {
		if _, err := h.Store.OpenSession(within(t), ttl); err == nil {
			t.Errorf("session of %s: no error", ttl)
		}
	}
	leased := func(key string, s ledger.Session) ledger.Txn {
		return ledger.Txn{Puts: []ledger.Put{{Key: key, Lease: s.Lease()}}}
	}
	closed, expired := openSession(t, h.Store), openSession(t, h.Store)
	mustCommit(t, h.Store, leased("k/closed", closed))
	mustCommit(t, h.Store, leased("k/detached", closed))
	mustCommit(t, h.Store, put("k/detached", "stays"))
	mustCommit(t, h.Store, leased("k/expired1", expired))
	start := mustCommit(t, h.Store, leased("k/expired2", expired))
	if kv, ok := get(t, h.Store, "k/closed"); !ok || kv.Lease != closed.Lease() {
		t.Errorf("leased key: %+v, want lease %x", kv, closed.Lease())
	}

	if err := closed.Close(within(t)); err != nil {
		t.Fatal(err)
	}
	waitDone(t, closed)
	if _, ok := get(t, h.Store, "k/closed"); ok {
		t.Error("a closed session's key is still there")
	}
	if _, ok := get(t, h.Store, "k/detached"); !ok {
		t.Error("a key that was put again without a lease went with it")
	}
	_, err := h.Store.Commit(within(t), leased("k/late", closed))
	wantTxnError(t, "put on a closed session", err)

	h.Expire(t, expired.Lease())
	waitDone(t, expired)
	gone(t, h.Store, "k/expired1", start)
	gone(t, h.Store, "k/expired2", start)
	if err := expired.Close(within(t)); err != nil {
		t.Errorf("closing a lost session: %v", err)
	}
}

type electionResult struct {
	term int64
	err  error
}

func campaign(ctx context.Context, h Harness, s ledger.Session, name string) <-chan electionResult {
	out := make(chan electionResult, 1)
	go func() {
		term, err := h.Elections.Campaign(ctx, s, "queue", name)
		out <- electionResult{term, err}
	}()
	return out
}

func outcome(t *testing.T, c <-chan electionResult) electionResult {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patience):
		t.Fatalf("campaign undecided after %s", patience)
		return electionResult{}
	}
}

// candidates waits until the election has n keys, so that a blocked candidate is known to be in line.
func candidates(t *testing.T, h Harness, n int) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	kvs, revision := list(t, h.Store, roster.PrefixElection)
	w := h.Store.Watch(ctx, roster.PrefixElection, revision+1)
	for len(kvs) < n {
		watchFor(t, w, func(got []ledger.EventBatch) bool { return len(got) > 0 })
		kvs, _ = list(t, h.Store, roster.PrefixElection)
	}
}

func elections(t *testing.T, h Harness) {
	ctx := within(t)
	a := openSession(t, h.Store)
	b := openSession(t, h.Store)
	c := openSession(t, h.Store)
	first := outcome(t, campaign(ctx, h, a, "a"))
	if first.err != nil || first.term <= 0 {
		t.Fatalf("first candidate: %+v", first)
	}
	if again := outcome(t, campaign(ctx, h, a, "a")); again != first {
		t.Errorf("campaigning again as leader: %+v, want %+v", again, first)
	}
	waitingB := campaign(ctx, h, b, "b")
	candidates(t, h, 2)
	waitingC := campaign(ctx, h, c, "c")
	candidates(t, h, 3)
	select {
	case v := <-waitingB:
		t.Fatalf("a second leader: %+v", v)
	default:
	}
	if err := h.Elections.Resign(ctx, a, "queue"); err != nil {
		t.Fatal(err)
	}
	second := outcome(t, waitingB)
	if second.err != nil || second.term <= first.term {
		t.Fatalf("after a resignation: %+v, want a term after %d", second, first.term)
	}
	h.Expire(t, b.Lease())
	third := outcome(t, waitingC)
	if third.err != nil || third.term <= second.term {
		t.Fatalf("after a lost session: %+v, want a term after %d", third, second.term)
	}
	if lost := outcome(t, campaign(ctx, h, b, "b")); lost.err == nil {
		t.Errorf("campaign on a lost session won term %d", lost.term)
	}
	back := campaign(ctx, h, a, "a")
	candidates(t, h, 2)
	if err := c.Close(ctx); err != nil {
		t.Fatal(err)
	}
	if v := outcome(t, back); v.err != nil || v.term <= third.term {
		t.Errorf("former leader again: %+v, want a term after %d", v, third.term)
	}
}

func campaignEnds(t *testing.T, h Harness) {
	a := openSession(t, h.Store)
	b := openSession(t, h.Store)
	c := openSession(t, h.Store)
	if v := outcome(t, campaign(within(t), h, a, "a")); v.err != nil {
		t.Fatal(v.err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancelled := campaign(ctx, h, b, "b")
	candidates(t, h, 2)
	loser := campaign(within(t), h, c, "c")
	candidates(t, h, 3)
	cancel()
	if v := outcome(t, cancelled); !errors.Is(v.err, context.Canceled) {
		t.Errorf("campaign whose context ended: %+v, want context.Canceled", v)
	}
	h.Expire(t, c.Lease())
	if v := outcome(t, loser); v.err == nil {
		t.Errorf("a candidate whose session is lost won term %d", v.term)
	}
	_, revision := list(t, h.Store, "")
	if err := h.Elections.Resign(within(t), a, "queue"); err != nil {
		t.Fatal(err)
	}
	if err := h.Elections.Resign(within(t), a, "queue"); err != nil {
		t.Errorf("resigning twice: %v", err)
	}
	if kvs, _ := list(t, h.Store, roster.PrefixElection); len(kvs) != 0 {
		t.Errorf("candidacies left at %d: %+v", revision, kvs)
	}
}
