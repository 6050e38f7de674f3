package commit

import (
	"context"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

const (
	// eventWriters is how many events may be in flight at once, and eventQueueSize how many may wait for that; further
	// events are dropped. They compete with the binds that they report (see pace).
	eventWriters   = 8
	eventQueueSize = 20480
	// eventsPaced is how many events wait, at most, for binds to leave room: half of what can wait, so that the
	// other half remains for times when the API server is slow.
	eventsPaced = eventQueueSize / 2
)

// busyFrom is the number of concurrent binds and other changes from which the API server counts as busy: more than
// pods that arrive one by one cause.
const busyFrom = 4

// calmFor is how long the API server must have had few changes before events are written. Binds come in bursts, and
// an event written in the gap between two of them delays the second.
const calmFor = 20 * time.Millisecond

// slowFrom is how many times as long as the quickest recent bind a bind takes on an API server that is busy with
// other work, from any client: pods may be created, for example, as fast as they are bound. floorFor defines
// recent: the quickest bind of the current minute and of the one before.
const (
	slowFrom = 3
	floorFor = time.Minute
)

// maxBurstWait is the longest time an event waits for a busy API server. A load that lasts longer is not a burst.
const maxBurstWait = 10 * time.Second

// forcedEvery is the interval between events that are written although binds leave no room.
const forcedEvery = 50 * time.Millisecond

// pace limits events to the spare capacity of the API server: each event costs about as much as the bind it reports.
// While at least busyFrom binds and other changes are in flight, and for calmFor after that, events wait. Once
// eventsPaced events wait, or one has waited for maxBurstWait, some are written anyway, one every forcedEvery: if there
// is never any spare capacity, binds keep nearly all of the capacity, and events in excess of eventQueueSize are
// dropped. While binds are slow, and
// for calmFor after that, events wait as well, but none longer than maxBurstWait, and none once eventsPaced
// events wait.
type pace struct {
	clock clock.Clock
	// wakeups holds a token after any event that may have ended a wait.
	wakeups chan struct{}

	mu struct {
		sync.Mutex
		// changes counts the binds and other changes in flight, writes the events.
		changes, writes int
		// busyUntil is when busyFrom changes were last in flight. forced is when an event was last written despite
		// that.
		busyUntil, forced time.Time
		// slowUntil is when a bind was last slow. floor is the duration of the quickest bind since floorSince; before
		// is that of the quickest in the floorFor before, 0 if there was none.
		slowUntil, floorSince time.Time
		floor, before         time.Duration
	}
}

func newPace(c clock.Clock) *pace { return &pace{clock: c, wakeups: make(chan struct{}, 1)} }

// change begins a bind or another change; the returned function ends it.
func (p *pace) change() (end func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.changes++
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.mu.changes >= busyFrom {
			p.mu.busyUntil = p.clock.Now()
		}
		p.mu.changes--
		p.wakeUp()
	}
}

// bound records how long the API server took for a bind that ends now. A bind counts as slow by comparison with the
// quickest one of the last one to two floorFor, because what is quick depends on the cluster. So the measure follows an
// API server that becomes slower for good.
func (p *pace) bound(took time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.clock.Now()
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

// write begins the write of an event; the returned function ends it.
func (p *pace) write() (end func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.writes++
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.mu.writes--
		p.wakeUp()
	}
}

func (p *pace) wakeUp() {
	select {
	case p.wakeups <- struct{}{}:
	default:
	}
}

// allows reports whether an event that has waited since a given time may be written while waiting events wait. If not,
// rest is the longest time to wait unless a wakeup comes first; 0 means until a wakeup.
func (p *pace) allows(since time.Time, waiting int) (ok bool, rest time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	// Every writer is busy: the end of a write wakes the waiter.
	if p.mu.writes >= eventWriters {
		return false, 0
	}
	// Few changes are in flight. Have there been few for long enough, and are binds as quick as usual?
	if p.mu.changes < busyFrom {
		rest = calmFor - p.clock.Since(p.mu.busyUntil)
		if waiting < eventsPaced {
			rest = max(rest, min(calmFor-p.clock.Since(p.mu.slowUntil), maxBurstWait-p.clock.Since(since)))
		}
		if rest <= 0 {
			return true, 0
		}
	}
	if left := maxBurstWait - p.clock.Since(since); waiting < eventsPaced && left > 0 {
		if rest > 0 {
			left = min(rest, left)
		}
		return false, left
	}
	// Too many wait, or for too long: one is written now and then, whatever it costs the binds.
	if rest = forcedEvery - p.clock.Since(p.mu.forced); rest <= 0 {
		p.mu.forced = p.clock.Now()
		return true, 0
	}
	return false, rest
}

// wait blocks until an event that has waited since a given time may be written. It reports false if ctx ended.
// waiting returns how many events wait now.
func (p *pace) wait(ctx context.Context, since time.Time, waiting func() int) bool {
	for {
		ok, rest := p.allows(since, waiting())
		if ok {
			return true
		}
		if !p.sleep(ctx, rest) {
			return false
		}
	}
}

// sleep blocks until a wakeup, or until rest has passed unless it is 0. It reports false if ctx ended.
func (p *pace) sleep(ctx context.Context, rest time.Duration) bool {
	var over <-chan time.Time
	if rest > 0 {
		over = p.clock.After(rest)
	}
	select {
	case <-p.wakeups:
	case <-over:
	case <-ctx.Done():
		return false
	}
	return true
}
