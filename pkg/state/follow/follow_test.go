package follow_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/events/eventlog"
	"github.com/berth-scheduler/berth/pkg/events/memlog"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/pkg/state/follow"
	"github.com/berth-scheduler/berth/pkg/state/statetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// settle is longer than any wait of the follower, in the bubble's time.
const settle = time.Minute

// member is a store maintained by a follower, as a service would do it.
type member struct {
	stop func()

	mu struct {
		sync.Mutex
		store   *state.Store
		resets  int
		problem error
	}
}

// start runs a follower over log and applies what it sends. Call stop before the end.
func start(log *memlog.Log) *member {
	ctx, cancel := context.WithCancel(context.Background())
	out := make(chan follow.Batch)
	done := make(chan struct{})
	m := &member{}
	go func() {
		defer close(out)
		if err := follow.New(log, log).Run(ctx, out); err != nil {
			m.fail(err)
		}
	}()
	go func() {
		defer close(done)
		for b := range out {
			if err := m.take(b); err != nil {
				m.fail(err)
			}
		}
	}()
	m.stop = func() {
		cancel()
		<-done
	}
	return m
}

func (m *member) take(b follow.Batch) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !b.Reset {
		if m.mu.store == nil {
			return errors.New("facts before the first reset")
		}
		_, err := m.mu.store.Apply(b.Facts)
		return err
	}
	store, err := b.Store()
	if err != nil {
		return err
	}
	m.mu.store = store
	m.mu.resets++
	return nil
}

func (m *member) fail(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mu.problem = errors.Join(m.mu.problem, err)
}

// sees checks that the member's store is the one to which the facts alone lead.
func (m *member) sees(t *testing.T, facts []events.SequencedFact) (resets int) {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.mu.problem != nil {
		t.Fatal(m.mu.problem)
	}
	if m.mu.store == nil {
		t.Fatal("no reset came")
	}
	want := storeOf(t, facts)
	got, _, _ := m.mu.store.Marshal()
	bytes, _, _ := want.Marshal()
	if string(got) != string(bytes) {
		t.Fatalf("the follower's state (+) is not what the log says (-):\n%s",
			cmp.Diff(want.Describe(), m.mu.store.Describe()))
	}
	return m.mu.resets
}

// storeOf returns the state to which facts lead, from nothing.
func storeOf(t *testing.T, facts []events.SequencedFact) *state.Store {
	t.Helper()
	store := state.New()
	if len(facts) > 0 {
		store.StartBehind(facts[0].Sequence - 1)
	}
	if _, err := store.Apply(facts); err != nil {
		t.Fatal(err)
	}
	return store
}

// write appends facts to the log, which must be the next ones.
func write(t *testing.T, log *memlog.Log, facts ...events.SequencedFact) {
	t.Helper()
	for _, f := range facts {
		msgs := []eventlog.Message{events.EncodeFact(f.Fact)}
		if _, err := log.Append(t.Context(), eventlog.Facts, eventlog.Tail{Sequence: f.Sequence - 1}, msgs); err != nil {
			t.Fatal(err)
		}
	}
}

// snapshot stores the state after facts.
func snapshot(t *testing.T, log *memlog.Log, facts []events.SequencedFact) {
	t.Helper()
	data, sequence, err := storeOf(t, facts).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	if err := log.Put(t.Context(), eventlog.Facts, sequence, data); err != nil {
		t.Fatal(err)
	}
}

func pods(h *statetest.History, names ...string) {
	for _, name := range names {
		h.Upsert(events.KindPod, statetest.Pod("default", name))
		h.Bookmark(events.KindPod)
	}
}

func TestFromTheBeginning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := memlog.New(memlog.Options{ReadBatch: 2})
		var h statetest.History
		pods(&h, "a", "b")
		write(t, log, h.Facts...)
		m := start(log)
		defer m.stop()
		synctest.Wait()
		m.sees(t, h.Facts)
		pods(&h, "c")
		write(t, log, h.Facts[4:]...)
		synctest.Wait()
		if resets := m.sees(t, h.Facts); resets != 1 {
			t.Errorf("%d resets, want 1", resets)
		}
	})
}

// TestBarrier: progress is undefined until everything that existed at the start has been applied.
func TestBarrier(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := memlog.New(memlog.Options{ReadBatch: 1})
		var h statetest.History
		pods(&h, "a", "b")
		write(t, log, h.Facts...)
		ctx, cancel := context.WithCancel(t.Context())
		out := make(chan follow.Batch)
		ended := make(chan error)
		go func() { ended <- follow.New(log, log).Run(ctx, out) }()
		first := <-out
		if !first.Reset || first.Snapshot != nil || first.Barrier != 4 || first.Facts != nil {
			t.Fatalf("first batch %+v, want a reset to nothing with barrier 4", first)
		}
		store := state.New()
		store.SetBarrier(first.Barrier)
		for want := uint64(1); want <= 4; want++ {
			b := <-out
			if len(b.Facts) != 1 || b.Facts[0].Sequence != want {
				t.Fatalf("batch %+v, want fact %d alone", b, want)
			}
			if _, err := store.Apply(b.Facts); err != nil {
				t.Fatal(err)
			}
			if _, ok := store.Position().Progress(events.KindPod); ok != (want == 4) {
				t.Errorf("at %d progress is defined: %v", want, ok)
			}
		}
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run returned %v at the end of its context", err)
		}
	})
}

