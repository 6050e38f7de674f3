package serve

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"
)

const (
	// shortTimeout replaces the bound under test, and never the other bounds: no test reaches it.
	shortTimeout = 50 * time.Millisecond
	never        = time.Hour
	// enough is when a test gives up.
	enough = 30 * time.Second
)

// listening returns a server with some patience; run runs it.
func listening(t *testing.T, p timeouts) *Server {
	t.Helper()
	s, err := Listen(Config{Address: "127.0.0.1:0", Profiling: true})
	if err != nil {
		t.Fatal(err)
	}
	s.timeouts = p
	return s
}

func run(t *testing.T, s *Server) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Errorf("run: %v", err)
		}
	})
}

// response returns the server's bytes to a client that sends some text and then waits until the server disconnects.
func response(t *testing.T, s *Server, text string) string {
	t.Helper()
	conn, err := net.Dial("tcp", s.Address())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close() //nolint:errcheck // the server has closed it
	if err := conn.SetDeadline(time.Now().Add(enough)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(conn)
	if err != nil {
		t.Errorf("%q: %v, want the connection to be closed by the server", text, err)
	}
	return string(answer)
}

// A client that stops in the middle of a request, or sends no next one, is disconnected, whichever bound applies.
func TestSlowClientsAreDisconnected(t *testing.T) {
	const put = "PUT " + LevelPath + " HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nin"
	for name, c := range map[string]struct {
		patience   timeouts
		text, want string
	}{
		"half a header": {
			timeouts{header: shortTimeout, request: never, answer: never, idle: never}, "GET /livez HTTP/1.1\r\nHost: x\r\n", "",
		},
		"half a body": {
			timeouts{header: never, request: shortTimeout, answer: never, idle: never}, put, "i/o timeout",
		},
		"no next request": {
			timeouts{header: never, request: never, answer: never, idle: shortTimeout},
			"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n", "200 OK",
		},
		"an endless header": {
			timeouts{header: never, request: never, answer: never, idle: shortTimeout},
			"GET /livez HTTP/1.1\r\nHost: " + strings.Repeat("x", 2*maxHeaderBytes) + "\r\n\r\n", "431",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := listening(t, c.patience)
			run(t, s)
			if got := response(t, s, c.text); !strings.Contains(got, c.want) {
				t.Errorf("answer %q, want %q in it", got, c.want)
			}
		})
	}
}

// A client that does not read its answer is disconnected as well.
func TestUnreadAnswersEnd(t *testing.T) {
	s := listening(t, timeouts{header: never, request: never, answer: shortTimeout, idle: never})
	gaveUp := make(chan error, 1)
	s.AddHandler("/long", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		var err error
		for part := make([]byte, 1<<20); err == nil; {
			_, err = w.Write(part)
		}
		gaveUp <- err
	}))
	run(t, s)
	conn, err := net.Dial("tcp", s.Address())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close() //nolint:errcheck // the server has closed it
	if _, err := io.WriteString(conn, "GET /long HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-gaveUp:
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("writing ended with %v, want %v", err, os.ErrDeadlineExceeded)
		}
	case <-time.After(enough):
		t.Error("the server still waits for a client that reads nothing")
	}
}

// A profile may take as long as requested, whatever the bounds.
func TestProfilesAreNotCutOff(t *testing.T) {
	const long = 1200 * time.Millisecond
	s := listening(t, timeouts{header: never, request: shortTimeout, answer: time.Second, idle: never})
	run(t, s)
	begun := time.Now()
	response, err := http.Get("http://" + s.Address() + "/debug/pprof/trace?seconds=1.2")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close() //nolint:errcheck // read to the end
	trace, err := io.ReadAll(response.Body)
	if took := time.Since(begun); err != nil || response.StatusCode != http.StatusOK || took < long || len(trace) == 0 {
		t.Errorf("%s after %s with %d bytes, %v: want a trace of %s", response.Status, took, len(trace), err, long)
	}
}
