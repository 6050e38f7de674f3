package commit

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/utils/clock"
)

func TestEventsWaitWhileBindsComeManyAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPace(clock.RealClock{})
		waiting := 1
		went := make(chan bool)
		write := func() { go func() { went <- p.wait(t.Context(), time.Now(), func() int { return waiting }) }() }
		for range busyFrom - 1 {
			defer p.change()()
		}
		write()
		if !<-went {
			t.Fatalf("not written with %d binds on their way", busyFrom-1)
		}

		end := p.change()
		write()
		synctest.Wait()
		select {
		case <-went:
			t.Fatalf("written with %d binds on their way", busyFrom)
		default:
		}
		end()
		begin := time.Now()
		if !<-went {
			t.Fatal("not written after a bind ended")
		}
		if waited := time.Since(begin); waited != calmFor {
			t.Fatalf("written %v after a bind ended, which may be a gap between two: want %v", waited, calmFor)
		}

		defer p.change()()
		write()
		synctest.Wait()
		waiting = eventsPaced
		p.wakeUp() // as report does
		if !<-went {
			t.Fatal("not written although too many wait")
		}
		first := time.Now()
		for range 3 {
			write()
			if !<-went {
				t.Fatal("no further one written although too many wait")
			}
		}
		if took := time.Since(first); took != 3*forcedEvery {
			t.Fatalf("3 further ones in %v, want %v: binds leave no room", took, 3*forcedEvery)
		}

		waiting = 1
		alone := time.Now()
		write()
		if !<-went {
			t.Fatal("not written although it has waited for long")
		}
		if waited := time.Since(alone); waited != maxBurstWait {
			t.Fatalf("written after %v of binds without a gap, want %v", waited, maxBurstWait)
		}
	})
}

func TestEventsWaitWhileBindsAreSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const quick = 3 * time.Millisecond
		p := newPace(clock.RealClock{})
		waiting := 1
		// waited returns how long an event waits after a bind has ended, while others end every millisecond.
		waited := func(took time.Duration, others bool) time.Duration {
			p.bound(took)
			since := time.Now()
			went := make(chan bool)
			go func() { went <- p.wait(t.Context(), since, func() int { return waiting }) }()
			tick := time.NewTicker(time.Millisecond)
			defer tick.Stop()
			for {
				select {
				case <-went:
					return time.Since(since)
				case <-tick.C:
					if others {
						p.bound(took)
					}
				}
			}
		}
		for _, c := range []struct {
			name   string
			took   time.Duration
			others bool
			want   time.Duration
		}{
			{"the first bind of all", 2 * quick, false, 0},
			{"a quicker one", quick, true, 0},
			{"one not much slower", slowFrom*quick - 1, true, 0},
			{"a slow one", slowFrom * quick, false, calmFor},
			{"slow ones all the time", slowFrom * quick, true, maxBurstWait},
		} {
			if got := waited(c.took, c.others); got != c.want {
				t.Errorf("after %s: an event waits for %v, want %v", c.name, got, c.want)
			}
		}
		waiting = eventsPaced
		if got := waited(slowFrom*quick, true); got != 0 {
			t.Errorf("waits for %v although as many wait as are let", got)
		}
		waiting = 1
		for range 2 {
			time.Sleep(floorFor)
			p.bound(slowFrom * quick)
		}
		if got := waited(slowFrom*quick, true); got != 0 {
			t.Errorf("waits for %v although no bind has been quicker for %v", got, 2*floorFor)
		}
	})
}

func TestEventsWaitForAFreeWriter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPace(clock.RealClock{})
		var ends []func()
		for range eventWriters {
			ends = append(ends, p.write())
		}
		ctx, cancel := context.WithCancel(t.Context())
		went := make(chan bool)
		write := func() { go func() { went <- p.wait(ctx, time.Now(), func() int { return eventQueueSize }) }() }
		write()
		synctest.Wait()
		ends[0]()
		if !<-went {
			t.Fatal("not written after a writer was free")
		}
		defer p.write()()
		write()
		synctest.Wait()
		cancel()
		if <-went {
			t.Fatal("written after the binder was told to stop")
		}
	})
}
