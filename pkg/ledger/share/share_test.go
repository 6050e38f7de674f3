package share_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/ledgertest"
	"github.com/berth-scheduler/berth/pkg/ledger/mem"
	"github.com/berth-scheduler/berth/pkg/ledger/share"
	_ "github.com/berth-scheduler/berth/pkg/seedtest" // seed of rapid
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(*testing.T) ledgertest.Harness {
	s := mem.New()
	shared := share.New(s)
	return ledgertest.Harness{
		Store:     shared,
		Elections: shared,
		Compact: func(t *testing.T, revision int64) {
			if err := s.Compact(revision); err != nil {
				t.Fatal(err)
			}
		},
		Expire: func(t *testing.T, lease int64) {
			if !s.Expire(lease) {
				t.Fatalf("no lease %x", lease)
			}
		},
	}
}

func TestContract(t *testing.T) { ledgertest.Run(t, open) }

func TestProtocol(t *testing.T) { ledgertest.RunProtocol(t, open) }

// counted counts the watches that reach the store.
type counted struct {
	*mem.Store
	running atomic.Int32
	begun   int
}

func (c *counted) Watch(ctx context.Context, prefix string, from int64) ledger.Watch {
	c.begun++
	c.running.Add(1)
	context.AfterFunc(ctx, func() { c.running.Add(-1) })
	return c.Store.Watch(ctx, prefix, from)
}

func put(t *testing.T, s ledger.Store, key string) int64 {
	t.Helper()
	r, err := s.Commit(t.Context(), ledger.Txn{Puts: []ledger.Put{{Key: key, Value: []byte("x")}}})
	if err != nil {
		t.Fatal(err)
	}
	return r.Revision
}

// keys drains what a watch has delivered.
func keys(w ledger.Watch) (all []string) {
	for {
		select {
		case b, ok := <-w.Batches():
			if !ok {
				return append(all, fmt.Sprint("end: ", w.Err()))
			}
			for _, e := range b.Events {
				all = append(all, e.Key)
			}
		default:
			return all
		}
	}
}

// TestOneWatchServesAll: watches that begin at different revisions get what each asked for from one watch of the store,
// which ends with the last of them.
func TestOneWatchServesAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &counted{Store: mem.New()}
		s := share.New(c)
		ctx, cancel := context.WithCancel(t.Context())
		first := put(t, s, "a")
		one := s.Watch(ctx, "", first)
		synctest.Wait()
		put(t, s, "b")
		put(t, s, "c")
		synctest.Wait()
		for _, test := range []struct {
			from int64
			want string
		}{{first, "a b c"}, {first + 1, "b c"}, {first + 3, ""}} {
			w := s.Watch(ctx, "", test.from)
			synctest.Wait()
			if got := strings.Join(keys(w), " "); got != test.want {
				t.Errorf("from %d: %q, want %q", test.from, got, test.want)
			}
		}
		if got := strings.Join(keys(one), " "); got != "a b c" || c.begun != 1 {
			t.Errorf("the first watch has %q, and the store %d watches", got, c.begun)
		}
		cancel()
		synctest.Wait()
		if n := c.running.Load(); n != 0 {
			t.Errorf("%d watches of the store run on", n)
		}
		if got := keys(one); !slices.Equal(got, []string{"end: <nil>"}) {
			t.Errorf("a watch whose context has ended: %v", got)
		}
	})
}

// TestBrokenSourceIsResumed: after a break, watches that begin again at different revisions are served from one watch.
func TestBrokenSourceIsResumed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &counted{Store: mem.New()}
		s := share.New(c)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		first := put(t, s, "a")
		w := s.Watch(ctx, "", first)
		synctest.Wait()
		put(t, s, "b")
		synctest.Wait()
		c.BreakWatches(mem.ErrInjected)
		synctest.Wait()
		if got := strings.Join(keys(w), " "); got != "a b end: "+mem.ErrInjected.Error() {
			t.Fatalf("the watch that broke: %q", got)
		}
		ahead := s.Watch(ctx, "", first+2)
		behind := s.Watch(ctx, "", first+1)
		put(t, s, "c")
		synctest.Wait()
		for w, want := range map[ledger.Watch]string{ahead: "c", behind: "b c"} {
			if got := strings.Join(keys(w), " "); got != want {
				t.Errorf("after the break: %q, want %q", got, want)
			}
		}
		if c.begun != 2 {
			t.Errorf("the store has had %d watches, want 2", c.begun)
		}
	})
}

