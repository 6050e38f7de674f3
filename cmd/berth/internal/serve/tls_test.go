package serve

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/berth-scheduler/berth/cmd/berth/internal/pki"
)

// rotatedWithin bounds the wait for a renewed certificate to be served; the library checks its files when the kernel
// notifies it, and every minute.
const rotatedWithin = 30 * time.Second

func issue(t *testing.T, dir string) {
	t.Helper()
	err := pki.Issue(pki.Installation{
		Dir: dir, Name: "berth", Namespace: "berth-system", Hosts: []string{"127.0.0.1"}, Life: time.Hour,
	}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
}

// client returns a client with the certificate of a member, or without one.
func client(t *testing.T, dir, member string) *http.Client {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(dir, "ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	config := &tls.Config{RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS13}
	config.RootCAs.AppendCertsFromPEM(raw)
	if member != "" {
		own, err := tls.LoadX509KeyPair(filepath.Join(dir, member, "tls.crt"), filepath.Join(dir, member, "tls.key"))
		if err != nil {
			t.Fatal(err)
		}
		config.Certificates = []tls.Certificate{own}
	}
	transport := &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// administrator is the member whose certificate may do everything.
const administrator = "root"

// start serves with the queue's certificate until the test ends. The given names may read metrics.
func start(t *testing.T, dir string, names ...string) *Server {
	t.Helper()
	s, err := Listen(Config{Address: "127.0.0.1:0", TLS: TLS{
		CertFile: filepath.Join(dir, "queue", "tls.crt"), KeyFile: filepath.Join(dir, "queue", "tls.key"),
		ClientCAFile: filepath.Join(dir, "ca.crt"), AllowedNames: names, AdminNames: []string{administrator},
	}})
	if err != nil {
		t.Fatal(err)
	}
	run(t, s)
	return s
}

// answer is the relevant part of a response: its status, and the serial of the certificate that served it.
type answer struct {
	status int
	serial string
}

func get(c *http.Client, s *Server, path string) (answer, error) {
	return ask(c, s, http.MethodGet, path)
}

// ask sends a request; a request that changes the level sends the usual level.
func ask(c *http.Client, s *Server, method, path string) (answer, error) {
	req, err := http.NewRequest(method, "https://"+s.Address()+path, strings.NewReader("info"))
	if err != nil {
		return answer{}, err
	}
	resp, err := c.Do(req)
	if err != nil {
		return answer{}, err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return answer{resp.StatusCode, resp.TLS.PeerCertificates[0].SerialNumber.String()}, errors.Join(err, resp.Body.Close())
}

// TestWhoMayRead: probes need nothing, everything else needs a certificate with an allowed name.
func TestWhoMayRead(t *testing.T) {
	dir, foreign := t.TempDir(), t.TempDir()
	issue(t, dir)
	issue(t, foreign)
	s := start(t, dir, "prometheus")
	for _, c := range []struct {
		member, path string
		want         int
	}{
		{"", "/livez", 200}, {"", "/readyz", 200}, {"", "/metrics", 401}, {"", "/queue", 401}, {"", "/debug/pprof/", 401},
		{"prometheus", "/metrics", 200}, {"scheduler", "/metrics", 403}, {"scheduler", "/livez", 200},
	} {
		got, err := get(client(t, dir, c.member), s, c.path)
		if err != nil || got.status != c.want {
			t.Errorf("%s as %q: %d, %v; want %d", c.path, c.member, got.status, err, c.want)
		}
	}
	outsider := client(t, dir, "")
	own, err := tls.LoadX509KeyPair(filepath.Join(foreign, "prometheus", "tls.crt"),
		filepath.Join(foreign, "prometheus", "tls.key"))
	if err != nil {
		t.Fatal(err)
	}
	outsider.Transport.(*http.Transport).TLSClientConfig.Certificates = []tls.Certificate{own}
	if got, err := get(outsider, s, "/metrics"); err == nil && got.status != http.StatusUnauthorized {
		t.Errorf("the right name from another authority: %d", got.status)
	}
	resp, err := http.Get("http://" + s.Address() + "/metrics")
	if err != nil {
		return // refused at once
	}
	defer resp.Body.Close() //nolint:errcheck // only the status matters
	if resp.StatusCode != http.StatusBadRequest {
		t.Errorf("plain HTTP on the TLS port: %d", resp.StatusCode)
	}
}

// TestOnlyAdministratorsChange: a certificate for metrics reads metrics. The log level, which makes a process slow or
// silent, and what a process knows about pods, are for administrators.
func TestOnlyAdministratorsChange(t *testing.T) {
	dir := t.TempDir()
	issue(t, dir)
	named, unnamed := start(t, dir, "prometheus"), start(t, dir)
	for _, c := range []struct {
		s                    *Server
		member, method, path string
		want                 int
	}{
		{named, "prometheus", http.MethodGet, "/metrics", 200},
		{named, "prometheus", http.MethodGet, "/metrics/resources", 404}, // the queue adds the page
		{named, "prometheus", http.MethodPut, LevelPath, 403},
		{named, "prometheus", http.MethodGet, LevelPath, 403},
		{named, "prometheus", http.MethodPut, "/metrics", 403},
		{named, "prometheus", http.MethodGet, "/queue", 403},
		{named, "prometheus", http.MethodGet, "/debug/pprof/", 403},
		{named, administrator, http.MethodGet, "/metrics", 200},
		{named, administrator, http.MethodPut, LevelPath, 200},
		{named, "scheduler", http.MethodPut, LevelPath, 403},
		// Without names of readers, any certificate of the authority reads metrics, and nothing else.
		{unnamed, "scheduler", http.MethodGet, "/metrics", 200},
		{unnamed, "scheduler", http.MethodPut, LevelPath, 403},
		{unnamed, administrator, http.MethodPut, LevelPath, 200},
	} {
		got, err := ask(client(t, dir, c.member), c.s, c.method, c.path)
		if err != nil || got.status != c.want {
			t.Errorf("%s %s as %q: %d, %v; want %d", c.method, c.path, c.member, got.status, err, c.want)
		}
	}
}

// TestUnadministered: plain HTTP requires no certificate, so nothing is missing there.
func TestUnadministered(t *testing.T) {
	for _, c := range []struct {
		tls  TLS
		want bool
	}{
		{TLS{ClientCAFile: "ca.crt"}, true},
		{TLS{ClientCAFile: "ca.crt", AllowedNames: []string{"prometheus"}}, true},
		{TLS{ClientCAFile: "ca.crt", AdminNames: []string{administrator}}, false},
		{TLS{}, false},
	} {
		if got := c.tls.Unadministered(); got != c.want {
			t.Errorf("%+v: %t, want %t", c.tls, got, c.want)
		}
	}
}

// TestRenewalNeedsNoRestart: certificates are replaced under the running server.
func TestRenewalNeedsNoRestart(t *testing.T) {
	dir := t.TempDir()
	issue(t, dir)
	s := start(t, dir)
	serial := func() string {
		got, err := get(client(t, dir, "prometheus"), s, "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		return got.serial
	}
	before := serial()
	issue(t, dir)
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, rotatedWithin, true,
		func(context.Context) (bool, error) { return serial() != before, nil })
	if err != nil {
		t.Errorf("the old certificate is still served after %s", rotatedWithin)
	}
}

// TestHalfAnIdentityIsRefused: it is refused before the address is taken.
func TestHalfAnIdentityIsRefused(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "none")
	for flag, c := range map[string]TLS{
		"--http-key-file":       {CertFile: missing},
		"--http-cert-file":      {CertFile: missing, KeyFile: missing},
		"--http-client-ca-file": {ClientCAFile: missing},
		"--http-allowed-names":  {AllowedNames: []string{"x"}},
		"--http-admin-names":    {AdminNames: []string{"x"}},
	} {
		_, err := Listen(Config{Address: "127.0.0.1:0", TLS: c})
		if err == nil || !strings.Contains(fmt.Sprint(err), flag) {
			t.Errorf("%+v: %v: want an error that names %s", c, err, flag)
		}
	}
}
