package commit

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
)

// scripted is a transport whose requests wait until the test answers them.
type scripted struct {
	requests chan *scriptedRequest
}

type scriptedRequest struct {
	*http.Request
	answer chan error
}

func (s *scripted) RoundTrip(req *http.Request) (*http.Response, error) {
	r := &scriptedRequest{req, make(chan error)}
	s.requests <- r
	select {
	case err := <-r.answer:
		return &http.Response{StatusCode: http.StatusCreated, Body: http.NoBody}, err
	case <-req.Context().Done():
		return nil, req.Context().Err()
	}
}

// lines returns connections over n scripted transports.
func lines(c clock.PassiveClock, n int) (*connections, []*scripted) {
	var transports []http.RoundTripper
	var scripts []*scripted
	for range n {
		s := &scripted{make(chan *scriptedRequest, 100)}
		scripts, transports = append(scripts, s), append(transports, s)
	}
	return newConnections(c, transports), scripts
}

// send begins a request; its outcome arrives in the channel.
func send(ctx context.Context, c *connections) <-chan error {
	done := make(chan error, 1)
	go func() {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://server", strings.NewReader("body"))
		if err == nil {
			_, err = c.RoundTrip(req) //nolint:bodyclose // the scripted transports' answers have no body
		}
		done <- err
	}()
	return done
}

// While no connection is open, one request opens each, and the others wait; then they are spread evenly.
func TestOneRequestOpensAConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, scripts := lines(clock.RealClock{}, 2)
		const requests = 12
		var outcomes []<-chan error
		for range requests {
			outcomes = append(outcomes, send(t.Context(), c))
		}
		synctest.Wait()
		for i, s := range scripts {
			if n := len(s.requests); n != 1 {
				t.Errorf("connection %d is being opened by %d requests, want 1", i, n)
			}
		}
		(<-scripts[0].requests).answer <- nil
		synctest.Wait()
		if here, there := len(scripts[0].requests), len(scripts[1].requests); here != requests-2 || there != 1 {
			t.Errorf("%d requests on the one that is open, %d on the other, want %d and 1", here, there, requests-2)
		}
		(<-scripts[1].requests).answer <- nil
		synctest.Wait()
		for range requests {
			outcomes = append(outcomes, send(t.Context(), c))
		}
		synctest.Wait()
		if here, there := len(scripts[0].requests), len(scripts[1].requests); here-there > 1 || there-here > 1 {
			t.Errorf("%d and %d requests in flight, want as many on each", here, there)
		}
		for _, s := range scripts {
			for len(s.requests) > 0 {
				(<-s.requests).answer <- nil
			}
		}
		for _, o := range outcomes {
			if err := <-o; err != nil {
				t.Error(err)
			}
		}
	})
}

// A request without an answer makes its connection one that is to be opened; requests meanwhile take the other one.
// The failure of the request that opens it lets another one try.
func TestALostConnectionIsTriedByOneRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, scripts := lines(clock.RealClock{}, 2)
		for _, s := range []*scripted{scripts[1], scripts[0]} { // the order in which they are opened
			done := send(t.Context(), c)
			(<-s.requests).answer <- nil
			if err := <-done; err != nil {
				t.Fatal(err)
			}
		}
		lost := errors.New("connection lost")
		for range 3 {
			var outcomes []<-chan error
			for range 9 {
				outcomes = append(outcomes, send(t.Context(), c))
				synctest.Wait()
			}
			for len(scripts[0].requests) > 0 {
				(<-scripts[0].requests).answer <- lost
			}
			for len(scripts[1].requests) > 0 {
				(<-scripts[1].requests).answer <- nil
			}
			failed := 0
			for _, o := range outcomes {
				if err := <-o; errors.Is(err, lost) {
					failed++
				}
			}
			if failed > 5 {
				t.Errorf("%d of 9 requests went to the connection that is lost", failed)
			}
		}
		// Only one of many that come together goes there, after a while.
		time.Sleep(reopenAfter)
		var outcomes []<-chan error
		for range 9 {
			outcomes = append(outcomes, send(t.Context(), c))
		}
		synctest.Wait()
		if n := len(scripts[0].requests); n != 1 {
			t.Errorf("%d requests try the connection, want 1", n)
		}
		for _, s := range scripts {
			for len(s.requests) > 0 {
				(<-s.requests).answer <- nil
			}
		}
		for _, o := range outcomes {
			if err := <-o; err != nil {
				t.Error(err)
			}
		}
	})
}