// TestFromSnapshot: the log no longer reaches back to the beginning; the snapshot does.
func TestFromSnapshot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := memlog.New(memlog.Options{})
		var h statetest.History
		pods(&h, "a", "b", "c")
		write(t, log, h.Facts...)
		snapshot(t, log, h.Facts[:3])
		log.Trim(eventlog.Facts, 4)
		m := start(log)
		defer m.stop()
		synctest.Wait()
		m.sees(t, h.Facts)
	})
}

// TestWaitsForASnapshot: neither the log nor a snapshot reaches back to the beginning; the follower sends nothing
// until a snapshot appears.
func TestWaitsForASnapshot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := memlog.New(memlog.Options{})
		var h statetest.History
		pods(&h, "a", "b")
		write(t, log, h.Facts...)
		log.Trim(eventlog.Facts, 3)
		m := start(log)
		defer m.stop()
		time.Sleep(settle)
		m.mu.Lock()
		if m.mu.resets != 0 {
			t.Error("a reset without anything to reset to")
		}
		m.mu.Unlock()
		snapshot(t, log, h.Facts[:2])
		time.Sleep(settle)
		m.sees(t, h.Facts)
	})
}

// TestLostTail has these steps:
//
//  1. The member has applied facts 1 to 6; there is a snapshot at 5.
//  2. The log loses 4 to 6 in a power failure.
//  3. The writer notices, opens epoch 1 and writes other facts in their place.
//  4. The member must not continue: the facts it knows no longer exist. Nor may it start from the snapshot, which
//     stands for the lost history.
func TestLostTail(t *testing.T) {
	for _, seen := range []bool{true, false} {
		t.Run(fmt.Sprintf("before the repair: %v", seen), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				log := memlog.New(memlog.Options{})
				var h statetest.History
				pods(&h, "a", "lost", "lost-too")
				write(t, log, h.Facts...)
				snapshot(t, log, h.Facts[:5])
				m := start(log)
				defer m.stop()
				synctest.Wait()
				m.sees(t, h.Facts)

				log.LoseTail(eventlog.Facts, 3)
				if seen {
					time.Sleep(settle)
				}
				h.Facts = h.Facts[:3]
				h.BeginEpoch()
				pods(&h, "b", "c")
				h.EndEpoch()
				write(t, log, h.Facts[3:]...)
				time.Sleep(settle)
				if resets := m.sees(t, h.Facts); resets < 2 {
					t.Errorf("%d resets, want another one", resets)
				}
			})
		})
	}
}

// seeds is how many random histories TestLives tries.
const seeds = 500

// TestLives: whatever happens to the log (writes, trims, lost tails with repair), and whenever snapshots are taken,
// in the end the member has the content of the log.
func TestLives(t *testing.T) {
	for seed := range uint64(seeds) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { live(t, rand.New(rand.NewPCG(seed, 0)), time.Sleep) })
		})
	}
}

// live is one history; pause lets the time of the bubble pass.
func live(t *testing.T, rng *rand.Rand, pause func(time.Duration)) {
	log := memlog.New(memlog.Options{ReadBatch: 1 + rng.IntN(4)})
	h := statetest.History{Epoch: 1}
	m := start(log)
	defer m.stop()
	written, kept := 0, 0
	flush := func() {
		write(t, log, h.Facts[written:]...)
		written = len(h.Facts)
	}
	for range 30 {
		switch n := rng.IntN(10); {
		case n < 6:
			pods(&h, string(rune('a'+rng.IntN(5))))
			flush()
		case n < 7:
			snapshot(t, log, h.Facts)
			kept = max(kept, rng.IntN(written+1))
			log.Trim(eventlog.Facts, uint64(kept)+1)
		case n < 8 && written > kept:
			lose := kept + rng.IntN(written-kept)
			log.LoseTail(eventlog.Facts, uint64(lose))
			h.Facts, written = slices.Clone(h.Facts[:lose]), lose
			h.BeginEpoch()
			pods(&h, "repaired")
			h.EndEpoch()
			flush()
		case n < 9:
			synctest.Wait()
		default:
			pause(time.Duration(rng.IntN(10)) * time.Second)
		}
	}
	snapshot(t, log, h.Facts)
	pause(settle)
	m.sees(t, h.Facts)
}
