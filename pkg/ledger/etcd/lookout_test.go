package etcd

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// hanging is a server that answers or hangs, as set.
type hanging struct {
	*httptest.Server
	hangs atomic.Bool
	asked chan struct{}
}

func newHanging(t *testing.T) *hanging {
	h := &hanging{asked: make(chan struct{}, 1)}
	h.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case h.asked <- struct{}{}:
		default:
		}
		if h.hangs.Load() {
			<-r.Context().Done()
		}
	}))
	t.Cleanup(h.Close)
	return h
}

func (h *hanging) address() string { return strings.TrimPrefix(h.URL, "http://") }

// dialled opens a connection to a server; closed reports when it is closed on either side.
func dialled(t *testing.T, l *lookout, address string) (closed <-chan error) {
	t.Helper()
	conn, err := l.dial(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() }) // possibly closed twice by then
	ended := make(chan error, 1)
	go func() {
		_, err := conn.Read(make([]byte, 1))
		ended <- err
	}()
	return ended
}

func startLookout(t *testing.T, servers ...*hanging) (*lookout, <-chan struct{}) {
	t.Helper()
	var endpoints []string
	for _, s := range servers {
		endpoints = append(endpoints, s.URL)
	}
	l := newLookout(endpoints, nil, nil)
	l.probeEvery, l.answerWithin = 20*time.Millisecond, 200*time.Millisecond
	back := make(chan struct{}, 1)
	l.run(t.Context(), func() { back <- struct{}{} })
	t.Cleanup(func() {
		if err := l.stop(); err != nil {
			t.Error(err)
		}
	})
	return l, back
}

func TestSilentServersAreLeft(t *testing.T) {
	good, bad := newHanging(t), newHanging(t)
	l, back := startLookout(t, good, bad)
	toGood, toBad := dialled(t, l, good.address()), dialled(t, l, bad.address())
	bad.hangs.Store(true)
	if err := <-toBad; !errors.Is(err, net.ErrClosed) {
		t.Errorf("the connection to the silent server ended with %v, want %v", err, net.ErrClosed)
	}
	if _, err := l.dial(t.Context(), bad.address()); !errors.Is(err, errSilent) {
		t.Errorf("dialled again: %v, want %v", err, errSilent)
	}
	bad.hangs.Store(false)
	<-back
	if got, want := l.servers[1].patience(l.answerWithin), 2*l.answerWithin; got != want {
		t.Errorf("after a false alarm its answers may take %s, want %s", got, want)
	}
	again := dialled(t, l, bad.address())
	select {
	case err := <-toGood:
		t.Errorf("the connection to the other server ended: %v", err)
	case err := <-again:
		t.Errorf("the connection to the server that is back ended: %v", err)
	default:
	}
}

func TestServersAreKeptWhereAllAreSilent(t *testing.T) {
	a, b := newHanging(t), newHanging(t)
	a.hangs.Store(true)
	b.hangs.Store(true)
	l, _ := startLookout(t, a, b)
	toA, toB := dialled(t, l, a.address()), dialled(t, l, b.address())
	for range 3 { // a server that is asked a third time has left two questions unanswered
		<-a.asked
		<-b.asked
	}
	select {
	case err := <-toA:
		t.Errorf("a was left: %v", err)
	case err := <-toB:
		t.Errorf("b was left: %v", err)
	default:
	}
}

// A server that refuses connections is gone, and not silent: the client handles that.
func TestRefusalsAreAnswers(t *testing.T) {
	good, gone := newHanging(t), newHanging(t)
	gone.Close()
	l, _ := startLookout(t, good, gone)
	<-good.asked
	<-good.asked
	if !l.servers[1].answering() {
		t.Error("a server that is gone is taken for silent")
	}
	if _, err := l.dial(t.Context(), gone.address()); err == nil || errors.Is(err, errSilent) {
		t.Errorf("dialled: %v, want the system's own refusal", err)
	}
}

func TestLookoutNeedsSeveralServers(t *testing.T) {
	for _, endpoints := range [][]string{{"http://a:1"}, {"unix:///a", "unix:///b"}, {"a:1"}} {
		if newLookout(endpoints, nil, nil) != nil {
			t.Errorf("%v has a lookout", endpoints)
		}
	}
	if newLookout([]string{"a:1", "http://b:2"}, nil, nil) == nil {
		t.Error("two endpoints have none")
	}
	_, err := (&lookout{}).dial(canceled(t), "127.0.0.1:1")
	if !errors.Is(err, context.Canceled) {
		t.Errorf("dialled with a context that has ended: %v", err)
	}
}

func canceled(t *testing.T) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}