// TestEarlierWatch: a watch that begins before what is kept is served, and later ones with it.
func TestEarlierWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &counted{Store: mem.New()}
		s := share.New(c)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		first := put(t, s, "a")
		put(t, s, "b")
		put(t, s, "c")
		late := s.Watch(ctx, "", first+2)
		early := s.Watch(ctx, "", first)
		between := s.Watch(ctx, "", first+1)
		synctest.Wait()
		for w, want := range map[ledger.Watch]string{late: "c", early: "a b c", between: "b c"} {
			if got := strings.Join(keys(w), " "); got != want {
				t.Errorf("%q, want %q", got, want)
			}
		}
		if c.begun != 2 {
			t.Errorf("the store has had %d watches, want 2", c.begun)
		}
	})
}

// TestLateWatchCatchesUp: a watch that begins before what is kept has a watch of the store of its own until it has
// caught up, misses nothing and gets nothing twice.
func TestLateWatchCatchesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &counted{Store: mem.New()}
		s := share.New(c)
		ctx, cancel := context.WithCancel(t.Context())
		first := put(t, s, "a")
		put(t, s, "b")
		running := s.Watch(ctx, "", first+2)
		synctest.Wait()
		put(t, s, "c")
		synctest.Wait()
		recorder, stopRecorder := context.WithCancel(ctx)
		late := s.Watch(recorder, "", first)
		synctest.Wait()
		if n := c.running.Load(); n != 1 {
			t.Errorf("%d watches of the store run after one has caught up, want 1", n)
		}
		put(t, s, "d")
		synctest.Wait()
		for w, want := range map[ledger.Watch]string{running: "c d", late: "a b c d"} {
			if got := strings.Join(keys(w), " "); got != want {
				t.Errorf("%q, want %q", got, want)
			}
		}
		stopRecorder()
		synctest.Wait()
		put(t, s, "e")
		synctest.Wait()
		if got := strings.Join(keys(running), " "); got != "e" || c.running.Load() != 1 || c.begun != 2 {
			t.Errorf("%q, %d watches of the store run of %d; want one of 2", got, c.running.Load(), c.begun)
		}
		cancel()
		synctest.Wait()
		if n := c.running.Load(); n != 0 {
			t.Errorf("%d watches of the store run on", n)
		}
		if got := keys(late); !slices.Equal(got, []string{"end: <nil>"}) {
			t.Errorf("the late watch whose context has ended: %v", got)
		}
	})
}

// TestLateWatchOutlivesTheSharedOne: the watch of the store that a late watch began with serves the process alone when
// the others have ended, and when the shared one breaks before the late one has caught up.
func TestLateWatchOutlivesTheSharedOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &counted{Store: mem.New()}
		s := share.New(c)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		first := put(t, s, "a")
		last := put(t, s, "b")
		service, stop := context.WithCancel(ctx)
		s.Watch(service, "", last+1)
		late := s.Watch(ctx, "", first) // it has delivered nothing when the other one ends
		stop()
		synctest.Wait()
		put(t, s, "c")
		synctest.Wait()
		again := s.Watch(ctx, "", last+1)
		synctest.Wait()
		for w, want := range map[ledger.Watch]string{again: "c", late: "a b c"} {
			if got := strings.Join(keys(w), " "); got != want {
				t.Errorf("%q, want %q", got, want)
			}
		}
		if n := c.running.Load(); n != 1 {
			t.Errorf("%d watches of the store run, want 1", n)
		}
		c.BreakWatches(mem.ErrInjected)
		synctest.Wait()
		if got := strings.Join(keys(late), " "); got != "end: "+mem.ErrInjected.Error() {
			t.Errorf("the late watch after a break: %q", got)
		}
	})
}

// gated delivers nothing, and does not end, before open is closed.
type gated struct {
	*mem.Store
	open chan struct{}
}

type gatedWatch struct {
	ledger.Watch
	open chan struct{}
}

func (g gated) Watch(ctx context.Context, prefix string, from int64) ledger.Watch {
	return gatedWatch{g.Store.Watch(ctx, prefix, from), g.open}
}

func (w gatedWatch) Batches() <-chan ledger.EventBatch {
	<-w.open
	return w.Watch.Batches()
}

