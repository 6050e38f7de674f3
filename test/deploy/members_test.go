//go:build e2e

package deploy_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"

	"github.com/berth-scheduler/berth/test/e2e/harness"
	"github.com/berth-scheduler/berth/test/kit"
)

// readyWithin bounds the time from the start of a member to its readiness.
const readyWithin = 60 * time.Second

// credentialed are the services that may talk to Kubernetes.
var credentialed = map[string]bool{"queue": true, "binder": true}

// member is one running replica of a service.
type member struct {
	*harness.Process
	address string
	client  *http.Client
}

// begin starts one replica as its Deployment says, and does not wait for anything.
func (s *system) begin(service, name string, args ...string) *member {
	s.Helper()
	deployment := pick[*appsv1.Deployment](s, s.shipped, "berth-"+service)
	address, err := harness.FreeAddress()
	s.must(err)
	spec := deployment.Spec.Template.Spec
	given := s.local(service, address, spec.Containers[0].Args)
	if *spec.AutomountServiceAccountToken != credentialed[service] {
		s.Fatalf("%s: automountServiceAccountToken is %t", service, *spec.AutomountServiceAccountToken)
	}
	if credentialed[service] {
		given = append(given, "--kubeconfig="+s.kubeconfig(spec.ServiceAccountName))
	}
	process, err := harness.Start(s.dir, name, s.berth, append(given, args...)...)
	s.must(err)
	s.Cleanup(process.Kill)
	return &member{Process: process, address: address, client: s.reader("prometheus")}
}

// tries is how often a member that ends before it is ready is started again, as a kubelet
// would: it ends when a store does not answer yet.
const tries = 4

// start starts one replica, waits until it is ready, and expects it to stop in good order at
// the end of the test.
func (s *system) start(service, name string, args ...string) *member {
	s.Helper()
	for range tries {
		m := s.begin(service, name, args...)
		err := harness.Eventually(s.Context(), readyWithin, name+" is ready", m.missing)
		if err == nil {
			kit.AtEnd(s.T, m.Stop)
			return m
		}
		if m.Ended() == nil {
			s.Fatal(err)
		}
		s.Logf("%s is started again: %v", name, err)
	}
	s.Fatalf("%s ended %d times", name, tries)
	return nil
}

// missing is empty when the member is ready.
func (m *member) missing(ctx context.Context) (string, error) {
	if err := m.Ended(); err != nil {
		return "", err
	}
	text, status, err := m.get(ctx, "/readyz?verbose")
	switch {
	case err != nil:
		return err.Error(), nil
	case status != http.StatusOK:
		return text, nil
	}
	return "", nil
}

func (m *member) get(ctx context.Context, path string) (string, int, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+m.address+path, nil)
	if err != nil {
		return "", 0, err
	}
	resp, err := m.client.Do(req)
	if err != nil {
		return "", 0, err
	}
	text, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close() // read to its end
	return string(text), resp.StatusCode, err
}

// reader is a client with the certificate of a member.
func (s *system) reader(name string) *http.Client {
	s.Helper()
	return &http.Client{
		Timeout:   5 * time.Second,
		Transport: &http.Transport{TLSClientConfig: s.identity(name), DisableKeepAlives: true},
	}
}

// identity is the certificate of a member, and the authority it believes.
func (s *system) identity(name string) *tls.Config {
	s.Helper()
	ca, err := os.ReadFile(filepath.Join(s.certsDir(), "ca.crt"))
	s.must(err)
	config := &tls.Config{RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS13}
	config.RootCAs.AppendCertsFromPEM(ca)
	if name != "" {
		own, err := tls.LoadX509KeyPair(s.file(name, "tls.crt"), s.file(name, "tls.key"))
		s.must(err)
		config.Certificates = []tls.Certificate{own}
	}
	return config
}

func (s *system) file(member, name string) string { return filepath.Join(s.certsDir(), member, name) }

// local replaces addresses and folders of the manifests by those of this machine, and
// nothing else.
func (s *system) local(service, address string, args []string) []string {
	s.Helper()
	replace := strings.NewReplacer(
		"/etc/berth/tls/", filepath.Join(s.certsDir(), service)+"/",
		"/etc/berth/config/", s.configDir()+"/",
	)
	var out []string
	for _, arg := range args {
		flag, _, _ := strings.Cut(arg, "=")
		var value string
		switch flag {
		case "--http-address":
			value = address
		case "--etcd-endpoints":
			value = strings.Join(s.stores.etcdURLs(), ",")
		case "--nats-url":
			value = strings.Join(s.stores.natsURLs(), ",")
		default:
			out = append(out, replace.Replace(arg))
			continue
		}
		out = append(out, fmt.Sprintf("%s=%s", flag, value))
	}
	return out
}

// startAll starts as many replicas of each service as the manifests say.
func (s *system) startAll() map[string]*member {
	s.Helper()
	members := map[string]*member{}
	for _, service := range []string{"queue", "scheduler", "binder", "descheduler"} {
		replicas := int(*pick[*appsv1.Deployment](s, s.shipped, "berth-"+service).Spec.Replicas)
		for i := range replicas {
			name := fmt.Sprintf("%s-%d", service, i)
			members[name] = s.start(service, name)
		}
	}
	return members
}
