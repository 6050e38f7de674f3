//go:build e2e

package e2e_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/berth-scheduler/berth/test/e2e/harness"
)

// reviewsKept is longer than reviews are kept by a process.
const reviewsKept = 15 * time.Second

// idleConfig is a configuration with a field that has no effect.
const idleConfig = `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
parallelism: 4
leaderElection: {leaderElect: false}
`

// What watches kube-scheduler finds at Berth: pages of the process, metrics for whom RBAC allows them, and its Lease.
// Tokens need the API server, certificates do not.
func TestWhatWatchesKubeScheduler(t *testing.T) {
	t.Parallel()
	s := newStack(t, "")
	s.addNodes(nodeSpec{name: "node-0", capacity: "4"})
	config := s.file("config.yaml", idleConfig)
	w := s.startWatched(config)
	ns := s.namespace("watched")
	s.create(newPods(ns, "p", 3, "10m")...)
	s.bound(ns, 3, placedWithin)
	allowed, forbidden := w.account(ns, "prometheus", true), w.account(ns, "nobody", false)

	w.answers("a token that may", "", allowed, "/metrics", http.StatusOK)
	w.answers("a token that may", "", allowed, "/metrics/slis", http.StatusOK)
	w.answers("a token that may read metrics alone", "", allowed, "/configz", http.StatusForbidden)
	w.answers("a token that may not", "", forbidden, "/metrics", http.StatusForbidden)
	w.answers("a token that is none", "", "nonsense", "/metrics", http.StatusUnauthorized)
	w.answers("nothing", "", "", "/metrics", http.StatusUnauthorized)
	w.answers("nothing", "", "", "/readyz", http.StatusOK)
	w.answers("a certificate", "prometheus", "", "/metrics", http.StatusOK)
	w.metrics(allowed)
	w.pages(config)
	w.lease()

	// The API server does not answer any more.
	s.must(s.cluster.Signal("kube-apiserver", syscall.SIGSTOP))
	stopped := time.Now()
	w.answers("a certificate, without an API server", "prometheus", "", "/metrics", http.StatusOK)
	w.answers("a certificate that may everything, without an API server", "root", "", "/flagz", http.StatusOK)
	s.eventually(placedWithin, "what was reviewed is not known any more", func(context.Context) (string, error) {
		if left := reviewsKept - time.Since(stopped); left > 0 {
			return left.String(), nil
		}
		return "", nil
	})
	w.answers("a token, without an API server", "", allowed, "/metrics", http.StatusUnauthorized)
	s.must(s.cluster.Signal("kube-apiserver", syscall.SIGCONT))
	s.eventually(placedWithin, "the token is accepted again", func(context.Context) (string, error) {
		if code, _ := w.get("", allowed, "/metrics"); code != http.StatusOK {
			return fmt.Sprint(code), nil
		}
		return "", nil
	})
}

// watched is a `berth up` that serves with TLS.
type watched struct {
	*stack
	certs, address, data string
}

// startWatched starts a Berth with certificates, reviews of tokens and a Lease, and waits until it is ready.
func (s *stack) startWatched(config string) *watched {
	s.Helper()
	address, err := harness.FreeAddress()
	s.must(err)
	w := &watched{stack: s, certs: filepath.Join(s.dir, "certs"), address: address, data: filepath.Join(s.dir, "data")}
	result, err := programs.Command(s.Context(), "certs", "--out", w.certs, "--host", "127.0.0.1")
	s.must(err)
	if result.Code != 0 {
		s.Fatalf("berth certs: %s", result.Stderr)
	}
	process, err := programs.StartProgram(s.dir, "berth", "berth",
		"up", "--kubeconfig", s.cluster.Kubeconfig, "--data-dir", w.data, "--config", config, "--http-address", address,
		"--http-cert-file", filepath.Join(w.certs, "queue", "tls.crt"),
		"--http-key-file", filepath.Join(w.certs, "queue", "tls.key"),
		"--http-client-ca-file", filepath.Join(w.certs, "ca.crt"),
		"--http-allowed-names", "prometheus", "--http-admin-names", "root", "--http-token-review",
		"--lease", "kube-system/kube-scheduler", "--leader-elect=true")
	s.must(err)
	s.Cleanup(process.Kill)
	s.eventually(placedWithin, "berth is ready", func(context.Context) (string, error) {
		if code, text := w.get("", "", "/readyz?verbose"); code != http.StatusOK {
			return fmt.Sprint(code, text), process.Ended()
		}
		return "", nil
	})
	return w
}

// get requests a page with the certificate of a member and a token, either of them empty for none.
func (w *watched) get(member, token, path string) (code int, text string) {
	raw, err := os.ReadFile(filepath.Join(w.certs, "ca.crt"))
	w.must(err)
	config := &tls.Config{RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS13}
	config.RootCAs.AppendCertsFromPEM(raw)
	if member != "" {
		dir := filepath.Join(w.certs, member)
		own, err := tls.LoadX509KeyPair(filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key"))
		w.must(err)
		config.Certificates = []tls.Certificate{own}
	}
	client := &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{
		TLSClientConfig: config, DisableKeepAlives: true,
	}}
	req, err := http.NewRequestWithContext(w.Context(), http.MethodGet, "https://"+w.address+path, nil)
	w.must(err)
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close() //nolint:errcheck // read to the end
	body, err := io.ReadAll(resp.Body)
	w.must(err)
	return resp.StatusCode, string(body)
}

