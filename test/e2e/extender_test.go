//go:build e2e

package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"github.com/berth-scheduler/berth/test/e2e/harness"
)

// extenderConfig has one extender at an address.
const extenderConfig = `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
extenders:
- urlPrefix: %s
  filterVerb: filter
  prioritizeVerb: prioritize
  weight: 10
  bindVerb: bind
  managedResources:
  - name: example.com/licence
    ignoredByScheduler: true
`

// licences is an extender that knows where there are licences, and binds the pods that need one.
type licences struct {
	*stack
	mu struct {
		sync.Mutex
		calls map[string][]string // pods by verb
		envs  []string
	}
}

// licenced are the nodes with a licence, and how much they are worth.
var licenced = map[string]int64{"licence-0": 1, "licence-1": 10}

func (l *licences) note(verb, pod string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.calls[verb] = append(l.mu.calls[verb], pod)
}

func (l *licences) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var answer any
	var err error
	if verb := filepath.Base(r.URL.Path); verb == "bind" {
		var args extenderv1.ExtenderBindingArgs
		if err = json.NewDecoder(r.Body).Decode(&args); err == nil {
			l.note(verb, args.PodName)
			answer = l.bind(r.Context(), args)
		}
	} else {
		var args extenderv1.ExtenderArgs
		if err = json.NewDecoder(r.Body).Decode(&args); err == nil {
			l.note(verb, args.Pod.Name)
			answer = l.rank(verb, args)
		}
	}
	if err == nil {
		err = json.NewEncoder(w).Encode(answer)
	}
	if err != nil {
		l.Errorf("%s: %v", r.URL.Path, err)
	}
}

func (l *licences) rank(verb string, args extenderv1.ExtenderArgs) any {
	l.mu.Lock()
	for _, env := range args.Pod.Spec.Containers[0].Env {
		l.mu.envs = append(l.mu.envs, env.Name+"="+env.Value)
	}
	l.mu.Unlock()
	filtered := extenderv1.ExtenderFilterResult{Nodes: &corev1.NodeList{}, FailedNodes: extenderv1.FailedNodesMap{}}
	var scores extenderv1.HostPriorityList
	for _, n := range args.Nodes.Items {
		worth, has := licenced[n.Name]
		scores = append(scores, extenderv1.HostPriority{Host: n.Name, Score: worth})
		if has && args.Pod.Labels["licence"] != "unknown" {
			filtered.Nodes.Items = append(filtered.Nodes.Items, n)
		} else {
			filtered.FailedNodes[n.Name] = "node(s) had no licence"
		}
	}
	if verb == "prioritize" {
		return scores
	}
	return filtered
}

func (l *licences) bind(ctx context.Context, args extenderv1.ExtenderBindingArgs) extenderv1.ExtenderBindingResult {
	binding := &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: args.PodNamespace, Name: args.PodName, UID: args.PodUID,
			Annotations: map[string]string{"example.com/licence": "granted"},
		},
		Target: corev1.ObjectReference{Kind: "Node", Name: args.Node},
	}
	err := l.client.CoreV1().Pods(args.PodNamespace).Bind(ctx, binding, metav1.CreateOptions{})
	if err != nil {
		return extenderv1.ExtenderBindingResult{Error: err.Error()}
	}
	return extenderv1.ExtenderBindingResult{}
}

func needingLicence(p *corev1.Pod) {
	r := &p.Spec.Containers[0].Resources
	one := resource.MustParse("1")
	r.Requests["example.com/licence"] = one
	r.Limits = corev1.ResourceList{"example.com/licence": one}
	p.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "EDITION", Value: "full"}}
}

// An extender decides on the nodes of pods that request its resource, and binds them; it never receives other pods.
func TestExtender(t *testing.T) {
	t.Parallel()
	s := newStack(t, "")
	l := &licences{stack: s}
	l.mu.calls = map[string][]string{}
	server := httptest.NewServer(l)
	t.Cleanup(server.Close)
	config := s.file("extender.yaml", fmt.Sprintf(extenderConfig, server.URL))
	s.up(harness.UpConfig{Shards: 2, Binders: 2, Config: config})
	s.addNodes(
		nodeSpec{name: "plain-0"}, nodeSpec{name: "plain-1"},
		nodeSpec{name: "licence-0", extended: "example.com/licence"},
		nodeSpec{name: "licence-1", extended: "example.com/licence"})
	ns := s.namespace("extender")

	s.create(newPods(ns, "licenced", 4, "100m", needingLicence)...)
	for _, pod := range s.bound(ns, 4, placedWithin) {
		if pod.Spec.NodeName != "licence-1" || pod.Annotations["example.com/licence"] != "granted" {
			t.Errorf("pod %s is on %s with %v, want it on licence-1, bound by the extender",
				pod.Name, pod.Spec.NodeName, pod.Annotations)
		}
	}
	s.create(newPod(ns, "unknown", "100m", needingLicence, func(p *corev1.Pod) {
		p.Labels = map[string]string{"licence": "unknown"}
	}))
	s.unschedulable(ns, "unknown", "4 node(s) had no licence")
	s.create(newPods(ns, "plain", 3, "100m")...)
	s.bound(ns, 7, placedWithin)

	l.mu.Lock()
	defer l.mu.Unlock()
	for verb, pods := range l.mu.calls {
		if slices.ContainsFunc(pods, func(name string) bool { return name[:5] == "plain" }) {
			t.Errorf("%s was asked about %v", verb, pods)
		}
	}
	for _, verb := range []string{"filter", "prioritize", "bind"} {
		if len(l.mu.calls[verb]) < 4 {
			t.Errorf("%s was asked about %v, want every pod that needs a licence", verb, l.mu.calls[verb])
		}
	}
	if len(l.mu.envs) == 0 || slices.ContainsFunc(l.mu.envs, func(e string) bool { return e != "EDITION=full" }) {
		t.Errorf("the extender saw the environments %v, want all of it", l.mu.envs)
	}
	s.audit()
}