// Where a connection cannot be opened, requests that come one by one go to the other one, and try it only now and then.
// Where none can be opened, each request tries.
func TestAConnectionThatCannotBeOpenedIsTriedNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, scripts := lines(clock.RealClock{}, 2)
		refused := errors.New("connection refused")
		one := func(other error) error {
			done := send(t.Context(), c)
			select {
			case r := <-scripts[0].requests:
				r.answer <- refused
			case r := <-scripts[1].requests:
				r.answer <- other
			}
			return <-done
		}
		failed := 0
		for range 1000 {
			time.Sleep(10 * time.Millisecond)
			if err := one(nil); err != nil {
				failed++
			}
		}
		if failed < 9 || failed > 11 {
			t.Errorf("%d of 1000 requests in 10 s tried the connection that is refused, want about one a second", failed)
		}
		for range 100 {
			if err := one(refused); err == nil {
				t.Error("no error")
			}
		}
		if err := one(nil); err != nil && one(nil) != nil {
			t.Errorf("%v after the other one can be opened", err)
		}
	})
}

// A request that waits for a connection ends with its context; the connection is not lost with it.
func TestWaitingForAConnectionEndsWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, scripts := lines(clock.RealClock{}, 1)
		first := send(t.Context(), c)
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := <-send(ctx, c); !errors.Is(err, context.DeadlineExceeded) || len(scripts[0].requests) != 1 {
			t.Errorf("%v after %d requests, want the end of the time, and 1", err, len(scripts[0].requests))
		}
		(<-scripts[0].requests).answer <- nil
		if err := <-first; err != nil {
			t.Error(err)
		}
		second := send(t.Context(), c)
		synctest.Wait()
		(<-scripts[0].requests).answer <- nil
		if err := <-second; err != nil {
			t.Error(err)
		}
	})
}

// A connection that has not been used for long may have been closed, and is opened by one request again.
func TestAnIdleConnectionIsOpenedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, scripts := lines(clock.RealClock{}, 1)
		for _, pause := range []time.Duration{0, connectionIdle + 1} {
			time.Sleep(pause)
			a, b := send(t.Context(), c), send(t.Context(), c)
			synctest.Wait()
			if n := len(scripts[0].requests); n != 1 {
				t.Errorf("%d requests after a pause of %s, want 1", n, pause)
			}
			for range 2 {
				(<-scripts[0].requests).answer <- nil
			}
			if err := errors.Join(<-a, <-b); err != nil {
				t.Error(err)
			}
		}
	})
}

// While the last request on a connection is on its way, no other request takes its line: net/http would send it on the
// old connection, or open one for each.
func TestAReplacedConnectionWaitsForTheLastAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, scripts := lines(clock.RealClock{}, 1)
		now := func() (*scriptedRequest, <-chan error) {
			done := send(t.Context(), c)
			synctest.Wait()
			return <-scripts[0].requests, done
		}
		for begin := time.Now(); time.Since(begin) < connectionLife; time.Sleep(connectionLife / 5) {
			first, done := now()
			first.answer <- nil
			if err := <-done; err != nil {
				t.Fatal(err)
			}
		}
		early, earlyDone := now()
		time.Sleep(time.Nanosecond)
		last, lastDone := now()
		if !last.Close || early.Close {
			t.Errorf("the connection is closed with the first request: %v, with the last one: %v", early.Close, last.Close)
		}
		a, b := send(t.Context(), c), send(t.Context(), c)
		synctest.Wait()
		if n := len(scripts[0].requests); n != 0 {
			t.Errorf("%d requests beside the last one, want none", n)
		}
		last.answer <- nil
		synctest.Wait()
		if n := len(scripts[0].requests); n != 1 {
			t.Errorf("%d requests open the next connection, want 1", n)
		}
		for range 2 {
			r := <-scripts[0].requests
			if r.Close {
				t.Error("a request on the new connection closes it")
			}
			r.answer <- nil
		}
		early.answer <- nil
		if err := errors.Join(<-a, <-b, <-earlyDone, <-lastDone); err != nil {
			t.Error(err)
		}
	})
}

