package commit

import (
	"cmp"
	"context"
	"net/http"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

const (
	// bindConnections is how many connections to the API server carry a binder's Bindings, and eventConnections how
	// many carry its events. More connections take no less processor time; with two, half of the binds go on where
	// one leads to an API server that hangs.
	bindConnections  = 2
	eventConnections = 1
	// connectionLife is how long a connection is used before another one replaces it. A load balancer in front of
	// several API servers spreads connections, not requests: after a restart of one API server all of them lead to
	// the others, and would stay there.
	connectionLife = 5 * time.Minute
	// connectionIdle is after how long without a request a connection counts as closed: as long as client-go keeps it
	// (apimachinery's util/net, SetTransportDefaults).
	connectionIdle = 90 * time.Second
	// reopenAfter is how long a lost connection is left alone while another one is open. An attempt costs a request, and
	// may fail at once.
	reopenAfter = time.Second
)

// connections spreads requests over a fixed number of connections to the API server. A request takes the open
// connection with the fewest requests in flight, so that an API server that is slow gets fewer. It is safe for
// concurrent use, and an http.RoundTripper.
//
// One request opens a connection, and while none is open, the others wait for it. Without that, all requests that come
// together would each begin a TLS connection of their own, as net/http does not share one before it is open.
type connections struct {
	clock clock.PassiveClock
	mu    struct {
		sync.Mutex
		lines []*line
		// next is the line from which a search begins, so that equal lines take turns.
		next int
		// waiting requests wait for wake, which is closed when a connection has become free or open.
		waiting int
		wake    chan struct{}
	}
}

// line is a transport with one connection at a time. Its fields belong to connections.mu, but for the transport.
type line struct {
	transport http.RoundTripper
	present   *connection
	// until is when another connection replaces the present one, and lost is when a request last had no answer.
	until, lost time.Time
}

// connection counts the requests on one connection of a line.
type connection struct {
	inFlight int
	// open means that the connection has answered a request. used is when it was last begun to be used.
	open bool
	used time.Time
}

// newConnections returns connections with one transport each, at least one. The ends of their lives are spread evenly.
func newConnections(c clock.PassiveClock, transports []http.RoundTripper) *connections {
	out := &connections{clock: c}
	out.mu.wake = make(chan struct{})
	for i, t := range transports {
		life := connectionLife * time.Duration(i+1) / time.Duration(len(transports))
		out.mu.lines = append(out.mu.lines, &line{transport: t, present: &connection{}, until: c.Now().Add(life)})
	}
	return out
}

// RoundTrip implements http.RoundTripper.
func (c *connections) RoundTrip(req *http.Request) (*http.Response, error) {
	s, err := c.take(req.Context())
	if err != nil {
		if req.Body != nil {
			_ = req.Body.Close()
		}
		return nil, err
	}
	if s.next != nil {
		// net/http gives this connection no other request, and closes it with the last one in flight, in HTTP/2 as in
		// HTTP/1.1. An API server that speaks HTTP/2 gets no header about it. The caller's request stays as it is.
		closing := *req
		closing.Close = true
		req = &closing
	}
	res, err := s.line.transport.RoundTrip(req)
	c.giveBack(s, err == nil)
	return res, err
}

// stream is one request on a connection. If it is the last one on it, next is the connection that replaces it: it is
// blocked until the answer shows that net/http has taken note of that, or else its first request might still be sent on
// the old one.
type stream struct {
	line     *line
	on, next *connection
}

// take returns a stream for a request. It waits while every connection is being opened, until ctx ends.
func (c *connections) take(ctx context.Context) (stream, error) {
	for {
		s, wake := c.try()
		if wake == nil {
			return s, nil
		}
		select {
		case <-wake:
		case <-ctx.Done():
			return stream{}, ctx.Err()
		}
	}
}

// try returns a stream, or a channel that is closed when it is time to try again.
func (c *connections) try() (stream, <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.clock.Now()
	l := c.best(now)
	if l == nil {
		c.mu.waiting++
		return stream{}, c.mu.wake
	}
	s := stream{line: l, on: l.present}
	s.on.inFlight++
	s.on.used = now
	if s.on.open && now.After(l.until) {
		s.next = &connection{inFlight: 1}
		l.present = s.next
		l.until = now.Add(connectionLife)
	}
	return s, nil
}

// best returns the line for the next request: one that is to be opened and has no request in flight, or the open one
// with the fewest in flight, or one that was lost a moment ago; nil if all are being opened.
func (c *connections) best(now time.Time) *line {
	c.mu.next++
	var best, lost *line
	for i := range c.mu.lines {
		l := c.mu.lines[(c.mu.next+i)%len(c.mu.lines)]
		on := l.present
		if on.inFlight == 0 && now.Sub(on.used) > connectionIdle {
			on.open = false
		}
		switch {
		case !on.open && on.inFlight == 0 && now.Sub(l.lost) >= reopenAfter:
			return l
		case !on.open && on.inFlight == 0:
			lost = l
		case on.open && (best == nil || on.inFlight < best.present.inFlight):
			best = l
		}
	}
	return cmp.Or(best, lost)
}

// giveBack ends a stream when its answer has begun to arrive; what remains of it is short. After a request without an
// answer the connection counts as lost: one request, and not all, finds out whether that is so.
func (c *connections) giveBack(s stream, answered bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s.on.inFlight--
	s.on.open = answered
	if s.next != nil {
		s.next.inFlight--
	}
	if !answered && s.line.present == s.on {
		s.line.present = &connection{}
		s.line.lost = c.clock.Now()
	}
	if c.mu.waiting > 0 {
		c.mu.waiting = 0
		close(c.mu.wake)
		c.mu.wake = make(chan struct{})
	}
}
