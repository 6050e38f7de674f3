package serve

import (
	"context"
	"crypto/tls"
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

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/component-base/metrics/prometheus/slis"

	"github.com/berth-scheduler/berth/pkg/telemetry"
)

const (
	// shutdownTimeout bounds the wait for requests in flight when the process stops.
	shutdownTimeout = 5 * time.Second
	// pageTimeout bounds the answer to a person.
	pageTimeout = 5 * time.Second
)

// Check returns nil while the named component is healthy, and otherwise the reason why not, for people. It must return
// at once and be safe for concurrent use.
type Check func() error

// Page answers a question in words for people. about is the value of the parameter that AddPage names, empty for
// everything.
type Page func(ctx context.Context, about string) (string, error)

// Server answers health and metrics requests. Checks may be added while it runs; everything else is set before.
type Server struct {
	listener  net.Listener
	profiling bool
	tls       TLS
	identity  *identity // nil without TLS
	mux       *http.ServeMux
	// paths are those of mux, for the page that lists them.
	paths     []string
	component *Component
	reviews   *reviews // nil without --http-token-review
	timeouts  timeouts
	mu        struct {
		sync.Mutex
		// ready and live are the checks by name. No component adds one to live at present: a process answers, or it
		// does not.
		ready map[string]Check
		live  map[string]Check
	}
}

// Config configures the server.
type Config struct {
	// Address is host:port; port 0 takes a free one.
	Address string
	// Profiling also serves /debug/pprof.
	Profiling bool
	TLS       TLS
}

// Listen listens on the address and reads the certificates, so that a port in use or an invalid certificate file is
// found before anything is started.
func Listen(cfg Config) (*Server, error) {
	if err := cfg.TLS.Validate(); err != nil {
		return nil, err
	}
	// Certificates before the port: a file that is wrong must not take the port of a process that works.
	s := &Server{profiling: cfg.Profiling, tls: cfg.TLS, mux: http.NewServeMux(), timeouts: defaultTimeouts}
	if cfg.TLS.CertFile != "" {
		var err error
		if s.identity, err = cfg.TLS.load(); err != nil {
			return nil, err
		}
	}
	l, err := net.Listen("tcp", cfg.Address)
	if err != nil {
		return nil, fmt.Errorf("--http-address: %w; choose another address, or \"\" to disable it", err)
	}
	s.listener = l
	s.mu.ready, s.mu.live = map[string]Check{}, map[string]Check{}
	return s, nil
}

// Address returns the address on which the server listens, with the port that was chosen for port 0.
func (s *Server) Address() string { return s.listener.Addr().String() }

// Close releases the address if Run was never called. After Run it does nothing.
func (s *Server) Close() { _ = s.listener.Close() }

// AddReady adds a readiness check under a name, which replaces one of the same name.
func (s *Server) AddReady(name string, c Check) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.ready[name] = c
}

// Describe serves the pages that describe the process, when the server runs. It must be called before Run.
func (s *Server) Describe(c Component) { s.component = &c }

// ReviewTokens lets the API server of a configuration review bearer tokens, which TLS.TokenReview requires. It makes no
// request yet, and must be called before Run.
func (s *Server) ReviewTokens(config *rest.Config) (err error) {
	s.reviews, err = newReviews(config)
	return err
}

// AddHandler serves a path. It must be called before Run.
func (s *Server) AddHandler(path string, h http.Handler) {
	s.mux.Handle("GET "+path, h)
	s.paths = append(s.paths, path)
}

// AddPage serves a page at a path, about the value of a query parameter. It must be called before Run. An error of the
// page is answered with 503, since pages fail while their service starts or stops.
func (s *Server) AddPage(path, parameter string, page Page) {
	s.AddHandler(path, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), pageTimeout)
		defer cancel()
		text, err := page(ctx, r.URL.Query().Get(parameter))
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = io.WriteString(w, text)
	}))
}

// Run serves until ctx ends; it is called once. It returns nil when the server was stopped, and an error if it can no
// longer listen.
func (s *Server) Run(ctx context.Context) error {
	if err := s.install(); err != nil {
		return fmt.Errorf("http server: %w", err)
	}
	guarded, err := s.guard(s.mux)
	if err != nil {
		return fmt.Errorf("http server: %w", err)
	}
	srv := s.timeouts.server(guarded)
	// Without a certificate, plain HTTP.
	if s.identity == nil {
		return serveUntil(ctx, srv, func() error { return srv.Serve(s.listener) })
	}
	srv.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS13, GetConfigForClient: s.identity.config.GetConfigForClient}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return s.identity.run(ctx) })
	g.Go(func() error {
		return serveUntil(ctx, srv, func() error { return srv.ServeTLS(s.listener, "", "") })
	})
	return g.Wait()
}

