package membership

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/mem"
	"github.com/berth-scheduler/berth/pkg/ledger/replica"
	"github.com/berth-scheduler/berth/pkg/ledger/roster"
)

// runShard runs a member, a keeper and the view between them, until stop is called.
func runShard(t *testing.T, store ledger.Store, id string) (m *Member, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	m, leave := joined(t, t.Context(), store, id)
	k := NewKeeper(store, m)
	g, ctx := errgroup.WithContext(ctx)
	out := make(chan replica.Batch)
	g.Go(func() error { return replica.Follow(ctx, store, out) })
	g.Go(func() error { return k.Run(ctx) })
	g.Go(func() error {
		v := replica.NewView()
		for {
			select {
			case b := <-out:
				if _, err := v.Fold(b); err != nil {
					return err
				}
				k.Observe(SnapshotOf(v, RoleScheduler))
			case <-ctx.Done():
				return nil
			}
		}
	})
	return m, func() {
		cancel()
		if err := g.Wait(); err != nil {
			t.Errorf("shard %s: %v", id, err)
		}
		leave()
	}
}

func held(t *testing.T, store ledger.Store, id string) []int32 {
	t.Helper()
	var out []int32
	for p, owner := range view(t, store).Roster().Owners() {
		if owner.Member == id {
			out = append(out, p)
		}
	}
	slices.Sort(out)
	return out
}

func epochs(t *testing.T, store ledger.Store) map[int32]int64 {
	t.Helper()
	v := view(t, store)
	out := map[int32]int64{}
	for p := range v.Roster().Owners() {
		_, out[p], _ = v.Roster().Owner(p)
	}
	return out
}

func wantHeld(t *testing.T, store ledger.Store, members []string) {
	t.Helper()
	for _, m := range members {
		if got, want := held(t, store, m), Assign(members, ledger.Partitions)[m]; !slices.Equal(got, want) {
			t.Errorf("%s of %v holds %d partitions, want its %d", m, members, len(got), len(want))
		}
	}
}

func TestKeepersShareThePartitions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := mem.New()
		a, stopA := runShard(t, store, "a")
		time.Sleep(keeperInterval)
		synctest.Wait()
		wantHeld(t, store, []string{"a"})
		before := epochs(t, store)

		_, stopB := runShard(t, store, "b")
		synctest.Wait()
		if n := len(held(t, store, "b")); n != 0 {
			t.Errorf("b holds %d partitions before it has settled", n)
		}
		time.Sleep(settle + 2*keeperInterval)
		synctest.Wait()
		wantHeld(t, store, []string{"a", "b"})
		for p, epoch := range epochs(t, store) {
			if Home([]string{"a", "b"}, strconv.Itoa(int(p))) == "a" && epoch != before[p] {
				t.Errorf("partition %d stayed with a, under another epoch", p)
			}
		}

		store.Expire(a.Session().Lease())
		synctest.Wait()
		time.Sleep(settle + 2*keeperInterval)
		synctest.Wait()
		wantHeld(t, store, []string{"a", "b"})

		stopB()
		synctest.Wait()
		wantHeld(t, store, []string{"a"})
		stopA()
		if n := len(held(t, store, "a")); n != 0 {
			t.Errorf("a holds %d partitions after its good-bye", n)
		}
	})
}

func TestKeepersHandOverWhatIsWantedElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := mem.New()
		a, stopA := runShard(t, store, "a")
		_, stopB := runShard(t, store, "b")
		rest := func() {
			time.Sleep(settle + 2*keeperInterval)
			synctest.Wait()
		}
		rest()
		members := []string{"a", "b"}
		wantHeld(t, store, members)
		before := epochs(t, store)
		moved := held(t, store, "a")[:3]
		want := func(member string) {
			wants := map[int32]string{}
			for _, p := range moved {
				wants[p] = member
			}
			txn, err := roster.WantPartitions(wants)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := store.Commit(t.Context(), txn); err != nil {
				t.Fatal(err)
			}
			rest()
		}
		holders := func(want string) {
			t.Helper()
			v := view(t, store)
			for _, p := range moved {
				if o, _, _ := v.Roster().Owner(p); o.Member != want {
					t.Errorf("partition %d is held by %q, want %s", p, o.Member, want)
				}
			}
			if n := len(maps.Collect(v.Roster().Owners())); n != ledger.Partitions {
				t.Errorf("%d partitions are held", n)
			}
		}
		want("b")
		holders("b")
		for p, epoch := range epochs(t, store) {
			if slices.Contains(moved, p) == (epoch == before[p]) {
				t.Errorf("partition %d: epoch %d, was %d", p, epoch, before[p])
			}
		}
		want("gone")
		holders("a")
		want("b")
		stopB()
		synctest.Wait()
		holders("a") // the wanted member is not alive
		_, stopB = runShard(t, store, "b")
		rest()
		holders("b")
		store.Expire(a.Session().Lease())
		rest()
		holders("b")
		want("")
		wantHeld(t, store, members)
		stopB()
		stopA()
	})
}

func TestKeeperComesThroughFaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := mem.New()
		store.HoldWatches()
		_, stop := runShard(t, store, "a")
		synctest.Wait()
		store.ReleaseWatches()
		store.LoseAnswers(1)
		store.FailTxns(1)
		time.Sleep(5 * keeperInterval)
		synctest.Wait()
		store.BreakWatches(mem.ErrInjected)
		time.Sleep(5 * keeperInterval)
		synctest.Wait()
		wantHeld(t, store, []string{"a"})
		stop()
	})
}
