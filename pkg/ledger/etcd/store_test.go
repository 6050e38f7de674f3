package etcd_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/etcd"
	"github.com/berth-scheduler/berth/pkg/ledger/identity"
	"github.com/berth-scheduler/berth/pkg/ledger/ledgertest"
	"github.com/berth-scheduler/berth/pkg/ledger/roster"
	"github.com/berth-scheduler/berth/pkg/ledger/share"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestContract(t *testing.T) { ledgertest.Run(t, start(t, true).harness) }

func TestProtocol(t *testing.T) { ledgertest.RunProtocol(t, start(t, true).harness) }

// The same contract without a socket, as in the all-in-one process.
func TestContractLocal(t *testing.T) { ledgertest.Run(t, start(t, true).localHarness) }

func TestProtocolLocal(t *testing.T) { ledgertest.RunProtocol(t, start(t, true).localHarness) }

// The same contract through the one watch that the services of a process share.
func TestContractShared(t *testing.T) { ledgertest.Run(t, sharing(start(t, true).localHarness)) }

func TestProtocolShared(t *testing.T) {
	ledgertest.RunProtocol(t, sharing(start(t, true).localHarness))
}

// sharing returns open with a shared store in front of each store.
func sharing(open func(*testing.T) ledgertest.Harness) func(*testing.T) ledgertest.Harness {
	return func(t *testing.T) ledgertest.Harness {
		h := open(t)
		shared := share.New(struct {
			ledger.Store
			ledger.Elections
		}{h.Store, h.Elections})
		h.Store, h.Elections = shared, shared
		return h
	}
}

func TestStoresOfDifferentPrefixesDoNotMeet(t *testing.T) {
	s := start(t, true)
	a, b := s.open(t), s.open(t)
	if _, err := identity.BindCluster(t.Context(), a, "one"); err != nil {
		t.Fatal(err)
	}
	if _, err := identity.BindCluster(t.Context(), b, "two"); err != nil {
		t.Fatal(err)
	}
	kvs, _, err := a.List(t.Context(), "")
	if err != nil || len(kvs) != 1 || kvs[0].Key != identity.KeyCluster {
		t.Errorf("first store lists %+v (%v), want its own key alone", kvs, err)
	}
}

// A lease that is not kept alive expires by the server's clock.
func TestSessionEndsWithItsStore(t *testing.T) {
	s := start(t, true)
	cfg := etcd.Config{Endpoints: []string{s.endpoint}, Prefix: "/shared"}
	watcher, err := etcd.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := watcher.Close(); err != nil {
			t.Error(err)
		}
	}()
	holder, err := etcd.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	session, err := holder.OpenSession(t.Context(), ledger.MinSessionTTL)
	if err != nil {
		t.Fatal(err)
	}
	txn, err := roster.TakePartition(1, roster.Owner{Member: "m"}, session.Lease())
	if err != nil {
		t.Fatal(err)
	}
	r, err := holder.Commit(t.Context(), txn)
	if err != nil {
		t.Fatal(err)
	}
	w := watcher.Watch(within(t, time.Minute), roster.PrefixOwn, r.Revision+1)
	if err := holder.Close(); err != nil {
		t.Fatal(err)
	}
	<-session.Done()
	b, ok := <-w.Batches()
	if !ok || len(b.Events) != 1 || !b.Events[0].Deleted {
		t.Errorf("after the lease ran out: %+v (%v), want the deletion of the partition", b, w.Err())
	}
}

func TestOpenNamesWhatIsWrong(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "none.sock")
	for name, c := range map[string]struct {
		cfg  etcd.Config
		want string
	}{
		"no endpoint":      {etcd.Config{}, "Endpoints is empty"},
		"blank endpoint":   {etcd.Config{Endpoints: []string{" "}}, "Endpoints[0]"},
		"kubernetes' keys": {etcd.Config{Endpoints: []string{"x"}, Prefix: "/registry/pods"}, `"/registry/pods"`},
		"half a key pair":  {etcd.Config{Endpoints: []string{"x"}, CertFile: "c.pem"}, `"c.pem"`},
		"negative timeout": {etcd.Config{Endpoints: []string{"x"}, DialTimeout: -1}, "DialTimeout"},
		"missing CA":       {etcd.Config{Endpoints: []string{"x"}, CAFile: "/none/ca.pem"}, "/none/ca.pem"},
		"nobody there": {
			etcd.Config{Endpoints: []string{"unix://" + missing}, DialTimeout: 300 * time.Millisecond}, missing,
		},
	} {
		_, err := etcd.Open(t.Context(), c.cfg)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one that names %s", name, err, c.want)
		}
	}
}
