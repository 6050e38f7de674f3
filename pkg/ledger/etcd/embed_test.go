package etcd_test

import (
	"context"
	"fmt"
	"net/url"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3client"
	"go.uber.org/zap"

	"github.com/berth-scheduler/berth/pkg/ledger/etcd"
	"github.com/berth-scheduler/berth/pkg/ledger/ledgertest"
)

// startTimeout bounds the start of the embedded server; it takes about a second.
const startTimeout = time.Minute

// server is an etcd in this process, on unix sockets in a folder of the test.
type server struct {
	endpoint string
	kv       clientv3.KV // without a socket
	client   *clientv3.Client
	prefixes atomic.Int64
}

func start(tb testing.TB, noFsync bool) *server {
	return startWith(tb, noFsync, func(*embed.Config) {})
}

func startWith(tb testing.TB, noFsync bool, set func(*embed.Config)) *server {
	tb.Helper()
	dir := tb.TempDir()
	e := launchWith(tb, dir, "", noFsync, set)
	tb.Cleanup(e.Close)
	s := &server{endpoint: "unix://" + filepath.Join(dir, "c"), kv: v3client.New(e.Server).KV}
	var err error
	s.client, err = clientv3.New(clientv3.Config{Endpoints: []string{s.endpoint}, Logger: zap.NewNop()})
	if err != nil {
		tb.Fatalf("connect: %v", err)
	}
	tb.Cleanup(func() {
		if err := s.client.Close(); err != nil {
			tb.Errorf("close client: %v", err)
		}
	})
	return s
}

// launch starts an etcd with its data and sockets in a folder; with a token it is another cluster than without one.
func launch(tb testing.TB, dir, token string, noFsync bool) *embed.Etcd {
	tb.Helper()
	return launchWith(tb, dir, token, noFsync, func(*embed.Config) {})
}

// launchWith is launch with additional settings.
func launchWith(tb testing.TB, dir, token string, noFsync bool, set func(*embed.Config)) *embed.Etcd {
	tb.Helper()
	cfg := embed.NewConfig()
	set(cfg)
	cfg.Dir = filepath.Join(dir, "data")
	cfg.UnsafeNoFsync = noFsync
	if token != "" {
		cfg.InitialClusterToken = token
	}
	cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop())
	clientURL := url.URL{Scheme: "unix", Path: filepath.Join(dir, "c")}
	peerURL := url.URL{Scheme: "unix", Path: filepath.Join(dir, "p")}
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = []url.URL{clientURL}, []url.URL{clientURL}
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = []url.URL{peerURL}, []url.URL{peerURL}
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
	e, err := embed.StartEtcd(cfg)
	if err != nil {
		tb.Fatalf("start etcd: %v", err)
	}
	select {
	case <-e.Server.ReadyNotify():
	case err := <-e.Err():
		tb.Fatalf("start etcd: %v", err)
	case <-time.After(startTimeout):
		tb.Fatalf("etcd is not ready after %s", startTimeout)
	}
	return e
}

// open returns a store with keys of its own.
func (s *server) open(tb testing.TB) *etcd.Store {
	tb.Helper()
	return s.openWith(tb, nil)
}

func (s *server) openWith(tb testing.TB, kv clientv3.KV) *etcd.Store {
	tb.Helper()
	store, err := etcd.Open(tb.Context(), etcd.Config{
		Endpoints: []string{s.endpoint},
		Prefix:    fmt.Sprintf("/test/%d", s.prefixes.Add(1)),
		KV:        kv,
	})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := store.Close(); err != nil {
			tb.Error(err)
		}
	})
	return store
}

func (s *server) harness(t *testing.T) ledgertest.Harness { return s.harnessOf(s.open(t)) }

// localHarness returns a harness whose requests need no socket.
func (s *server) localHarness(t *testing.T) ledgertest.Harness {
	return s.harnessOf(s.openWith(t, s.kv))
}

func (s *server) harnessOf(store *etcd.Store) ledgertest.Harness {
	return ledgertest.Harness{
		Store:     store,
		Elections: store,
		Compact: func(t *testing.T, revision int64) {
			if _, err := s.client.Compact(t.Context(), revision); err != nil {
				t.Fatal(err)
			}
		},
		// A revoked lease ends exactly like an expired one, without the wait.
		Expire: func(t *testing.T, lease int64) {
			if _, err := s.client.Revoke(t.Context(), clientv3.LeaseID(lease)); err != nil {
				t.Fatal(err)
			}
		},
	}
}

func within(tb testing.TB, d time.Duration) context.Context {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), d)
	tb.Cleanup(cancel)
	return ctx
}