// answers checks the status of a page.
func (w *watched) answers(who, member, token, path string, want int) {
	w.Helper()
	if code, text := w.get(member, token, path); code != want {
		w.Errorf("%s, %s: %d, want %d\n%.300s", who, path, code, want, text)
	}
}

// account makes a service account, lets it read metrics as kube-prometheus' does, and returns a token of it.
func (w *watched) account(ns, name string, reads bool) (token string) {
	w.Helper()
	accounts := w.client.CoreV1().ServiceAccounts(ns)
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}
	_, err := accounts.Create(w.Context(), account, metav1.CreateOptions{})
	w.must(err)
	if reads {
		role := ns + "-" + name
		_, err := w.client.RbacV1().ClusterRoles().Create(w.Context(), &rbacv1.ClusterRole{
			ObjectMeta: metav1.ObjectMeta{Name: role},
			Rules:      []rbacv1.PolicyRule{{NonResourceURLs: []string{"/metrics", "/metrics/slis"}, Verbs: []string{"get"}}},
		}, metav1.CreateOptions{})
		w.must(err)
		_, err = w.client.RbacV1().ClusterRoleBindings().Create(w.Context(), &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: role},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: ns, Name: name}},
		}, metav1.CreateOptions{})
		w.must(err)
	}
	request, err := accounts.CreateToken(w.Context(), name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	w.must(err)
	return request.Status.Token
}

// metrics checks that the metrics about requests to the API server, of which the binder sends most by itself, are
// there.
func (w *watched) metrics(token string) {
	w.Helper()
	w.eventually(placedWithin, "the metrics are served", func(context.Context) (string, error) {
		_, text := w.get("", token, "/metrics")
		for _, want := range []string{
			`rest_client_requests_total{code="201",host="`, `rest_client_request_duration_seconds_count{`,
			`leader_election_master_status{name="kube-scheduler"} 1`, "scheduler_event_handling_duration_seconds_count{",
			`scheduler_async_api_call_execution_total{call_type="pod_binding",result="success"} 3`,
			`scheduler_pending_async_api_calls{call_type="pod_binding"} 0`, "scheduler_inflight_events{",
		} {
			if !strings.Contains(text, want) {
				return "no " + want, nil
			}
		}
		return "", nil
	})
	const ready = `kubernetes_healthcheck{name="ping",type="readyz"} 1`
	if _, text := w.get("", token, "/metrics/slis"); !strings.Contains(text, ready) {
		w.Errorf("/metrics/slis: %s", text)
	}
}

// pages checks the pages about the process: the configuration is what `berth config print` prints.
func (w *watched) pages(config string) {
	w.Helper()
	var shown struct {
		Componentconfig, printed map[string]any
	}
	_, text := w.get("root", "", "/configz")
	w.must(json.Unmarshal([]byte(text), &shown))
	result, err := programs.Command(w.Context(), "config", "print", config)
	w.must(err)
	w.must(yaml.Unmarshal([]byte(result.Stdout), &shown.printed))
	if diff := cmp.Diff(shown.printed, shown.Componentconfig); diff != "" {
		w.Errorf("printed (-) and /configz (+):\n%s", diff)
	}
	for path, want := range map[string]string{"/flagz": "http-token-review", "/statusz": "/metrics"} {
		if _, text := w.get("root", "", path); !strings.Contains(text, want) {
			w.Errorf("%s: no %q in\n%s", path, want, text)
		}
	}
	status, err := programs.Command(w.Context(), "status", "--data-dir", w.data)
	w.must(err)
	log, err := os.ReadFile(filepath.Join(w.dir, "berth.log"))
	w.must(err)
	for _, want := range []string{
		"config.yaml: parallelism: no effect: ", "config.yaml: leaderElection: no effect: ", "--leader-elect: no effect: ",
	} {
		if strings.Count(status.Stdout, "warning: ") != 3 || !strings.Contains(status.Stdout, want) {
			w.Errorf("berth status: no %q among three warnings in\n%s", want, status.Stdout)
		}
		if strings.Count(string(log), want) != 1 {
			w.Errorf("the log does not have one line with %q", want)
		}
	}
}

// lease checks that the Lease is held and renewed.
func (w *watched) lease() {
	w.Helper()
	var first time.Time
	w.eventually(placedWithin, "the Lease is renewed", func(ctx context.Context) (string, error) {
		lease, err := w.client.CoordinationV1().Leases("kube-system").Get(ctx, "kube-scheduler", metav1.GetOptions{})
		if err != nil {
			return err.Error(), nil
		}
		if holder := *lease.Spec.HolderIdentity; !strings.HasPrefix(holder, "queue-") {
			return "held by " + holder, nil
		}
		if first.IsZero() {
			first = lease.Spec.RenewTime.Time
		}
		if !lease.Spec.RenewTime.After(first) {
			return "not renewed since " + first.String(), nil
		}
		return "", nil
	})
}
