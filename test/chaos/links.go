package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"

	toxiproxy "github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"
	"k8s.io/client-go/tools/clientcmd"
)

// proxySet is the proxies that all connections of the services go through: one for each service and
// each server it talks to.
type proxySet struct {
	server  *toxiproxy.ApiServer
	proxies map[string][]*toxiproxy.Proxy // by service and link, "binder-0 api"
}

func newProxySet() *proxySet {
	return &proxySet{
		server:  toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop()),
		proxies: map[string][]*toxiproxy.Proxy{},
	}
}

// add puts a proxy between a service and an address, and returns the proxy's.
func (w *proxySet) add(service, link, upstream string) (string, error) {
	key := service + " " + link
	p := toxiproxy.NewProxy(w.server, fmt.Sprintf("%s %d", key, len(w.proxies[key])), "127.0.0.1:0", upstream)
	if err := p.Start(); err != nil {
		return "", fmt.Errorf("proxy from %s to %s: %w", service, upstream, err)
	}
	w.proxies[key] = append(w.proxies[key], p)
	return p.Listen, nil
}

// addAll puts proxies in front of URLs and returns URLs of them, separated by commas.
func (w *proxySet) addAll(service, link string, urls []string) (string, error) {
	var out []string
	for _, text := range urls {
		u, err := url.Parse(text)
		if err != nil {
			return "", err
		}
		if u.Host, err = w.add(service, link, u.Host); err != nil {
			return "", err
		}
		out = append(out, u.String())
	}
	return strings.Join(out, ","), nil
}

// kubeconfig writes a copy of a kubeconfig whose server is a proxy of the service's.
func (w *proxySet) kubeconfig(service, original, path string) error {
	config, err := clientcmd.LoadFromFile(original)
	if err != nil {
		return err
	}
	for _, c := range config.Clusters {
		if c.Server, err = w.addAll(service, "api", []string{c.Server}); err != nil {
			return err
		}
	}
	return clientcmd.WriteToFile(*config, path)
}

// toxic is a request of toxiproxy's API.
type toxic struct {
	Name       string         `json:"name"`
	Type       string         `json:"type"`
	Stream     string         `json:"stream"`
	Attributes map[string]any `json:"attributes"`
}

// toxics of each kind of fault: timeout with 0 swallows everything and keeps the connection. (A proxy is never
// stopped to cut a link: another process may get its port in the meantime.)
var toxics = map[faultKind][]toxic{
	cut: {
		{Type: "reset_peer", Stream: "upstream", Attributes: map[string]any{"timeout": 0}},
		{Type: "reset_peer", Stream: "downstream", Attributes: map[string]any{"timeout": 0}},
	},
	swallow: {
		{Type: "timeout", Stream: "upstream", Attributes: map[string]any{"timeout": 0}},
		{Type: "timeout", Stream: "downstream", Attributes: map[string]any{"timeout": 0}},
	},
	loseAnswer: {{Type: "timeout", Stream: "downstream", Attributes: map[string]any{"timeout": 0}}},
	slow:       {{Type: "latency", Stream: "downstream", Attributes: map[string]any{"latency": 700, "jitter": 600}}},
}

// breakLink breaks a service's link.
func (w *proxySet) breakLink(f fault) error {
	for _, p := range w.proxies[f.target+" "+f.link] {
		for _, t := range toxics[f.kind] {
			t.Name = f.toxic(t)
			text, err := json.Marshal(t)
			if err != nil {
				return err
			}
			if _, err := p.Toxics.AddToxicJson(strings.NewReader(string(text))); err != nil {
				return fmt.Errorf("%s: %w", f, err)
			}
		}
	}
	return nil
}

// repairLink ends a fault that breakLink began. It closes connections that swallowed data: the data is lost, as when a
// network comes back after a time-out.
func (w *proxySet) repairLink(ctx context.Context, f fault) error {
	for _, p := range w.proxies[f.target+" "+f.link] {
		for _, t := range toxics[f.kind] {
			if err := p.Toxics.RemoveToxic(ctx, f.toxic(t)); err != nil {
				return fmt.Errorf("%s: %w", f, err)
			}
		}
	}
	return nil
}

// toxic is the name of one of the fault's toxics: faults of one link may overlap.
func (f fault) toxic(t toxic) string { return fmt.Sprintf("%s %s", f.begin, t.Stream) }

func (w *proxySet) close() {
	for _, all := range w.proxies {
		for _, p := range all {
			p.Stop()
		}
	}
}

// serviceOf is the kind of service that a process is.
func serviceOf(name string) string {
	kind, _, _ := strings.Cut(name, "-")
	return kind
}
