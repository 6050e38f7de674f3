package embedded

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/berth-scheduler/berth/pkg/events/eventlog"
	"github.com/berth-scheduler/berth/pkg/events/jetstream"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/etcd"
	"github.com/berth-scheduler/berth/pkg/ledger/identity"
)

// Data written before a stop is there after a start on the same directory, a second process is refused while the
// first runs, and nothing of the running state stays behind.
func TestStoresSurviveARestart(t *testing.T) {
	dir := t.TempDir()
	write := func(ctx context.Context, log *jetstream.Log, store *etcd.Store) {
		msg := eventlog.Message{Subject: "decisions.u.placed", Data: []byte("x")}
		if _, err := log.Append(ctx, eventlog.Decisions, eventlog.Tail{}, []eventlog.Message{msg}); err != nil {
			t.Fatalf("append: %v", err)
		}
		res, err := store.Commit(ctx, ledger.Txn{Puts: []ledger.Put{{Key: identity.KeyCluster, Value: []byte("c")}}})
		if err != nil || !res.Succeeded {
			t.Fatalf("commit: %+v, %v", res, err)
		}
	}
	withStores(t, dir, write)
	withStores(t, dir, func(ctx context.Context, log *jetstream.Log, store *etcd.Store) {
		if last, err := log.Last(ctx, eventlog.Decisions); err != nil || last != 1 {
			t.Errorf("last sequence %d, %v: want 1", last, err)
		}
		kvs, _, err := store.List(ctx, identity.KeyCluster)
		if err != nil || len(kvs) != 1 || string(kvs[0].Value) != "c" {
			t.Errorf("ledger has %v, %v: want the key written before", kvs, err)
		}
		_, err = Start(dir, Which{Etcd: true, NATS: true}, slog.New(slog.DiscardHandler))
		if err == nil || !strings.Contains(err.Error(), "in use by another berth process") {
			t.Errorf("second start: %v: want it refused", err)
		}
	})
	if _, err := os.Stat(filepath.Join(dir, endpointsFile)); !os.IsNotExist(err) {
		t.Errorf("endpoints.json after the stop: %v: want it gone", err)
	}
}

// withStores runs f with stores that are reached as operator commands reach them.
func withStores(t *testing.T, dir string, f func(context.Context, *jetstream.Log, *etcd.Store)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	s, err := Start(dir, Which{Etcd: true, NATS: true}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Stop()
	at, err := ReadEndpoints(dir)
	if err != nil {
		t.Fatal(err)
	}
	store, err := etcd.Open(ctx, etcd.Config{Endpoints: at.Etcd, Prefix: "/berth/"})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close() //nolint:errcheck // nothing is pending
	log, err := jetstream.Open(ctx, jetstream.Config{URLs: []string{at.NATS}, User: at.NATSUser, Password: at.NATSPass})
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	f(ctx, log, store)
}

// Without the password of endpoints.json the log does not open.
func TestNATSRefusesStrangers(t *testing.T) {
	s, err := Start(t.TempDir(), Which{NATS: true}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Stop()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	log, err := jetstream.Open(ctx, jetstream.Config{URLs: []string{s.Endpoints.NATS}})
	if err == nil {
		log.Close()
		t.Fatal("a client without credentials was let in")
	}
}
