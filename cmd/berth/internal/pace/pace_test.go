package pace

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
	"time"
)

func TestHeapsGrowToTheirRoom(t *testing.T) {
	for _, c := range []struct {
		name       string
		live, goal uint64
		idle       bool
		want       int
	}{
		{"nothing yet", 0, 0, false, 300},
		{"a small heap stays small", 20 << 20, 80 << 20, false, 300},
		{"what fits is not collected before it is full", 64 << 20, 192 << 20, false, 200},
		{"half of the room", 96 << 20, 192 << 20, false, 100},
		{"a large heap doubles, as is the runtime's rule", 4 << 30, 8 << 30, false, 100},
		{"an idle process keeps little garbage", 100 << 20, 140 << 20, true, idleGCPercent},
		{"a large heap doubles, idle or not", 4 << 30, 8 << 30, true, 100},
	} {
		got := gcPercent(c.live, c.idle)
		if goal := c.live + c.live*uint64(got)/100; got != c.want || goal != c.goal {
			t.Errorf("%s: %d bytes are in use: %d%%, collected at %d; want %d%%, %d", c.name, c.live, got, goal, c.want, c.goal)
		}
	}
}

// TestPaceIsStable: the rate alone decides whether a process is idle, not the pace that is in force. Between the two
// borders no collection is forced.
func TestPaceIsStable(t *testing.T) {
	const live = 60 << 20
	for perSecond, want := range map[uint64]struct{ stays, becomes bool }{
		0: {true, true}, 2 << 20: {true, true}, 3 << 20: {true, false}, 5 << 20: {}, 10 << 20: {}, 100 << 20: {},
	} {
		for _, in := range []time.Duration{time.Second, idleCycle, time.Minute} {
			allocated := perSecond * uint64(in/time.Second)
			if got := staysIdle(live, allocated, in); got != want.stays {
				t.Errorf("%d bytes a second for %v: stays idle %v, want %v", perSecond, in, got, want.stays)
			}
			if got := becomesIdle(live, allocated, in); got != want.becomes {
				t.Errorf("%d bytes a second for %v: becomes idle %v, want %v", perSecond, in, got, want.becomes)
			}
		}
	}
}

func TestCollectorFollowsTheHeap(t *testing.T) {
	t.Setenv("GOGC", "")
	before := debug.SetGCPercent(77)
	t.Cleanup(func() { debug.SetGCPercent(before) })
	Tune()
	// This is 192 MiB divided by 80 MiB and the test's other data.
	waitForPercent(t, make([]byte, 80<<20), leastGCPercent+1, 140)
	// The large slice is gone: a second collection and later ones are followed as well.
	waitForPercent(t, nil, mostGCPercent, mostGCPercent)
}

// waitForPercent makes and collects garbage at the rate of a busy process, with held in use, until GOGC is within these
// bounds.
func waitForPercent(t *testing.T, held []byte, least, most uint64) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for got := gogc(); got < least || got > most; got = gogc() {
		if time.Now().After(deadline) {
			t.Fatalf("GOGC is %d with %d bytes in use, want %d to %d", got, len(held), least, most)
		}
		garbage := make([]byte, 32<<20)
		runtime.KeepAlive(garbage)
		runtime.GC()
	}
	runtime.KeepAlive(held)
}

func TestOperatorsGOGCStays(t *testing.T) {
	t.Setenv("GOGC", "77")
	before := debug.SetGCPercent(77)
	t.Cleanup(func() { debug.SetGCPercent(before) })
	Tune()
	if got := gogc(); got != 77 {
		t.Errorf("GOGC is %d, want the operator's 77", got)
	}
}

// gogc returns the GOGC that is in force.
func gogc() uint64 {
	percent := []metrics.Sample{{Name: "/gc/gogc:percent"}}
	metrics.Read(percent)
	return percent[0].Value.Uint64()
}

// TestIdleProcessReturnsMemory: a busy process that allocates nothing more collects once, without being asked, and
// continues at an idle process's pace.
func TestIdleProcessReturnsMemory(t *testing.T) {
	t.Setenv("GOGC", "")
	before := debug.SetGCPercent(77)
	t.Cleanup(func() { debug.SetGCPercent(before) })
	Tune()
	deadline := time.After(10 * idleCycle)
	look := time.NewTicker(idleCycle / 50)
	defer look.Stop()
	for gogc() != idleGCPercent {
		select {
		case <-look.C:
		case <-deadline:
			t.Fatalf("GOGC is %d after %v almost without garbage, want %d", gogc(), 10*idleCycle, idleGCPercent)
		}
	}
}
