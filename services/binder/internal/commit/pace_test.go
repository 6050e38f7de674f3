package commit

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

func TestEventsWaitWhileBindsComeManyAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPace()
		waiting := 1
		went := make(chan bool)
		write := func() { go func() { went <- p.wait(t.Context(), func() int { return waiting }) }() }
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
		calm := time.Now()
		if !<-went {
			t.Fatal("not written after a bind ended")
		}
		if waited := time.Since(calm); waited != calmFor {
			t.Fatalf("written %v after a bind ended, which may be a gap between two: want %v", waited, calmFor)
		}

		defer p.change()()
		write()
		synctest.Wait()
		waiting = eventsPatience
		p.nudge() // as report does
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
	})
}

func TestEventsWaitForAFreeWriter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPace()
		var ends []func()
		for range eventWriters {
			ends = append(ends, p.write())
		}
		ctx, cancel := context.WithCancel(t.Context())
		went := make(chan bool)
		write := func() { go func() { went <- p.wait(ctx, func() int { return eventsWaiting }) }() }
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

func TestNoMoreEventsAreHandedOverThanTheLibraryKeeps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := make(handed, 2)
		begin := time.Now()
		for range cap(h) {
			if !h.wait(t.Context()) {
				t.Fatal("not handed over although there is room")
			}
		}
		h.begun()
		if !h.wait(t.Context()) || time.Since(begin) != 0 {
			t.Fatal("not handed over at once although the library writes one")
		}
		if !h.wait(t.Context()) || time.Since(begin) != handedPatience {
			t.Fatalf("handed over after %v: want %v, when the others are taken for a series", time.Since(begin), handedPatience)
		}
		if len(h) != 1 {
			t.Fatalf("%d on their way, want the last alone", len(h))
		}
		for range 2 * cap(h) {
			h.begun() // a repetition is no harm
		}
		ctx, cancel := context.WithCancel(t.Context())
		for range cap(h) {
			h.wait(ctx)
		}
		cancel()
		if h.wait(ctx) {
			t.Fatal("handed over after the binder was told to stop")
		}
	})
}
