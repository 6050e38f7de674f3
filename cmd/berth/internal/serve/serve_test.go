package serve

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
)

func TestHealthAndReadiness(t *testing.T) {
	s, err := Listen(Config{Address: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Listen(Config{Address: s.Address()}); err == nil || !strings.Contains(err.Error(), "--http-address") {
		t.Errorf("listening twice: %v: want an error that names the flag", err)
	}
	var ready atomic.Bool
	s.AddReady("queue", func() error {
		if ready.Load() {
			return nil
		}
		return errors.New("facts not applied yet")
	})
	s.AddPage("/queue", "pod", func(_ context.Context, about string) (string, error) {
		if about == "broken" {
			return "", errors.New("nobody answers")
		}
		return "about <" + about + ">", nil
	})
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	want := func(path string, code int, text string) {
		t.Helper()
		resp, err := http.Get("http://" + s.Address() + path)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close() //nolint:errcheck // read to the end
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		if resp.StatusCode != code || !strings.Contains(string(body), text) {
			t.Errorf("%s: %d %q, want %d and %q", path, resp.StatusCode, body, code, text)
		}
	}
	want("/livez", 200, "ok")
	want("/readyz", 503, "[-]queue failed: facts not applied yet")
	ready.Store(true)
	want("/readyz", 200, "ok")
	want("/readyz?verbose", 200, "[+]queue ok")
	want("/metrics", 200, "# HELP")
	want("/queue", 200, "about <>")
	want("/queue?pod=shop/web-0", 200, "about <shop/web-0>")
	want("/queue?pod=broken", 503, "nobody answers")
	want("/debug/pprof/", 404, "not found")
	putLevel(t, s.Address(), "4", 200, "log level is debug")
	want(LevelPath, 200, "debug")
	putLevel(t, s.Address(), "loud", 400, `log level is "loud", want debug, info, warn or error, or a klog verbosity`)
	putLevel(t, s.Address(), "info", 200, "log level is info")
	stop()
	if err := <-done; err != nil {
		t.Errorf("run: %v", err)
	}
}

func putLevel(t *testing.T, address, level string, code int, text string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, "http://"+address+LevelPath,
		strings.NewReader(level))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close() //nolint:errcheck // read to the end
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != code || !strings.Contains(string(body), text) {
		t.Errorf("level %q: %d %q %v, want %d and %q", level, resp.StatusCode, body, err, code, text)
	}
}
