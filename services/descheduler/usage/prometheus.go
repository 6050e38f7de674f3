package usage

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/prometheus/client_golang/api"
	promv1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"

	"github.com/berth-scheduler/berth/pkg/descheduling"
	"github.com/berth-scheduler/berth/pkg/descheduling/policy"
)

const (
	// queryTimeout bounds one query: a cycle waits for it.
	queryTimeout = 30 * time.Second
	// instance is the label whose value is the name of a node (as in upstream).
	instance = "instance"
)

// Config configures the connection to Prometheus; its address is in the policy. The files are read for every cycle,
// so that renewed ones are used.
type Config struct {
	// TokenFile holds a bearer token; if empty, none is sent.
	TokenFile string
	// CAFile holds the certificates (PEM) to trust; if empty, the system's are used.
	CAFile string
	// longest is the largest allowed size of an answer in bytes; 0 means maxAnswer.
	longest int64
}

// Read sends every query of the policy, for the time now. Failures are in Failed, by query: one that fails does not
// keep the others from being sent. Without queries it does not connect.
func Read(ctx context.Context, cfg Config, p *policy.Policy, now time.Time) descheduling.Usage {
	out := descheduling.Usage{Queries: map[string]map[string]float64{}, Failed: map[string]error{}}
	queries := queriesOf(p)
	if len(queries) == 0 {
		return out
	}
	client, err := connect(cfg, p)
	for _, query := range queries {
		if err != nil {
			out.Failed[query] = err
			continue
		}
		values, err := ask(ctx, client, query, now)
		if err != nil {
			out.Failed[query] = fmt.Errorf("prometheus query %q: %w", query, err)
			continue
		}
		out.Queries[query] = values
	}
	return out
}

// queriesOf lists the queries of a policy, each once, in order.
func queriesOf(p *policy.Policy) []string {
	var all []string
	seen := map[string]bool{}
	for i := range p.Profiles {
		for _, s := range p.Profiles[i].Balance {
			args, ok := s.Args.(*policy.LowUtilization)
			if ok && args.Source == policy.PrometheusMetrics && !seen[args.Query] {
				seen[args.Query] = true
				all = append(all, args.Query)
			}
		}
	}
	return all
}

// connect makes a client for one cycle. The token comes from a file only: a policy that names a Secret and no file
// is an error that explains how to mount it.
func connect(cfg Config, p *policy.Policy) (promv1.API, error) {
	provider, ok := providerOf(p)
	if !ok {
		return nil, errors.New("metricsProviders: no Prometheus: want an entry with source Prometheus and its url")
	}
	token := ""
	switch s := provider.TokenSecret; {
	case cfg.TokenFile != "":
		raw, err := os.ReadFile(cfg.TokenFile)
		if err != nil {
			return nil, fmt.Errorf("--prometheus-token-file: %w", err)
		}
		if token = strings.TrimSpace(string(raw)); token == "" {
			return nil, fmt.Errorf("--prometheus-token-file: %s: empty: want a token", cfg.TokenFile)
		}
	case s != nil:
		return nil, fmt.Errorf("authToken: secret %s/%s: the descheduler does not read Secrets: mount its key "+
			"prometheusAuthToken as a file and set --prometheus-token-file to it", s.Namespace, s.Name)
	}
	transport, err := transportOf(cfg.CAFile)
	if err != nil {
		return nil, err
	}
	limited := bounded{transport, cmp.Or(cfg.longest, maxAnswer)}
	client, err := api.NewClient(api.Config{Address: provider.URL, RoundTripper: bearer{token, limited}})
	if err != nil {
		return nil, fmt.Errorf("metricsProviders: prometheus url %q: %w", provider.URL, err)
	}
	return promv1.NewAPI(client), nil
}

// providerOf returns the policy's Prometheus, of which there is at most one.
func providerOf(p *policy.Policy) (policy.MetricsProvider, bool) {
	for _, m := range p.Metrics {
		if m.Source == policy.PrometheusMetrics {
			return m, true
		}
	}
	return policy.MetricsProvider{}, false
}

// transportOf returns a transport for one cycle, which keeps no connection beyond it. The environment's proxy is
// used unless NO_PROXY excludes the server.
func transportOf(caFile string) (http.RoundTripper, error) {
	t := &http.Transport{Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true}
	if caFile == "" {
		return t, nil
	}
	pem, err := os.ReadFile(caFile)
	if err != nil {
		return nil, fmt.Errorf("--prometheus-ca-file: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("--prometheus-ca-file: %s: no certificate found: want PEM", caFile)
	}
	t.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	return t, nil
}

// bearer adds a token to requests, if there is one. It must not change the request that it is given
// (http.RoundTripper).
type bearer struct {
	token string
	next  http.RoundTripper
}

// RoundTrip sends a copy of the request with the token.
func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	if b.token != "" {
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", "Bearer "+b.token)
	}
	return b.next.RoundTrip(r)
}

// maxAnswer bounds an answer, in bytes. A sample takes about 200, so the bound allows for more nodes than a cluster
// has.
const maxAnswer = 64 << 20

// bounded makes reading a longer answer fail.
type bounded struct {
	next    http.RoundTripper
	longest int64
}

// RoundTrip limits the body of the answer. A body that is too long fails while it is read.
func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := b.next.RoundTrip(r)
	if err == nil {
		resp.Body = http.MaxBytesReader(nil, resp.Body, b.longest)
	}
	return resp, err
}

// ask sends one query, and returns the value of each node. The samples of a vector have no defined order, so with
// two samples for one node either could come last; that is an error.
func ask(ctx context.Context, client promv1.API, query string, now time.Time) (map[string]float64, error) {
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	result, _, err := client.Query(ctx, query, now)
	if err != nil {
		return nil, err
	}
	vector, ok := result.(model.Vector)
	if !ok {
		return nil, fmt.Errorf("result is a %s: want an instant vector", result.Type())
	}
	values := make(map[string]float64, len(vector))
	for _, sample := range vector {
		node, ok := sample.Metric[instance]
		if !ok {
			return nil, fmt.Errorf("sample %s: no label %q: want a label with the node name", sample.Metric, instance)
		}
		if _, twice := values[string(node)]; twice {
			return nil, fmt.Errorf("more than one sample for %q: want one for each node, such as with avg by (%s)",
				node, instance)
		}
		values[string(node)] = float64(sample.Value)
	}
	return values, nil
}
