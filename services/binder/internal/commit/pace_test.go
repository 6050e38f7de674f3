package commit

import (
	"context"
	"testing"
	"testing/synctest"
)

func TestEventsWaitWhileBindsKeepHalfTheWorkersBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPace(4)
		waiting := 1
		went := make(chan bool)
		write := func() { go func() { went <- p.wait(t.Context(), func() int { return waiting }) }() }
		end := p.change()
		write() // one of four workers is busy: there is room
		if !<-went {
			t.Fatal("not written with one bind on its way")
		}

		endSecond := p.change()
		write()
		synctest.Wait()
		select {
		case <-went:
			t.Fatal("written while half of the workers bind")
		default:
		}
		endSecond()
		if !<-went {
			t.Fatal("not written after a bind ended")
		}

		defer p.change()()
		write()
		synctest.Wait()
		waiting = eventsPatience
		p.nudge() // as report does
		if !<-went {
			t.Fatal("not written although too many wait")
		}
		end()
	})
}

func TestEventsWaitForAFreeWriter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPace(4)
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