// TestCompactedForOne: when one watch asks for revisions that have been compacted, others need not list again.
func TestCompactedForOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := gated{Store: mem.New(), open: make(chan struct{})}
		s := share.New(m)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		put(t, s, "a")
		last := put(t, s, "b")
		if err := m.Compact(last); err != nil {
			t.Fatal(err)
		}
		old, recent := s.Watch(ctx, "", 1), s.Watch(ctx, "", last)
		close(m.open)
		synctest.Wait()
		keys(old)
		keys(recent)
		if !errors.Is(old.Err(), ledger.ErrCompacted) || recent.Err() == nil || errors.Is(recent.Err(), ledger.ErrCompacted) {
			t.Fatalf("the old watch ends with %v, the recent one with %v", old.Err(), recent.Err())
		}
		again := s.Watch(ctx, "", last)
		synctest.Wait()
		if got := strings.Join(keys(again), " "); got != "b" {
			t.Errorf("after that: %q, want %q", got, "b")
		}
	})
}

// TestSlowWatchBreaksAlone: a watch that nobody takes from breaks, the others go on, and it can watch again from where
// it broke.
func TestSlowWatchBreaksAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		s := share.New(mem.New())
		slow, fast := s.Watch(ctx, "", 1), s.Watch(ctx, "", 1)
		const changes = 3000
		var seen []string
		for i := range changes {
			put(t, s, fmt.Sprint("k", i))
			synctest.Wait()
			seen = append(seen, keys(fast)...)
		}
		if len(seen) != changes {
			t.Errorf("the fast watch has %d changes, want %d", len(seen), changes)
		}
		got := keys(slow)
		if got[len(got)-1] != "end: "+share.ErrBehind.Error() || !errors.Is(slow.Err(), share.ErrBehind) {
			t.Fatalf("the slow watch ends with %q", got[len(got)-1])
		}
		got = got[:len(got)-1]
		again := s.Watch(ctx, "", int64(len(got))+2) // the store begins at revision 1
		synctest.Wait()
		for len(got) < changes {
			more := keys(again)
			synctest.Wait()
			if len(more) == 0 {
				break
			}
			got = append(got, more...)
		}
		if !slices.Equal(got, seen) {
			t.Errorf("the slow watch and its successor have %d changes, want %d", len(got), len(seen))
		}
	})
}

// TestSourceOfASlowWatchEnds: when the only watch breaks because it is behind, the watch of the store ends with it.
func TestSourceOfASlowWatchEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &counted{Store: mem.New()}
		s := share.New(c)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		slow := s.Watch(ctx, "", 1)
		for i := range 2000 {
			put(t, s, fmt.Sprint("k", i))
			synctest.Wait()
		}
		if n := c.running.Load(); n != 0 {
			t.Errorf("%d watches of the store run for no one", n)
		}
		read := keys(slow)
		if !errors.Is(slow.Err(), share.ErrBehind) {
			t.Fatalf("the slow watch ends with %v", slow.Err())
		}
		s.Watch(ctx, "", int64(len(read))+1)
		synctest.Wait()
		if n := c.running.Load(); n != 1 {
			t.Errorf("%d watches of the store run for one", n)
		}
	})
}

// TestFollowersAgree: followers that come, go, and meet broken watches and compactions all end with what the store has.
func TestFollowersAgree(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		actions := rapid.SliceOfN(rapid.IntRange(0, 9), 5, 60).Draw(r, "actions")
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			m := mem.New()
			s := share.New(m)
			var followers []*follower
			for i, action := range actions {
				switch action {
				case 0, 1:
					followers = append(followers, follow(ctx, s))
				case 2:
					m.BreakWatches(mem.ErrInjected)
				case 3:
					_ = m.Compact(m.Revision()) // it refuses if that has been done
				case 4:
					if len(followers) > 0 {
						followers[0].stop()
						followers = followers[1:]
					}
				case 5:
					if _, err := s.Commit(ctx, ledger.Txn{Deletes: []string{fmt.Sprint("k", i%3)}}); err != nil {
						t.Fatal(err)
					}
				case 6:
					synctest.Wait()
				default:
					put(t, s, fmt.Sprint("k", i%3))
				}
			}
			time.Sleep(time.Minute) // longer than any wait of Follow
			check(t, s, followers)
			cancel()
			synctest.Wait()
		})
	})
}
