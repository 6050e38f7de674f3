package commit_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/mem"
	"github.com/berth-scheduler/berth/services/scheduler/internal/commit"
	"github.com/berth-scheduler/berth/services/scheduler/internal/decide"
)

// A transaction that the store refuses for its size is answered as such, and the room goes on.
func TestRefusedForItsSize(t *testing.T) {
	store := mem.New()
	store.RefuseAbove(100)
	room := commit.New(commit.Deps{Store: store, Logger: slog.New(slog.DiscardHandler)})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- room.Transact(ctx) }()
	send := func(id uint64, bytes int) decide.Result {
		txn := ledger.Txn{Puts: []ledger.Put{{Key: "k", Value: make([]byte, bytes)}}}
		if err := room.Do(ctx, decide.Output{Commit: &decide.Commit{ID: id, Kind: "T1", Txn: txn}}); err != nil {
			t.Fatal(err)
		}
		return <-room.Results()
	}
	for id, bytes := range map[uint64]int{1: 200, 2: ledger.MaxTxnBytes + 1} {
		r := send(id, bytes)
		if r.ID != id || r.Err != nil || !strings.Contains(r.Refused, "bytes, at most") {
			t.Errorf("%d bytes: answer %+v, want a refusal that says what is accepted", bytes, r)
		}
	}
	if r := send(3, 10); r.Err != nil || r.Refused != "" || !r.Txn.Succeeded {
		t.Errorf("after refusals: answer %+v, want success", r)
	}
	cancel()
	if err := <-done; err != nil {
		t.Errorf("the room ended: %v", err)
	}
}
