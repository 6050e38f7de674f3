package crowd

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	"github.com/berth-scheduler/berth/pkg/events/memlog"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/etcd"
	"github.com/berth-scheduler/berth/pkg/ledger/registry"
	"github.com/berth-scheduler/berth/pkg/ledger/replica"
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/state/feed"
	"github.com/berth-scheduler/berth/services/scheduler"
)

var (
	long = flag.Bool("long", false, "the large cluster: 5,000 nodes")
	seed = flag.Uint64("seed", 1, "of the order in which pods arrive and are bound")
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	shards = 4
	// patience bounds the whole run.
	patience      = 3 * time.Minute
	longPatience  = 15 * time.Minute
	startPatience = time.Minute
)

// size of a cluster, and of its workload.
type size struct {
	racks, nodesPerRack int
	// spread groups are evenly spread over the racks, apart groups have one pod in a rack; of a pair, the hermits
	// exclude guests from their rack, and the guests have no rule.
	spread, spreadPods    int
	apart, apartPods      int
	pairs, hermits, guest int
	plain                 int
}

var (
	small = size{30, 20, 8, 30, 8, 20, 4, 10, 20, 300}
	large = size{50, 100, 20, 100, 20, 40, 10, 20, 30, 2000}
	// narrow has few racks, for which all pods compete.
	narrow = size{3, 100, 10, 40, 60, 3, 20, 1, 2, 0}
)

// Four shards place groups that their rules tie together across the shards. Every pod finds
// its place, and no revision of the ledger shows a rule broken.
func TestFourShardsKeepTheRules(t *testing.T) {
	cluster, limit := small, patience
	if *long {
		cluster, limit = large, longPatience
	}
	asItIs := func(store ledger.Store) ledger.Store { return store }
	for name, c := range map[string]size{"wide": cluster, "narrow": narrow} {
		t.Run(name, func(t *testing.T) {
			o, s := play(t, c, limit, asItIs)
			o.report(t)
			s.report(t)
		})
	}
}

// Without the compares that the rules about other nodes need, the same crowd breaks them, and
// the oracle sees it: not each time, because it takes two shards at one moment.
func TestOracleSeesWhatGuardsPrevent(t *testing.T) {
	const tries = 6
	for range tries {
		o, _ := play(t, narrow, patience, func(store ledger.Store) ledger.Store { return unguarded{store} })
		if len(o.violations) > 0 {
			t.Logf("%d violations, the first: %s", len(o.violations), o.violations[0])
			return
		}
	}
	t.Error("no violation: the crowd is too thin to show anything, or the oracle is blind")
}

// unguarded is a ledger that does not compare guards, and is far away, so that shards decide
// on old pictures more often.
type unguarded struct{ ledger.Store }

// farAway is how long a transaction is on its way.
const farAway = 50 * time.Millisecond

func (u unguarded) Commit(ctx context.Context, t ledger.Txn) (ledger.TxnResult, error) {
	select {
	case <-time.After(farAway):
	case <-ctx.Done():
		return ledger.TxnResult{}, ctx.Err()
	}
	t.Compares = slices.DeleteFunc(slices.Clone(t.Compares), func(c ledger.Compare) bool {
		return strings.HasPrefix(c.Key, registry.PrefixGuard)
	})
	return u.Store.Commit(ctx, t)
}

// play lets four shards place everything, each on a store that is made of the real one.
func play(t *testing.T, c size, limit time.Duration, wrap func(ledger.Store) ledger.Store) (*oracle, *stage) {
	t.Helper()
	t.Logf("seed %d; replay with -args -seed=%d", *seed, *seed)
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	endpoint := startEtcd(t)
	log := memlog.New(memlog.Options{})
	t.Cleanup(log.Close)
	o := newOracle()
	s := newStage(t, log, o, rand.New(rand.NewPCG(*seed, 0)))
	s.build(c)
	group, running := errgroup.WithContext(ctx)
	facts := feed.New(log, log) // the shards share it, as those of one process do
	for i := range shards {
		shard, err := scheduler.New(
			scheduler.Config{
				ID:       fmt.Sprintf("scheduler-%d", i),
				Profiles: []placement.ProfileConfig{placement.DefaultProfile(corev1.DefaultSchedulerName)},
			},
			scheduler.Deps{
				Log: log, Facts: facts, Bus: log, Ledger: wrap(open(t, endpoint)),
				Logger: slog.New(slog.DiscardHandler), Clock: clock.RealClock{},
			})
		if err != nil {
			t.Fatal(err)
		}
		group.Go(func() error { return shard.Run(running) })
	}
	batches := make(chan replica.Batch, 64)
	store := open(t, endpoint)
	group.Go(func() error { return replica.Follow(running, store, batches) })
	s.run(ctx, batches)
	cancel()
	if err := group.Wait(); err != nil {
		t.Error(err)
	}
	return o, s
}

// startEtcd runs an etcd in this process, on unix sockets, every write synced to disk.
func startEtcd(t *testing.T) (endpoint string) {
	t.Helper()
	dir := t.TempDir()
	cfg := embed.NewConfig()
	cfg.Dir = filepath.Join(dir, "data")
	cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop())
	client := url.URL{Scheme: "unix", Path: filepath.Join(dir, "c")}
	peer := url.URL{Scheme: "unix", Path: filepath.Join(dir, "p")}
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = []url.URL{client}, []url.URL{client}
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = []url.URL{peer}, []url.URL{peer}
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
	e, err := embed.StartEtcd(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	select {
	case <-e.Server.ReadyNotify():
	case <-time.After(startPatience):
		t.Fatalf("etcd is not ready after %s", startPatience)
	}
	return client.String()
}

func open(t *testing.T, endpoint string) ledger.Store {
	t.Helper()
	store, err := etcd.Open(t.Context(), etcd.Config{Endpoints: []string{endpoint}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return store
}
