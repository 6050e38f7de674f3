package neighbours

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/test/e2e/harness"
	"github.com/berth-scheduler/berth/test/perf/bench"
)

const (
	// monitoring is the namespace of its Prometheus, prometheusAccount is the account that this reads metrics with.
	monitoring        = "monitoring"
	prometheusAccount = "prometheus-k8s"
	// scrapeRounds are how often the pages are read, scrapeEvery apart, and they count as one every half minute.
	scrapeRounds = 4
	scrapeEvery  = 2 * time.Second
)

// monitored are the paths that its ServiceMonitor for the scheduler names, both with a token.
var monitored = []string{"/metrics", "/metrics/slis"}

// kubePrometheus is the monitoring of most clusters: its rules and dashboards, and what its Prometheus may read.
func kubePrometheus() Neighbour {
	return Neighbour{
		Name:    "kube-prometheus",
		Version: "kube-prometheus, main (`github.com/prometheus-operator/kube-prometheus`)",
		Played: "Its module could not be had for this comparison, so its expressions are in " +
			"[test/neighbours/testdata](../test/neighbours/testdata/kube-prometheus-rules.yaml). Prometheus' own parser and " +
			"engine play its Prometheus. They evaluate what its rules and its dashboard ask about a scheduler, on the pages " +
			"that its ServiceMonitor names. They are read with the token of an account that has the rights of its own",
		Scenarios: []Scenario{{
			Name: "rules",
			About: "ten pods are bound and one fits nowhere; rules are evaluated for half an hour, and the queries of the " +
				"scheduler's dashboard at its end; Berth's job is named `kube-scheduler`, which the rules ask for.",
			Scheduling: Scheduling{Start: startServing},
			Run:        watchScheduler,
		}},
	}
}

// startServing starts the scheduler so that it serves its metrics to who has a token that may read them.
func startServing(ctx context.Context, s *Scene) (err error) {
	if s.Address, err = harness.FreeAddress(); err != nil {
		return err
	}
	if s.Scheduler == Berth {
		return startServingBerth(ctx, s)
	}
	_, port, err := net.SplitHostPort(s.Address)
	if err != nil {
		return err
	}
	kubeconfig := s.Cluster.Kubeconfig
	p, err := s.Start("kube-scheduler", "kube-scheduler", nil, "--kubeconfig="+kubeconfig, "--leader-elect=false",
		"--bind-address="+loopback, "--secure-port="+port, "--cert-dir="+filepath.Join(s.Dir, "serving"),
		"--authentication-kubeconfig="+kubeconfig, "--authorization-kubeconfig="+kubeconfig)
	if err != nil {
		return err
	}
	return serves(ctx, s, p)
}

func startServingBerth(ctx context.Context, s *Scene) error {
	certs := filepath.Join(s.Dir, "certs")
	made, err := s.Programs.Command(ctx, "certs", "--out", certs, "--host", loopback)
	if err != nil {
		return err
	}
	if made.Code != 0 {
		return fmt.Errorf("berth certs: exit code %d\n%s", made.Code, made.Stderr)
	}
	p, err := s.Start("berth", "berth", nil, "up", "--kubeconfig", s.Cluster.Kubeconfig,
		"--data-dir", filepath.Join(s.Dir, "data"), "--http-address", s.Address,
		"--http-cert-file", filepath.Join(certs, "queue", "tls.crt"),
		"--http-key-file", filepath.Join(certs, "queue", "tls.key"),
		"--http-client-ca-file", filepath.Join(certs, "ca.crt"), "--http-token-review")
	if err != nil {
		return err
	}
	return serves(ctx, s, p)
}

// serves waits until a scheduler that serves with TLS is ready.
func serves(ctx context.Context, s *Scene, p *harness.Process) error {
	return s.Eventually(ctx, worksWithin, p.Name+" is ready", func(ctx context.Context) (string, error) {
		if err := p.Ended(); err != nil {
			return "", err
		}
		if _, err := scrapePage(ctx, "https://"+s.Address+"/readyz", ""); err != nil {
			return err.Error(), nil
		}
		return "", nil
	})
}

// scrapePage reads a page, as a target of the ServiceMonitor: it does not verify the certificate.
func scrapePage(ctx context.Context, url, token string) ([]byte, error) {
	client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{ //nolint:mnd // Prometheus' default
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // insecureSkipVerify of the ServiceMonitor
	}}
	defer client.CloseIdleConnections()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, err
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close() //nolint:errcheck // read to the end
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", url, response.Status)
	}
	return body, err
}

// watchScheduler lets the scheduler work, scrapes it, and evaluates the rules.
func watchScheduler(ctx context.Context, s *Scene) (Result, error) {
	if err := someWork(ctx, s); err != nil {
		return Result{}, err
	}
	token, err := prometheusToken(ctx, s)
	if err != nil {
		return Result{}, err
	}
	list, refused, err := scrapeAll(ctx, s, monitored, token)
	if err != nil {
		return Result{}, err
	}
	found, err := evaluateRules(ctx, s, list)
	if err != nil {
		return Result{}, err
	}
	r := Result{Measures: []Measure{
		{Name: "pages of the ServiceMonitor", Value: float64(len(monitored)), Margin: Within(0)},
		{Name: "pages that answered", Value: float64(len(monitored) - len(refused)), Margin: Within(0)},
		{Name: "recording rules about the scheduler with series", Value: float64(len(found.Recorded)), Margin: AtLeast(0)},
		{Name: "queries of the dashboard", Value: float64(found.Queries), Margin: Within(0)},
		{Name: "queries of the dashboard with series", Value: float64(len(found.Found)), Margin: AtLeast(0)},
		{Name: "alerts that fire", Value: float64(len(found.Firing)), Margin: AtMost(0)},
	}, Wrong: refused}
	for _, alert := range found.Firing {
		r.Wrong = append(r.Wrong, "the alert "+alert+" fires")
	}
	s.Logf("found: %+v", found)
	return r, nil
}