// countingListener counts the connections that a server accepts, and those that are open.
type countingListener struct {
	net.Listener
	accepted, open atomic.Int32
}

type countedConn struct {
	net.Conn
	once sync.Once
	open *atomic.Int32
}

func (l *countingListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	l.accepted.Add(1)
	l.open.Add(1)
	return &countedConn{Conn: c, open: &l.open}, nil
}

func (c *countedConn) Close() error {
	c.once.Do(func() { c.open.Add(-1) })
	return c.Conn.Close()
}

// After its life a connection is replaced: the old one ends with the requests that it has, and none fails. So binds
// spread over API servers again after one of them was restarted.
func TestConnectionsAreReplacedAfterTheirLife(t *testing.T) {
	var served atomic.Int32
	slow := make(chan struct{})
	listener := &countingListener{}
	_, config := tlsServerOn(t, listener, func(w http.ResponseWriter, r *http.Request) {
		served.Add(1)
		if strings.Contains(r.URL.Path, "/slow/") {
			<-slow
		}
		_, _ = io.Copy(io.Discard, r.Body)
		write(w, http.StatusCreated, success)
	})
	now := clocktesting.NewFakePassiveClock(time.Unix(1, 0))
	api, err := Connect(config, 0, 0, now)
	if err != nil {
		t.Fatal(err)
	}
	bind := func(name string) {
		if err := api.binds.Bind(t.Context(), aBinding(name)); err != nil {
			t.Error(err)
		}
	}
	burst := func() {
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() { bind("p") })
		}
		all.Wait()
	}
	burst()
	burst()
	if n := listener.accepted.Load(); n != bindConnections {
		t.Errorf("%d connections for two bursts of binds, want %d", n, bindConnections)
	}
	var late sync.WaitGroup
	for range bindConnections {
		late.Go(func() { bind("slow") })
	}
	waitFor(t, func() bool { return served.Load() == 200+bindConnections })
	now.SetTime(now.Now().Add(connectionLife + 1))
	burst()
	burst()
	if n := listener.accepted.Load(); n != 2*bindConnections {
		t.Errorf("%d connections after their life, want %d", n, 2*bindConnections)
	}
	close(slow)
	late.Wait()
	waitFor(t, func() bool { return listener.open.Load() == bindConnections })
}

// waitFor waits for a condition that another goroutine brings about.
func waitFor(t *testing.T, done func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !done(); {
		if time.Now().After(end) {
			t.Fatal("it did not happen within 30 s")
		}
		<-time.After(time.Millisecond)
	}
}

// A request without a body, as one that follows a redirect, may wait in vain.
func TestRequestWithoutABodyWaitsInVain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, scripts := lines(clock.RealClock{}, 1)
		first := send(t.Context(), c)
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://server", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		req.Body = nil
		if _, err := c.RoundTrip(req); !errors.Is(err, context.DeadlineExceeded) { //nolint:bodyclose // there is no answer
			t.Errorf("%v, want that the time is over", err)
		}
		(<-scripts[0].requests).answer <- nil
		if err := <-first; err != nil {
			t.Error(err)
		}
	})
}
