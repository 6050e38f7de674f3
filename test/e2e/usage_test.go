//go:build e2e

package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"

	"github.com/berth-scheduler/berth/test/e2e/harness"
	"github.com/berth-scheduler/berth/test/kit"
)

// usagePolicy uses actual usage, and allows the eviction of all of an owner's pods at once.
const usagePolicy = `apiVersion: descheduler/v1alpha2
kind: DeschedulerPolicy
berth: {cooldown: 0s, maxPerOwner: 100%}
metricsProviders: [{source: KubernetesMetrics}]
profiles:
- name: busy
  pluginConfig:
  - name: DefaultEvictor
  - name: LowNodeUtilization
    args:
      thresholds: {cpu: 20}
      targetThresholds: {cpu: 50}
      metricsUtilization: {source: KubernetesMetrics}
  plugins:
    balance:
      enabled: [LowNodeUtilization]
`

const metricsGroup = "/apis/metrics.k8s.io/v1beta1"

// By requests two nodes are alike, but the pods of one are busy. The descheduler reports that it cannot know as long
// as metrics.k8s.io is not served; once it is, through the API server's aggregation, it moves pods until the node is
// no longer overutilized, and reports that in Kubernetes events.
func TestBalanceByActualUse(t *testing.T) {
	t.Parallel()
	s := newStack(t, "")
	s.addNodes(nodeSpec{name: "node-0", capacity: "4"}, nodeSpec{name: "node-1", capacity: "4"})
	s.up(harness.UpConfig{
		Policy: s.file("policy.yaml", usagePolicy),
		Args:   []string{"--descheduling-interval", "1s", "--metrics-interval", "1s"},
	})
	ns := s.namespace("busy")
	s.deployment(ns, "web", 4)
	busy := map[string]bool{}
	for _, p := range s.bound(ns, 4, placedWithin) {
		busy[p.Name] = p.Spec.NodeName == "node-0"
	}
	for _, line := range []string{
		"the API server does not serve metrics.k8s.io: actual usage is unknown", "node usage is unknown",
	} {
		s.eventually(placedWithin, "the log says that "+line, func(context.Context) (string, error) {
			return s.notLogged(line)
		})
	}
	asked := s.serveMetrics(ns, busy)
	s.eventually(placedWithin, "one pod has left node-0", func(ctx context.Context) (string, error) {
		list, err := s.client.CoreV1().Pods(ns).List(ctx, metav1.ListOptions{})
		if err != nil {
			return "", err
		}
		on := map[string]int{}
		for _, p := range list.Items {
			on[p.Spec.NodeName]++
		}
		if on["node-0"] == 1 && on["node-1"] == 3 {
			return "", nil
		}
		return fmt.Sprintf("%v, metrics asked for %d times", on, asked.Load()), nil
	})
	s.eventually(placedWithin, "the log says that somebody answers", func(context.Context) (string, error) {
		return s.notLogged("metrics.k8s.io answers")
	})
	s.eventually(placedWithin, "an event tells of the eviction", func(ctx context.Context) (string, error) {
		list, err := s.client.EventsV1().Events(ns).List(ctx, metav1.ListOptions{})
		if err != nil {
			return "", err
		}
		for _, e := range list.Items {
			reported := strings.Join([]string{e.Type, e.Reason, e.Action, e.ReportingController, e.Note}, " ")
			const want = "Normal LowNodeUtilization Descheduled sigs.k8s.io.descheduler pod eviction from node-0 "
			if strings.HasPrefix(reported, want) {
				return "", nil
			}
		}
		return fmt.Sprintf("%d events, none of it", len(list.Items)), nil
	})
}

// notLogged is why a line is not in Berth's log; empty if it is.
func (s *stack) notLogged(line string) (string, error) {
	raw, err := os.ReadFile(filepath.Join(s.dir, "berth.log"))
	if err != nil || strings.Contains(string(raw), line) {
		return "", err
	}
	return "it does not", nil
}

