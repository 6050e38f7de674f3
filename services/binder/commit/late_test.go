package commit

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/berth-scheduler/berth/services/binder/decide/effect"
)

// A worker, or the whole process, was suspended between the core's effect and the call: another binder may have the
// claim by now, and another pod the room in a budget.
func TestWhatHasNoTimeLeftIsNotSent(t *testing.T) {
	var calls atomic.Int32
	r := serve(t, func(w http.ResponseWriter, req *http.Request) {
		calls.Add(1)
		if req.Method == http.MethodPatch {
			write(w, http.StatusOK, podObject(nil))
			return
		}
		write(w, http.StatusCreated, success)
	})
	over := time.Now().Add(-time.Second)
	for _, e := range []effect.Effect{
		effect.Evict{Op: 3, Pod: thePod, NotAfter: over}, effect.RemoveGate{Op: 3, Pod: thePod, Gate: "g", NotAfter: over},
	} {
		in, err := r.carryOut(context.Background(), e)
		if _, untaken := in.(effect.NotStarted); err != nil || !untaken || calls.Load() != 0 {
			t.Errorf("%T: answered %+v, %v after %d calls, want that it was not taken", e, in, err, calls.Load())
		}
	}
	later := time.Now().Add(time.Hour)
	for _, e := range []effect.Effect{
		effect.Evict{Op: 4, Pod: thePod, NotAfter: later}, effect.RemoveGate{Op: 4, Pod: thePod, Gate: "g", NotAfter: later},
	} {
		in, err := r.carryOut(context.Background(), e)
		if a, ok := in.(effect.Answered); err != nil || !ok || a.Result != effect.Done {
			t.Errorf("%T in time: answered %+v, %v", e, in, err)
		}
	}
}

// A call has the time that both clocks leave it, and no more than any change.
func TestTimeIsOverByEitherClock(t *testing.T) {
	for _, c := range []struct{ monotonic, wall, want time.Duration }{
		{time.Second, time.Hour, time.Second},
		{time.Hour, time.Second, time.Second},
		{-time.Second, time.Hour, -time.Second},
		{time.Hour, -time.Second, -time.Second},
		{time.Hour, time.Hour, changeTimeout},
	} {
		if got := timeLeft(c.monotonic, c.wall); got != c.want {
			t.Errorf("%s by the monotonic clock and %s by the wall's leave %s, want %s", c.monotonic, c.wall, got, c.want)
		}
	}
}

// The call ends when its time has expired, although the API server does not answer.
func TestEvictionEndsInItsTime(t *testing.T) {
	gone := make(chan struct{})
	r := serve(t, func(_ http.ResponseWriter, req *http.Request) {
		_, _ = io.Copy(io.Discard, req.Body) // a server notices a disconnected client only after the body
		<-req.Context().Done()
		close(gone)
	})
	began := time.Now()
	in, err := r.carryOut(context.Background(), effect.Evict{
		Op: 3, Pod: thePod, NotAfter: began.Add(100 * time.Millisecond),
	})
	if a, ok := in.(effect.Answered); err != nil || !ok || a.Result != effect.Unknown {
		t.Errorf("answered %+v, %v, want unknown", in, err)
	}
	if took := time.Since(began); took >= changeTimeout {
		t.Errorf("the call ended after %s, as any change does, want its own time", took)
	}
	<-gone
}

// Gates are removed one after the other by an API server that is slow with them. An eviction, and the fence of a
// reservation that is wanted back, do not queue behind them.
func TestEvictionsDoNotQueueBehindGates(t *testing.T) {
	slow := make(chan struct{})
	r := serve(t, func(w http.ResponseWriter, req *http.Request) {
		if req.Method == http.MethodPatch && !strings.HasSuffix(req.URL.Path, "/status") {
			select {
			case <-slow:
			case <-req.Context().Done():
			}
		}
		write(w, http.StatusOK, podObject(nil))
	})
	ctx, cancel := context.WithCancel(context.Background())
	var lanesGroup errgroup.Group
	for lane, workers := range r.workersByLane() {
		for range workers {
			lanesGroup.Go(func() error { return r.work(ctx, lane) })
		}
	}
	hand := func(e effect.Effect) {
		lane, _ := LaneOf(e)
		select {
		case r.Lane(lane) <- e:
		case <-time.After(10 * time.Second):
			t.Fatalf("no worker takes %T", e)
		}
	}
	hand(effect.RemoveGate{Op: 1, Pod: thePod, Gate: "g"})
	for op, e := range []effect.Effect{
		effect.Evict{Op: 2, Pod: thePod}, effect.FencePod{Op: 3, Pod: thePod, Value: "v"}, effect.ReadPod{Op: 4, Pod: thePod},
	} {
		hand(e)
		if a, ok := (<-r.Answers()).(effect.Answered); !ok || a.Op != effect.OpID(op+2) {
			t.Errorf("answered %+v, want the answer to %T", a, e)
		}
	}
	close(slow)
	<-r.Answers()
	cancel()
	if err := lanesGroup.Wait(); err != nil {
		t.Error(err)
	}
}

// Marks do not queue behind hand-overs of idle documents.
func TestLanesOfTransactions(t *testing.T) {
	for _, c := range []struct {
		effect effect.Effect
		want   Lane
	}{
		{effect.Amend{Why: "evict-mark"}, LaneLedger},
		{effect.Amend{Why: "hand-over", Idle: true}, LaneSweep},
		{effect.Transact{Why: "fence-mark"}, LaneLedger},
	} {
		if lane, ok := LaneOf(c.effect); !ok || lane != c.want {
			t.Errorf("%+v goes to lane %d, want %d", c.effect, lane, c.want)
		}
	}
}
