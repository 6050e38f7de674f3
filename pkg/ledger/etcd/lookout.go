package etcd

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	// probeEvery spaces the probes of a server, answerWithin is how long an answer may take at first. Together with
	// the half second after which the client reopens a broken stream, they are less than the remaining time of a
	// session that a hanging server kept alive: two thirds of 4 s.
	probeEvery   = 500 * time.Millisecond
	answerWithin = time.Second
	// A server that was left and answers again within falseAlarm was busy rather than gone. From then on its
	// answers may take twice as long, up to maxDoubling times answerWithin, until calmFor has passed without
	// another false alarm.
	falseAlarm  = time.Minute
	maxDoubling = 8
	calmFor     = 5 * time.Minute
	// promptly is the divisor of answerWithin within which a server that is not busy answers. It also bounds by how
	// much this process may be late itself: when this process is busy, silence proves nothing about a server.
	promptly = 4
	// maxVersion bounds what is read of an answer, in bytes; etcd's has some 50.
	maxVersion = 4096
)

// lookout finds servers that hang, or whose network delivers nothing, and disconnects the client from them. gRPC
// does so after 13 s at the earliest: it does not ping more often than every 10 s, and servers refuse pings more
// often than every 5 s. Until then watches would be silent, and sessions would expire.
//
// A server is silent when it does not answer in time and another one, asked later, does so promptly: where no
// server answers, or all are slow, there is no better server to use. The connections of a silent server are closed,
// and new ones refused until it answers again. A refusal counts as an answer: the client itself handles servers
// that are gone. The probe asks for the version, which every server returns without a lookup. Leaving a server that
// is merely busy costs a reconnection, so after one such mistake the lookout is more patient with that server.
//
// It is safe for concurrent use.
type lookout struct {
	servers []*server
	http    *http.Client
	// onSilence is called for servers that fall silent, and that answer again; back is called for the latter only.
	onSilence                func(server string, silent bool)
	onAnswer                 func()
	probeEvery, answerWithin time.Duration
	cancel                   context.CancelFunc
	group                    *errgroup.Group
}

// server is one endpoint.
type server struct {
	// address is dialled, url is probed.
	address, url string
	mu           struct {
		sync.Mutex
		conns  map[*watchedConn]struct{}
		silent bool
		// prompt is when it last answered promptly, left when it was last left, alarmed when leaving it last turned
		// out to be a false alarm; within is how long its answers may take.
		prompt, left, alarmed time.Time
		within                time.Duration
	}
}

// errSilent explains why a server is not dialled.
var errSilent = errors.New("the server does not answer")

// newLookout returns nil where there is no other server to use: with a single endpoint, or with one in this
// machine's file system.
func newLookout(endpoints []string, config *tls.Config, tell func(string, bool)) *lookout {
	if tell == nil {
		tell = func(string, bool) {}
	}
	l := &lookout{
		http:      &http.Client{Transport: &http.Transport{TLSClientConfig: config, MaxIdleConnsPerHost: 1}},
		onSilence: tell, onAnswer: func() {}, probeEvery: probeEvery, answerWithin: answerWithin,
	}
	scheme := "http"
	if config != nil {
		scheme = "https"
	}
	for _, endpoint := range endpoints {
		kind, address, found := strings.Cut(endpoint, "://")
		if !found {
			kind, address = scheme, endpoint
		}
		if kind != "http" && kind != "https" {
			return nil
		}
		one := &server{address: address, url: kind + "://" + address + "/version"}
		one.mu.conns = map[*watchedConn]struct{}{}
		l.servers = append(l.servers, one)
	}
	if len(l.servers) < 2 {
		return nil
	}
	return l
}

// run probes until stop; back is called each time that a server answers again.
func (l *lookout) run(ctx context.Context, back func()) {
	ctx, l.cancel = context.WithCancel(ctx)
	l.onAnswer, l.group = back, &errgroup.Group{}
	for _, one := range l.servers {
		l.group.Go(func() error { return l.probe(ctx, one) })
	}
}