// serveMetrics puts a server of metrics.k8s.io behind the API server, until the end of the test:
// busy pods use 1.5 processors and others next to nothing, nodes what their pods use and a bit.
func (s *stack) serveMetrics(namespace string, busy map[string]bool) (asked *atomic.Int64) {
	s.Helper()
	asked = &atomic.Int64{}
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer, err := s.metricsOf(r.Context(), r.URL.Path, namespace, busy)
		switch {
		case err != nil:
			http.Error(w, err.Error(), http.StatusInternalServerError)
		case answer == nil:
			http.NotFound(w, r)
		default:
			asked.Add(1)
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(answer) // an error means that the client has gone
		}
	}))
	s.Cleanup(server.Close)
	at, err := url.Parse(server.URL)
	s.must(err)
	port, err := strconv.Atoi(at.Port())
	s.must(err)
	_, err = s.client.CoreV1().Services("default").Create(s.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "metrics"},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "localhost"},
	}, metav1.CreateOptions{})
	s.must(err)
	body, err := json.Marshal(map[string]any{
		"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
		"metadata": map[string]any{"name": "v1beta1.metrics.k8s.io"},
		"spec": map[string]any{
			"group": "metrics.k8s.io", "version": "v1beta1", "groupPriorityMinimum": 100, "versionPriority": 100,
			"insecureSkipTLSVerify": true,
			"service":               map[string]any{"namespace": "default", "name": "metrics", "port": port},
		},
	})
	s.must(err)
	api := s.client.CoreV1().RESTClient()
	const services = "/apis/apiregistration.k8s.io/v1/apiservices"
	s.must(api.Post().AbsPath(services).Body(body).Do(s.Context()).Error())
	s.Cleanup(func() {
		kit.Stop(s.T, func(ctx context.Context) error {
			return api.Delete().AbsPath(services + "/v1beta1.metrics.k8s.io").Do(ctx).Error()
		})
	})
	return asked
}

// metricsOf answers one path; nil if the path does not belong to metrics.k8s.io.
func (s *stack) metricsOf(ctx context.Context, path, namespace string, busy map[string]bool) (any, error) {
	typed := func(kind string) metav1.TypeMeta {
		return metav1.TypeMeta{APIVersion: "metrics.k8s.io/v1beta1", Kind: kind}
	}
	if path == metricsGroup {
		return metav1.APIResourceList{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIResourceList"}, GroupVersion: "metrics.k8s.io/v1beta1",
			APIResources: []metav1.APIResource{
				{Name: "nodes", Kind: "NodeMetrics", Verbs: metav1.Verbs{"get", "list"}},
				{Name: "pods", Kind: "PodMetrics", Namespaced: true, Verbs: metav1.Verbs{"get", "list"}},
			},
		}, nil
	}
	list, err := s.client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	use := func(milli int64) corev1.ResourceList {
		return corev1.ResourceList{
			corev1.ResourceCPU:    *resource.NewMilliQuantity(milli, resource.DecimalSI),
			corev1.ResourceMemory: resource.MustParse("1Gi"),
		}
	}
	const system, idle, busyMilli = 300, 10, 1500
	onNode := map[string]int64{"node-0": system, "node-1": system}
	pods := metricsv1beta1.PodMetricsList{TypeMeta: typed("PodMetricsList")}
	for _, p := range list.Items {
		milli := int64(idle)
		if busy[p.Name] {
			milli = busyMilli
		}
		onNode[p.Spec.NodeName] += milli
		pods.Items = append(pods.Items, metricsv1beta1.PodMetrics{
			ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name}, Timestamp: metav1.Now(),
			Containers: []metricsv1beta1.ContainerMetrics{{Name: "app", Usage: use(milli)}},
		})
	}
	switch path {
	case metricsGroup + "/pods":
		return pods, nil
	case metricsGroup + "/nodes":
		nodes := metricsv1beta1.NodeMetricsList{TypeMeta: typed("NodeMetricsList")}
		for _, name := range []string{"node-0", "node-1"} {
			nodes.Items = append(nodes.Items, metricsv1beta1.NodeMetrics{
				ObjectMeta: metav1.ObjectMeta{Name: name}, Timestamp: metav1.Now(), Usage: use(onNode[name]),
			})
		}
		return nodes, nil
	}
	return nil, nil
}
