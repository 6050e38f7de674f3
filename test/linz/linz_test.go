//go:build e2e

package linz

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"golang.org/x/sync/errgroup"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/etcd"
	"github.com/berth-scheduler/berth/pkg/seedtest"
	"github.com/berth-scheduler/berth/test/e2e/harness"
	"github.com/berth-scheduler/berth/test/kit"
)

var (
	rounds = flag.Int("rounds", 30, "rounds, each on keys of its own")
	seed   = flag.Uint64("seed", 0, "seed of what the clients do and when members are killed; 0: TEST_SEED")
)

const (
	clients = 4
	// steps of each client in one round.
	steps = 25
	// killEvery is how many rounds pass between two kills of a member.
	killEvery = 3
	// checkWithin bounds porcupine's work on one round; a round it cannot decide is a failure.
	checkWithin = time.Minute
	// members of the etcd.
	members = 3
)

// The ledger on an etcd of three members is linearizable, leaders killed in the middle or not.
func TestTheLedgerIsLinearizable(t *testing.T) {
	lab := newLab(t)
	var unknown, total, killed int
	for round := range *rounds {
		kill := round%killEvery == killEvery-1
		h := lab.round(round, kill, false)
		operations := h.all(clients)
		total, unknown = total+len(operations), unknown+len(h.mu.open)
		if kill {
			killed++
		}
		result, info := porcupine.CheckOperationsVerbose(model, operations, checkWithin)
		if result != porcupine.Ok {
			t.Fatalf("round %d: %s: %s; replay with -seed=%d", round, result, visualize(t, info), lab.seed)
		}
	}
	t.Logf("%d operations in %d rounds, %d of them without an answer; the leader was killed %d times; seed %d",
		total, *rounds, unknown, killed, lab.seed)
}

// A client that leaves out the compares of documents writes over what others have placed. The
// check finds it.
func TestDroppedComparesAreFound(t *testing.T) {
	lab := newLab(t)
	for round := range *rounds {
		h := lab.round(round, false, true)
		if result, _ := porcupine.CheckOperationsVerbose(model, h.all(clients), checkWithin); result == porcupine.Illegal {
			t.Logf("found in round %d, seed %d", round, lab.seed)
			return
		}
	}
	t.Errorf("%d rounds were explained; seed %d", *rounds, lab.seed)
}

type lab struct {
	*testing.T
	etcd *harness.Members
	seed uint64
	site *site
}

func newLab(t *testing.T) *lab {
	t.Helper()
	l := &lab{T: t, seed: seedtest.First(t, *seed), site: newSite()}
	programs, err := harness.Find()
	if err != nil {
		t.Fatal(err)
	}
	if l.etcd, err = programs.StartEtcd(t.Context(), t.TempDir(), members); err != nil {
		t.Fatal(err)
	}
	kit.AtEnd(t, l.etcd.Stop)
	return l
}

// round lets the clients loose on keys of their own. With kill the leader dies in the middle, and
// is back before the next round.
func (l *lab) round(n int, kill, careless bool) *history {
	l.Helper()
	h := &history{begin: time.Now()}
	g, ctx := errgroup.WithContext(l.Context())
	var versions atomic.Uint64
	var all []*client
	for id := range clients {
		store, err := etcd.Open(ctx, etcd.Config{Endpoints: l.etcd.URLs, Prefix: fmt.Sprintf("/linz/%s/%d/", l.Name(), n)})
		if err != nil {
			l.Fatal(err)
		}
		defer func() { _ = store.Close() }()
		c := &client{
			id: id, name: fmt.Sprintf("client-%d", id), site: l.site, store: store, history: h,
			rng: rand.New(rand.NewPCG(l.seed, uint64(n*clients+id))), careless: careless,
			known: map[string]ledger.KV{}, epochs: map[int32]int64{}, taken: map[string][]byte{}, versions: &versions,
		}
		all = append(all, c)
		g.Go(func() error {
			for range steps {
				if err := c.act(ctx); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if kill {
		l.killLeader()
	}
	if err := g.Wait(); err != nil {
		l.Fatal(err)
	}
	for _, c := range all {
		for _, wrong := range c.broken {
			if !careless {
				l.Errorf("round %d: %s: %s; seed %d", n, c.name, wrong, l.seed)
			}
		}
	}
	if kill {
		if err := l.etcd.Healthy(l.Context()); err != nil {
			l.Fatalf("%v\n%s", err, l.etcd.Tails())
		}
	}
	return h
}

func (l *lab) killLeader() {
	l.Helper()
	leader := max(l.etcd.Leader(l.Context()), 0)
	l.etcd.Kill(leader)
	if err := l.etcd.Start(leader); err != nil {
		l.Fatal(err)
	}
}

// visualize writes porcupine's visualization of a history and returns its path.
func visualize(t *testing.T, info porcupine.LinearizationInfo) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "berth-linz-")
	if err != nil {
		return err.Error()
	}
	path := filepath.Join(dir, "history.html")
	if err := porcupine.VisualizePath(model, info, path); err != nil {
		return err.Error()
	}
	return path
}
