package nodeuse

import (
	"context"
	"encoding/pem"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/grafana/regexp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/route"
	"github.com/prometheus/prometheus/config"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/tsdb"
	apiv1 "github.com/prometheus/prometheus/web/api/v1"
)

const (
	// token is the token that the server requires; Prometheus leaves that to a proxy in front of it.
	token = "let-me-in"
	// maxSamples bounds the samples that one query may load.
	maxSamples = 5000
	// scrapeInterval and scraped: how often, and for how long up to now, nodes were scraped.
	scrapeInterval = 15 * time.Second
	scraped        = 10 * time.Minute
)

// server is a Prometheus for a test.
type server struct {
	url string
	// tokenFile and caFile are the files that a client needs to be served.
	tokenFile, caFile string
	db                *tsdb.DB
}

func newServer(t *testing.T) *server {
	t.Helper()
	dir := t.TempDir()
	db, err := tsdb.Open(filepath.Join(dir, "data"), slog.New(slog.DiscardHandler), nil, tsdb.DefaultOptions(), nil)
	if err != nil {
		t.Fatal(err)
	}
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: maxSamples, Timeout: 10 * time.Second})
	s := &server{db: db, tokenFile: filepath.Join(dir, "token"), caFile: filepath.Join(dir, "ca.crt")}
	router := route.New()
	newAPI(engine, db).Register(router.WithPrefix("/api/v1"))
	listener := httptest.NewUnstartedServer(guarded(router))
	listener.Config.ErrorLog = log.New(io.Discard, "", 0) // clients that do not trust it are part of the test
	listener.StartTLS()
	t.Cleanup(func() {
		listener.Close()
		if err := engine.Close(); err != nil {
			t.Error(err)
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	s.url = listener.URL
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: listener.Certificate().Raw})
	write(t, s.caFile, ca)
	write(t, s.tokenFile, []byte(token+"\n"))
	return s
}

// newAPI is Prometheus' HTTP API on a storage, without what it needs scraping or rules for.
func newAPI(engine promql.QueryEngine, db *tsdb.DB) *apiv1.API {
	ready := func(f http.HandlerFunc) http.HandlerFunc { return f }
	return apiv1.NewAPI(
		engine, db, nil, db,
		func(context.Context) apiv1.ScrapePoolsRetriever { return nil },
		func(context.Context) apiv1.TargetRetriever { return nil },
		func(context.Context) apiv1.AlertmanagerRetriever { return nil },
		func() config.Config { return config.DefaultConfig },
		nil, apiv1.GlobalURLOptions{}, ready, nil, "", false, slog.New(slog.DiscardHandler),
		func(context.Context) apiv1.RulesRetriever { return nil },
		0, 0, 0, false, regexp.MustCompile(".*"),
		func() (apiv1.RuntimeInfo, error) { return apiv1.RuntimeInfo{}, nil },
		&apiv1.PrometheusVersion{}, nil, nil, prometheus.NewRegistry(), prometheus.NewRegistry(), nil,
		false, nil, false, false, false, false, 0, false, false, nil,
	)
}

// guarded lets in who shows the token.
func guarded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+token {
			http.Error(w, "Unauthorized", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func write(t *testing.T, file string, data []byte) {
	t.Helper()
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// scrape stores what a node exporter counts on a node of two processors that has been busy to
// this part, up to a time.
func (s *server) scrape(t *testing.T, node string, busy float64, until time.Time) {
	t.Helper()
	app := s.db.Appender(t.Context())
	add := func(at time.Time, cpu, mode string, value float64) {
		ls := labels.FromStrings(labels.MetricName, "node_cpu_seconds_total",
			"instance", node+":9100", "job", "node-exporter", "cpu", cpu, "mode", mode)
		if _, err := app.Append(0, ls, at.UnixMilli(), value); err != nil {
			t.Fatal(err)
		}
	}
	for at := until.Add(-scraped); !at.After(until); at = at.Add(scrapeInterval) {
		seconds := at.Sub(until.Add(-scraped)).Seconds()
		for _, cpu := range []string{"0", "1"} {
			add(at, cpu, "idle", seconds*(1-busy))
			add(at, cpu, "user", seconds*busy)
		}
	}
	if err := app.Commit(); err != nil {
		t.Fatal(err)
	}
}