// stop ends all probes. Connections stay as they are.
func (l *lookout) stop() error {
	l.cancel()
	err := l.group.Wait()
	l.http.CloseIdleConnections()
	return err
}

// probe probes one server repeatedly.
func (l *lookout) probe(ctx context.Context, s *server) error {
	tick := time.NewTicker(l.probeEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		asked, within := time.Now(), s.patience(l.answerWithin)
		answers := l.answers(ctx, s, within)
		took := time.Since(asked)
		busy := took > within+l.answerWithin/promptly // this process: it was woken late
		switch {
		case ctx.Err() != nil:
			return nil
		case answers && s.recordAnswer(asked, took, l.answerWithin):
			l.onSilence(s.address, false)
			l.onAnswer()
		case !answers && !busy && l.anotherAnswers(s, asked) && s.disconnect():
			l.onSilence(s.address, true)
		}
	}
}

// answers probes once. Only silence counts as no answer.
func (l *lookout) answers(ctx context.Context, s *server, within time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url, nil)
	if err != nil {
		return true // not an address that can be probed; the client reports it
	}
	resp, err := l.http.Do(req)
	if err == nil {
		// Only the fact that there is an answer matters; the body is read so that the connection can be reused.
		_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, maxVersion))
		_ = resp.Body.Close()
	}
	return err == nil || ctx.Err() == nil
}

// anotherAnswers reports whether another server has answered promptly since.
func (l *lookout) anotherAnswers(than *server, since time.Time) bool {
	for _, s := range l.servers {
		if s != than && s.promptSince(since) {
			return true
		}
	}
	return false
}

// promptSince reports whether the server has answered promptly after t.
func (s *server) promptSince(t time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.prompt.After(t)
}

// patience returns how long an answer may take.
func (s *server) patience(first time.Duration) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.within == 0 || time.Since(s.mu.alarmed) > calmFor {
		s.mu.within = first
	}
	return s.mu.within
}

// recordAnswer records an answer to a probe, and reports whether the server was silent before.
func (s *server) recordAnswer(asked time.Time, took, first time.Duration) (wasSilent bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := asked.Add(took)
	if took < first/promptly {
		s.mu.prompt = now
	}
	wasSilent, s.mu.silent = s.mu.silent, false
	if wasSilent && now.Sub(s.mu.left) < falseAlarm {
		s.mu.alarmed, s.mu.within = now, min(2*s.mu.within, maxDoubling*first)
	}
	return wasSilent
}

// disconnect closes every connection to a server, and reports whether it answered before.
func (s *server) disconnect() (answered bool) {
	s.mu.Lock()
	if answered = !s.mu.silent; answered {
		s.mu.silent, s.mu.left = true, time.Now()
	}
	conns := s.mu.conns
	s.mu.conns = map[*watchedConn]struct{}{}
	s.mu.Unlock()
	for conn := range conns {
		_ = conn.Conn.Close() // its reader gets an error
	}
	return answered
}

// dial connects the client to a server, unless that server is silent.
func (l *lookout) dial(ctx context.Context, address string) (net.Conn, error) {
	var s *server
	for _, one := range l.servers {
		if one.address == address {
			s = one
		}
	}
	if s != nil && !s.answering() {
		return nil, fmt.Errorf("etcd: %s: %w", address, errSilent)
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil || s == nil {
		return conn, err
	}
	watched := &watchedConn{Conn: conn, server: s}
	s.mu.Lock()
	s.mu.conns[watched] = struct{}{}
	s.mu.Unlock()
	return watched, nil
}

// answering reports whether the server is not silent.
func (s *server) answering() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.mu.silent
}

// watchedConn is a connection that is listed with its server.
type watchedConn struct {
	net.Conn
	server *server
}

// Close implements net.Conn.
func (c *watchedConn) Close() error {
	c.server.mu.Lock()
	delete(c.server.mu.conns, c)
	c.server.mu.Unlock()
	return c.Conn.Close()
}