// someWork binds pods, and leaves one pending.
func someWork(ctx context.Context, s *Scene) error {
	if err := addFixed(ctx, s, 2); err != nil { //nolint:mnd // a choice
		return err
	}
	if err := harness.CreateNamespace(ctx, s.Client, harness.Namespace(namespace)); err != nil {
		return err
	}
	var pods []*corev1.Pod
	const some = 10
	for i := range some {
		pods = append(pods, pendingPod(fmt.Sprintf("pod-%d", i), "1"))
	}
	pods = append(pods, pendingPod("large", fmt.Sprint(2*nodeCPU))) //nolint:mnd // more than a node has
	if err := harness.CreatePods(ctx, s.Client, pods); err != nil {
		return err
	}
	for i := range some {
		if _, err := waitBound(ctx, s, pods[i].Name); err != nil {
			return err
		}
	}
	return nil
}

// prometheusRights are those of kube-prometheus' Prometheus.
const prometheusRights = `apiVersion: v1
kind: ServiceAccount
metadata: {name: prometheus-k8s, namespace: monitoring}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: prometheus-k8s}
rules:
- {apiGroups: [""], resources: [nodes/metrics], verbs: [get]}
- {nonResourceURLs: [/metrics, /metrics/slis], verbs: [get]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: prometheus-k8s}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: prometheus-k8s}
subjects: [{kind: ServiceAccount, name: prometheus-k8s, namespace: monitoring}]
`

// prometheusToken creates the account with its rights, and returns a token of it.
func prometheusToken(ctx context.Context, s *Scene) (string, error) {
	if err := harness.CreateNamespace(ctx, s.Client, harness.Namespace(monitoring)); err != nil {
		return "", err
	}
	a, err := s.Applier()
	if err != nil {
		return "", err
	}
	if err := a.Text(ctx, prometheusRights); err != nil {
		return "", err
	}
	token, err := s.Client.CoreV1().ServiceAccounts(monitoring).CreateToken(
		ctx, prometheusAccount, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		return "", err
	}
	return token.Status.Token, nil
}

// scraped is one page in the list that test/monitoring/kubeprometheus reads.
type scraped struct {
	Round    int    `json:"round"`
	Job      string `json:"job"`
	Instance string `json:"instance"`
	Endpoint string `json:"endpoint"`
	File     string `json:"file"`
}

// scrapeAll reads the pages several times, and returns the file with the list of them, and which did not answer.
func scrapeAll(ctx context.Context, s *Scene, pages []string, token string) (list string, refused []string, err error) {
	var all []scraped
	for round := range scrapeRounds {
		for i, path := range pages {
			one := scraped{
				Round: round, Job: "kube-scheduler", Instance: s.Address, Endpoint: fmt.Sprintf("https-metrics-%d", i),
			}
			text, err := scrapePage(ctx, "https://"+s.Address+path, token)
			if err == nil {
				one.File = fmt.Sprintf("%d-%d.prom", round, i)
				_, err = s.File(one.File, string(text))
			}
			if err != nil && one.File != "" {
				return "", nil, err
			}
			if err != nil && round == 0 {
				refused = append(refused, fmt.Sprintf("%s does not answer Prometheus", path))
				s.Logf("%v", err)
			}
			all = append(all, one)
		}
		if err := bench.Pause(ctx, scrapeEvery); err != nil {
			return "", nil, err
		}
	}
	text, err := json.Marshal(all)
	if err != nil {
		return "", nil, err
	}
	list, err = s.File("scrapes.json", string(text))
	return list, refused, err
}

// evaluated is the output of test/monitoring/kubeprometheus.
type evaluated struct {
	Firing   []string `json:"firing"`
	Recorded []string `json:"recorded"`
	Found    []string `json:"found"`
	Queries  int      `json:"queries"`
}

// evaluateRules evaluates rules and dashboard with Prometheus' engine, which is in a module of its own.
func evaluateRules(ctx context.Context, s *Scene, list string) (found evaluated, err error) {
	data := filepath.Join(s.Programs.Root, "test", "neighbours", "testdata")
	cmd := exec.CommandContext(ctx, "go", "run", "./kubeprometheus", "-scrapes", list,
		"-rules", filepath.Join(data, "kube-prometheus-rules.yaml"),
		"-queries", filepath.Join(data, "kube-prometheus-queries.txt"))
	cmd.Dir = filepath.Join(s.Programs.Root, "test", "monitoring")
	cmd.Env = append(os.Environ(), "GOWORK=off")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return found, fmt.Errorf("evaluate kube-prometheus' rules: %w\n%s", err, stderr.String())
	}
	return found, json.Unmarshal(out, &found)
}