// install adds the pages that every server has.
func (s *Server) install() error {
	for _, endpoint := range healthEndpoints {
		s.AddHandler("/"+endpoint, s.handle(endpoint))
	}
	s.AddHandler("/metrics", legacyregistry.Handler())
	slis.SLIMetrics{}.Install(s)
	s.AddHandler(LevelPath, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, telemetry.Level()+"\n")
	}))
	s.mux.HandleFunc("PUT "+LevelPath, s.setLevel)
	if s.profiling {
		s.AddHandler("/debug/pprof/", http.HandlerFunc(pprof.Index))
		s.AddHandler("/debug/pprof/profile", http.HandlerFunc(pprof.Profile))
		s.AddHandler("/debug/pprof/symbol", http.HandlerFunc(pprof.Symbol))
		s.AddHandler("/debug/pprof/trace", http.HandlerFunc(pprof.Trace))
	}
	if s.component == nil {
		return nil
	}
	return s.describe(*s.component)
}

// LevelPath is the path at which the log level is read and, by PUT, changed; it is kube-scheduler's.
const LevelPath = "/debug/flags/v"

// maxLevel bounds how many bytes are read of a new level.
const maxLevel = 64

// private reports whether a client may make a request that is not for all who reach the port, and answers it with 403
// if not. With client certificates or reviews, guard lets only those through who may. Without them, only clients on
// this machine may.
func (s *Server) private(w http.ResponseWriter, r *http.Request) bool {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if ip := net.ParseIP(host); s.guards() || err == nil && ip != nil && ip.IsLoopback() {
		return true
	}
	http.Error(w, "allowed only from this machine, or with --http-client-ca-file or --http-token-review",
		http.StatusForbidden)
	return false
}

// setLevel changes the log level. Not every client that reaches the port may: it could make the log useless.
func (s *Server) setLevel(w http.ResponseWriter, r *http.Request) {
	if !s.private(w, r) {
		return
	}
	text, err := io.ReadAll(io.LimitReader(r.Body, maxLevel))
	if err == nil {
		err = telemetry.SetLevel(string(text))
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	_, _ = io.WriteString(w, "log level is "+telemetry.Level()+"\n")
}

// serveUntil serves until ctx ends, then lets requests in flight finish.
func serveUntil(ctx context.Context, srv *http.Server, serve func() error) error {
	stop := context.AfterFunc(ctx, func() {
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
		defer cancel()
		_ = srv.Shutdown(end) // the listener is closed either way
	})
	defer stop()
	if err := serve(); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("http server: %w", err)
	}
	return nil
}

// checks returns a copy of the live checks, with those of readiness if requested, so that no check runs under the
// lock.
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

// handle answers with "ok", with all checks if one fails or ?verbose is given, and with the status 503 if one fails.
// The format is that of Kubernetes' components. endpoint is one of healthEndpoints.
func (s *Server) handle(endpoint string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		text, ok := report(s.checks(endpoint == readyz), func(check string, err error) {
			observe(r, endpoint, check, err)
		})
		if !ok {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		if _, verbose := r.URL.Query()["verbose"]; ok && !verbose {
			text = "ok"
		}
		_, _ = io.WriteString(w, text)
	}
}

// report runs checks and returns one line for each, by name, and whether all passed:
//
//	[+]ledger (etcd) ok
//	[-]log (NATS) failed: missing for 12s: …
//	[+]ping ok
//
// outcome is called with that of each check.
func report(checks map[string]Check, outcome func(check string, err error)) (text string, ok bool) {
	// In the order of names, so that two answers can be compared.
	names := make([]string, 0, len(checks))
	for n := range checks {
		names = append(names, n)
	}
	sort.Strings(names)
	var b strings.Builder
	ok = true
	for _, n := range names {
		err := checks[n]()
		outcome(n, err)
		if err != nil {
			ok = false
			fmt.Fprintf(&b, "[-]%s failed: %v\n", n, err)
			continue
		}
		fmt.Fprintf(&b, "[+]%s ok\n", n)
	}
	return b.String(), ok
}
