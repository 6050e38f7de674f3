package serve

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	schedulerv1 "k8s.io/kube-scheduler/config/v1"
	"k8s.io/utils/ptr"
)

// TestProcessIsDescribed: the pages of Kubernetes' components, as text and where upstream has it as JSON, and the
// results of checks as metrics.
func TestProcessIsDescribed(t *testing.T) {
	flags := pflag.NewFlagSet("run", pflag.ContinueOnError)
	flags.String("log-level", "info", "")
	flags.String("nats-url", "nats://user:secret@host", "")
	flags.String("leader-elect", "true", "")
	_ = flags.MarkHidden("leader-elect")
	_ = flags.SetAnnotation("nats-url", "classified", []string{"true"})
	config := &schedulerv1.KubeSchedulerConfiguration{Parallelism: ptr.To(int32(4))}
	config.APIVersion, config.Kind = "kubescheduler.config.k8s.io/v1", "KubeSchedulerConfiguration"
	s := listening(t, defaultTimeouts)
	s.AddReady("queue", func() error { return errors.New("not yet") })
	s.AddHandler("/queue", http.NotFoundHandler())
	s.Describe(Component{Name: "berth-scheduler", Version: "v1.2.3-4-gabc", Flags: flags, Configuration: config})
	run(t, s)
	get := func(path, accept string) string {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+s.Address()+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Accept", accept)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close() //nolint:errcheck // read to the end
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(body)
	}
	get("/readyz", "")
	const structured = "application/json;v=v1beta1;g=config.k8s.io;as="
	for _, c := range []struct {
		path, accept string
		want, not    []string
	}{
		{"/configz", "", []string{`"componentconfig":`, `"parallelism":4`}, nil},
		{
			// The library draws the character between name and value.
			"/flagz", "", []string{"berth-scheduler", "log-level", "nats-url", "CLASSIFIED"},
			[]string{"secret", "leader-elect"},
		},
		{"/flagz", structured + "Flagz", []string{`"kind":"Flagz"`, `"log-level":"info"`}, []string{"secret"}},
		{"/statusz", "", []string{"berth-scheduler statusz", "1.2.3", "/configz", "/metrics", "/queue", "/statusz"}, nil},
		{"/statusz", structured + "Statusz", []string{`"kind":"Statusz"`, `"binaryVersion":"1.2.3`}, nil},
		{"/metrics/slis", "", []string{
			`kubernetes_healthcheck{name="queue",type="readyz"} 0`, `kubernetes_healthcheck{name="ping",type="readyz"} 1`,
			`kubernetes_healthchecks_total{name="queue",status="error",type="readyz"} `,
		}, nil},
	} {
		text := get(c.path, c.accept)
		for _, want := range c.want {
			if !strings.Contains(text, want) {
				t.Errorf("%s (%s): no %q in\n%s", c.path, c.accept, want, text)
			}
		}
		for _, not := range c.not {
			if strings.Contains(text, not) {
				t.Errorf("%s (%s): %q in\n%s", c.path, c.accept, not, text)
			}
		}
	}
}

// TestWhatAProcessWasGivenIsPrivate: without certificates and reviews, only clients on this machine see the
// configuration and the flags; with either, those that it lets through. What shows neither is for all.
func TestWhatAProcessWasGivenIsPrivate(t *testing.T) {
	s := listening(t, defaultTimeouts)
	defer s.Close()
	config := &schedulerv1.KubeSchedulerConfiguration{}
	config.APIVersion, config.Kind = "kubescheduler.config.k8s.io/v1", "KubeSchedulerConfiguration"
	flags := pflag.NewFlagSet("run", pflag.ContinueOnError)
	s.Describe(Component{Name: "berth-queue", Flags: flags, Configuration: config})
	if err := s.install(); err != nil {
		t.Fatal(err)
	}
	// ask returns the status and the text for a client at an address.
	ask := func(path, client string) (int, string) {
		r := httptest.NewRequest(http.MethodGet, path, nil)
		r.RemoteAddr = client
		w := httptest.NewRecorder()
		s.mux.ServeHTTP(w, r)
		return w.Code, w.Body.String()
	}
	clients := map[string]int{
		"127.0.0.1:4000": 200, "[::1]:4000": 200, "10.0.0.7:4000": 403, "[2001:db8::7]:4000": 403, "pipe": 403,
	}
	for client, want := range clients {
		for _, path := range []string{"/configz", "/flagz"} {
			code, text := ask(path, client)
			if code != want {
				t.Errorf("%s from %s: %d, want %d", path, client, code, want)
			}
			if code == http.StatusForbidden && !strings.Contains(text, "--http-client-ca-file or --http-token-review") {
				t.Errorf("%s says %q, want the flags that open it", path, text)
			}
		}
		for _, path := range []string{"/statusz", "/metrics", "/metrics/slis", "/healthz"} {
			if code, _ := ask(path, client); code != http.StatusOK {
				t.Errorf("%s from %s: %d, want %d", path, client, code, http.StatusOK)
			}
		}
	}
	s.tls.ClientCAFile = "ca.crt" // guard decides about such requests, and mux gets those that it lets through
	for _, path := range []string{"/configz", "/flagz"} {
		if code, _ := ask(path, "10.0.0.7:4000"); code != http.StatusOK {
			t.Errorf("%s from a client that was let through: %d", path, code)
		}
	}
}

func TestVersionsThatAreNone(t *testing.T) {
	for text, want := range map[string]string{
		"unknown": "0.0", "(devel)": "0.0", "v0.1.0": "0.1.0", "0b8c2d1-dirty": "0.0",
	} {
		if got := effectiveVersion(text).BinaryVersion().String(); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}
