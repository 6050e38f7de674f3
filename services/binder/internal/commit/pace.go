package commit

import (
	"context"
	"sync"
	"time"
)

// busyFrom is how many binds and other changes on their way are more than pods that come one by one.
const busyFrom = 4

// calmFor is how long the API server must have had few changes to do before events are written. Binds
// come in bursts: an event written in the gap between two of them delays the second.
const calmFor = 20 * time.Millisecond

// slowFrom is how many times as long as the quickest one of late a bind takes on an API server that has much else to
// do, whoever asks for it: pods are being created, say, as fast as they are bound. floorFor is how late
// "of late" is: the quickest of this minute and the one before.
const (
	slowFrom = 3
	floorFor = time.Minute
)

// burstPatience is how long an event waits for an API server with much to do, at most. What is left to do after that
// is no burst.
const burstPatience = 10 * time.Second

// forcedEvery is the time between two events that are written although binds leave no room.
const forcedEvery = 50 * time.Millisecond

// pace lets events use what the API server has to spare: each costs about as much as the bind it
// tells about. While at least busyFrom binds and other changes are on their way, and for calmFor after
// that, events wait. Once eventsPatience wait, some are written all the same, one every
// forcedEvery: where there is never anything to spare, binds keep nearly all there is, and of the
// events what comes to more than eventsWaiting is dropped. While binds are slow, and for calmFor after
// that, events wait too, but none longer than burstPatience, nor when eventsPatience wait.
type pace struct {
	// wake holds a token after anything that may have ended a wait.
	wake chan struct{}

	mu struct {
		sync.Mutex
		changes, writes int
		// busyUntil is when busyFrom changes were last on their way, forced when an event was last
		// written all the same.
		busyUntil, forced time.Time
		// slowUntil is when a bind last was slow. floor is the quickest bind since floorSince, before the
		// quickest of the floorFor before that; 0 when there was none.
		slowUntil, floorSince time.Time
		floor, before         time.Duration
	}
}

func newPace() *pace { return &pace{wake: make(chan struct{}, 1)} }

// change begins a bind or another change; the function that it returns ends it.
func (p *pace) change() (end func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.changes++
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.mu.changes >= busyFrom {
			p.mu.busyUntil = time.Now()
		}
		p.mu.changes--
		p.nudge()
	}
}

// bound tells how long the API server took for a bind that ends now.
func (p *pace) bound(took time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if now.Sub(p.mu.floorSince) >= floorFor {
		p.mu.floorSince = now
		p.mu.before = p.mu.floor
		p.mu.floor = took
	}
	p.mu.floor = min(p.mu.floor, took)
	floor := p.mu.floor
	if p.mu.before > 0 {
		floor = min(floor, p.mu.before)
	}
	if took >= slowFrom*floor {
		p.mu.slowUntil = now
	}
}

// write begins the write of an event; the function that it returns ends it.
func (p *pace) write() (end func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.writes++
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.mu.writes--
		p.nudge()
	}
}

func (p *pace) nudge() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// may says whether an event that waits since then may be written while that many wait; if not, how long to wait
// for it at most unless something ends or comes before, 0 for as long as nothing does.
func (p *pace) may(since time.Time, waiting int) (ok bool, rest time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.writes >= eventWriters {
		return false, 0
	}
	if p.mu.changes < busyFrom {
		rest = calmFor - time.Since(p.mu.busyUntil)
		if waiting < eventsPatience {
			rest = max(rest, min(calmFor-time.Since(p.mu.slowUntil), burstPatience-time.Since(since)))
		}
		if rest <= 0 {
			return true, 0
		}
	}
	if waiting < eventsPatience {
		return false, rest
	}
	if rest = forcedEvery - time.Since(p.mu.forced); rest <= 0 {
		p.mu.forced = time.Now()
		return true, 0
	}
	return false, rest
}

// wait until an event that waits since then may be written, or ctx ends: then false. waiting is how many wait now.
func (p *pace) wait(ctx context.Context, since time.Time, waiting func() int) bool {
	for {
		ok, rest := p.may(since, waiting())
		if ok {
			return true
		}
		if !p.sleep(ctx, rest) {
			return false
		}
	}
}

// sleep until a nudge, or until rest has passed unless it is 0; false when ctx ended.
func (p *pace) sleep(ctx context.Context, rest time.Duration) bool {
	var over <-chan time.Time
	if rest > 0 {
		over = time.After(rest)
	}
	select {
	case <-p.wake:
	case <-over:
	case <-ctx.Done():
		return false
	}
	return true
}
