package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/pprof"
	"sort"
	"strings"
	"sync"
	"time"

	"k8s.io/component-base/metrics/legacyregistry"
)

const (
	readHeaderTimeout = 5 * time.Second
	shutdownTimeout   = 5 * time.Second
	// pageTimeout bounds the answer to a person.
	pageTimeout = 5 * time.Second
)

// Check reports nil when the named thing is well.
type Check func() error

// Page answers a question in words for people. About what it is asked is in the parameter
// that AddPage names, empty for everything.
type Page func(ctx context.Context, about string) (string, error)

// Server answers health and metrics requests. Checks may be added while it runs.
type Server struct {
	listener  net.Listener
	profiling bool
	mux       *http.ServeMux
	mu        struct {
		sync.Mutex
		ready map[string]Check
		live  map[string]Check
	}
}

// Listen takes the address, so that a port in use is found before anything is started.
// With profiling, /debug/pprof is served too.
func Listen(address string, profiling bool) (*Server, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("--http-address: %w; choose another address, or \"\" for none", err)
	}
	s := &Server{listener: l, profiling: profiling, mux: http.NewServeMux()}
	s.mu.ready, s.mu.live = map[string]Check{}, map[string]Check{}
	return s, nil
}

// Address is where the server listens.
func (s *Server) Address() string { return s.listener.Addr().String() }

// Close gives the address back if Run was never called.
func (s *Server) Close() { _ = s.listener.Close() }

// AddReady adds a readiness check.
func (s *Server) AddReady(name string, c Check) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.ready[name] = c
}

// AddPage serves a page at a path, before Run.
func (s *Server) AddPage(path, parameter string, page Page) {
	s.mux.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), pageTimeout)
		defer cancel()
		text, err := page(ctx, r.URL.Query().Get(parameter))
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = io.WriteString(w, text)
	})
}

// Run serves until ctx ends.
func (s *Server) Run(ctx context.Context) error {
	mux := s.mux
	mux.HandleFunc("GET /healthz", s.handle(func() map[string]Check { return s.checks(false) }))
	mux.HandleFunc("GET /livez", s.handle(func() map[string]Check { return s.checks(false) }))
	mux.HandleFunc("GET /readyz", s.handle(func() map[string]Check { return s.checks(true) }))
	mux.Handle("GET /metrics", legacyregistry.Handler())
	if s.profiling {
		mux.HandleFunc("GET /debug/pprof/", pprof.Index)
		mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
		mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	}
	srv := &http.Server{Handler: mux, ReadHeaderTimeout: readHeaderTimeout}
	stop := context.AfterFunc(ctx, func() {
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
		defer cancel()
		_ = srv.Shutdown(end) // the listener is closed either way
	})
	defer stop()
	if err := srv.Serve(s.listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("http server: %w", err)
	}
	return nil
}

func (s *Server) checks(ready bool) map[string]Check {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := map[string]Check{"ping": func() error { return nil }}
	for n, c := range s.mu.live {
		all[n] = c
	}
	if ready {
		for n, c := range s.mu.ready {
			all[n] = c
		}
	}
	return all
}

func (s *Server) handle(checks func() map[string]Check) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		text, ok := report(checks())
		if !ok {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		if _, verbose := r.URL.Query()["verbose"]; ok && !verbose {
			text = "ok"
		}
		_, _ = io.WriteString(w, text)
	}
}

func report(checks map[string]Check) (text string, ok bool) {
	names := make([]string, 0, len(checks))
	for n := range checks {
		names = append(names, n)
	}
	sort.Strings(names)
	var b strings.Builder
	ok = true
	for _, n := range names {
		if err := checks[n](); err != nil {
			ok = false
			fmt.Fprintf(&b, "[-]%s failed: %v\n", n, err)
			continue
		}
		fmt.Fprintf(&b, "[+]%s ok\n", n)
	}
	return b.String(), ok
}
