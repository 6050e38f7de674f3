package descheduling

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"testing"

	promapi "github.com/prometheus/client_golang/api"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/events"
	"k8s.io/component-base/featuregate"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"
	metricsfake "k8s.io/metrics/pkg/client/clientset/versioned/fake"
	"sigs.k8s.io/descheduler/pkg/api"
	"sigs.k8s.io/descheduler/pkg/descheduler"
	"sigs.k8s.io/descheduler/pkg/descheduler/evictions"
	"sigs.k8s.io/descheduler/pkg/descheduler/metricscollector"
	nodeutil "sigs.k8s.io/descheduler/pkg/descheduler/node"
	podutil "sigs.k8s.io/descheduler/pkg/descheduler/pod"
	"sigs.k8s.io/descheduler/pkg/features"
	"sigs.k8s.io/descheduler/pkg/framework/pluginregistry"
	"sigs.k8s.io/descheduler/pkg/framework/profile"
)

// oracle is upstream with clients of its own that record evictions. It is used by one test at a time; its answers are
// about one world, set by run.
type oracle struct {
	client  *fake.Clientset
	metrics *metricsfake.Clientset
	dir     string

	world   *world
	evicted []string
}

// answer is the decision of a side.
type answer struct {
	// evicted are "namespace/name" of pods, sorted, each once. twice are those that were
	// asked for again.
	evicted, twice []string
	// sequence are all that were asked for, in order.
	sequence []string
	// failed: a strategy could not run.
	failed bool
}

func newOracle(t testing.TB) *oracle {
	descheduler.SetupPlugins()
	o := &oracle{client: fake.NewSimpleClientset(), metrics: metricsfake.NewSimpleClientset(), dir: t.TempDir()}
	o.client.PrependReactor("create", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
		if e, ok := a.(clienttesting.CreateAction).GetObject().(*policyv1.Eviction); ok {
			o.evicted = append(o.evicted, e.Namespace+"/"+e.Name)
		}
		return true, nil, nil
	})
	o.client.PrependReactor("get", "priorityclasses", func(a clienttesting.Action) (bool, runtime.Object, error) {
		for _, c := range o.world.classes {
			if c.Name == a.(clienttesting.GetAction).GetName() {
				return true, c, nil
			}
		}
		return true, nil, errors.New("no such priority class")
	})
	o.metrics.PrependReactor("get", "nodes", func(a clienttesting.Action) (bool, runtime.Object, error) {
		use := o.world.nodeUse[a.(clienttesting.GetAction).GetName()]
		return true, &metricsv1beta1.NodeMetrics{Usage: usage(use)}, nil
	})
	o.metrics.PrependReactor("get", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
		use := o.world.podUse[a.GetNamespace()+"/"+a.(clienttesting.GetAction).GetName()]
		return true, &metricsv1beta1.PodMetrics{Containers: []metricsv1beta1.ContainerMetrics{{Usage: usage(use)}}}, nil
	})
	return o
}

func usage(use [2]int64) corev1.ResourceList {
	return corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewMilliQuantity(use[0], resource.DecimalSI),
		corev1.ResourceMemory: *resource.NewQuantity(use[1], resource.BinarySI),
	}
}

// load reads a policy as upstream's command does.
func (o *oracle) load(text []byte) (*api.DeschedulerPolicy, error) {
	file := filepath.Join(o.dir, "policy.yaml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return nil, err
	}
	return descheduler.LoadPolicyConfig(file, o.client, pluginregistry.PluginRegistry)
}

// run decides one cycle. Upstream lists nodes, and pods of a node, in any order: here in ours.
func (o *oracle) run(ctx context.Context, w *world, text []byte) (answer, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	o.world, o.evicted = w, nil
	o.client.ClearActions() // a record that nobody reads
	o.metrics.ClearActions()
	p, err := o.load(text)
	if err != nil {
		return answer{}, err
	}
	factory, err := o.informers(w)
	if err != nil {
		return answer{}, err
	}
	nodes, err := o.nodes(ctx, factory, p)
	if err != nil || len(nodes) <= 1 {
		return answer{}, err
	}
	evictor, err := evictions.NewPodEvictor(ctx, o.client, &events.FakeRecorder{}, factory.Core().V1().Pods().Informer(),
		gates(), evictions.NewOptions().WithMaxPodsToEvictPerNode(p.MaxNoOfPodsToEvictPerNode).
			WithMaxPodsToEvictPerNamespace(p.MaxNoOfPodsToEvictPerNamespace).
			WithMaxPodsToEvictTotal(p.MaxNoOfPodsToEvictTotal))
	if err != nil {
		return answer{}, err
	}
	collector := metricscollector.NewMetricsCollector(factory.Core().V1().Nodes().Lister(), o.metrics,
		labels.Everything())
	if err := collector.Collect(ctx); err != nil {
		return answer{}, err
	}
	failed := false
	for i, config := range p.Profiles {
		run, err := profile.NewProfile(ctx, config, pluginregistry.PluginRegistry,
			profile.WithClientSet(o.client), profile.WithSharedInformerFactory(factory), profile.WithPodEvictor(evictor),
			profile.WithGetPodsAssignedToNodeFnc(w.podsOn()), profile.WithMetricsCollector(collector),
			profile.WithPrometheusClient(func() promapi.Client { return prometheus{w} }),
			profile.WithProfileInstanceID(fmt.Sprint(i)))
		if err != nil {
			return answer{}, err
		}
		failed = run.RunDeschedulePlugins(ctx, nodes).Err != nil || failed
		failed = run.RunBalancePlugins(ctx, nodes).Err != nil || failed
	}
	return newAnswer(o.evicted, failed), nil
}

func newAnswer(evicted []string, failed bool) answer {
	a := answer{failed: failed, sequence: evicted}
	sorted := slices.Sorted(slices.Values(evicted))
	for i, name := range sorted {
		if i > 0 && name == sorted[i-1] {
			a.twice = append(a.twice, name)
			continue
		}
		a.evicted = append(a.evicted, name)
	}
	return a
}

func gates() featuregate.FeatureGate {
	g := featuregate.NewFeatureGate()
	if err := g.Add(map[featuregate.Feature]featuregate.FeatureSpec{
		features.EvictionsInBackground: {Default: false, PreRelease: featuregate.Alpha},
	}); err != nil {
		panic(err)
	}
	return g
}

// informers holds the world without starting anything: what reads from it reads its indexers.
func (o *oracle) informers(w *world) (informers.SharedInformerFactory, error) {
	f := informers.NewSharedInformerFactory(o.client, 0)
	var err error
	for _, n := range w.nodes {
		err = errors.Join(err, f.Core().V1().Nodes().Informer().GetIndexer().Add(n))
	}
	for _, p := range w.pods {
		err = errors.Join(err, f.Core().V1().Pods().Informer().GetIndexer().Add(p))
	}
	for _, n := range w.namespaces {
		err = errors.Join(err, f.Core().V1().Namespaces().Informer().GetIndexer().Add(n))
	}
	for _, c := range w.claims {
		err = errors.Join(err, f.Core().V1().PersistentVolumeClaims().Informer().GetIndexer().Add(c))
	}
	for _, b := range w.budgets {
		err = errors.Join(err, f.Policy().V1().PodDisruptionBudgets().Informer().GetIndexer().Add(b))
	}
	return f, err
}

// nodes are those that a cycle looks at, by name. (Upstream lists them in any order.)
func (o *oracle) nodes(
	ctx context.Context, f informers.SharedInformerFactory, p *api.DeschedulerPolicy,
) ([]*corev1.Node, error) {
	selector := ""
	if p.NodeSelector != nil {
		selector = *p.NodeSelector
	}
	nodes, err := nodeutil.ReadyNodes(ctx, o.client, f.Core().V1().Nodes().Lister(), selector)
	slices.SortFunc(nodes, func(a, b *corev1.Node) int { return cmp.Compare(a.Name, b.Name) })
	return nodes, err
}

// podsOn lists pods of a node in our order.
func (w *world) podsOn() podutil.GetPodsAssignedToNodeFunc {
	byNode := map[string][]*corev1.Pod{}
	for _, p := range w.pods {
		byNode[p.Spec.NodeName] = append(byNode[p.Spec.NodeName], p)
	}
	for _, pods := range byNode {
		slices.SortFunc(pods, func(a, b *corev1.Pod) int {
			return cmp.Or(cmp.Compare(priorityOf(a), priorityOf(b)), cmp.Compare(a.Namespace, b.Namespace),
				cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
		})
	}
	return func(node string, filter podutil.FilterFunc) ([]*corev1.Pod, error) {
		var out []*corev1.Pod
		for _, p := range byNode[node] {
			if filter == nil || filter(p) {
				out = append(out, p)
			}
		}
		return out, nil
	}
}

func priorityOf(p *corev1.Pod) int32 {
	if p.Spec.Priority == nil {
		return 0
	}
	return *p.Spec.Priority
}

// prometheus answers every query with the ratios of a world.
type prometheus struct{ *world }

func (p prometheus) URL(ep string, _ map[string]string) *url.URL { return &url.URL{Path: ep} }

func (p prometheus) Do(context.Context, *http.Request) (*http.Response, []byte, error) {
	type sample struct {
		Metric map[string]string `json:"metric"`
		Value  [2]any            `json:"value"`
	}
	var samples []sample
	for node, ratio := range p.ratios {
		samples = append(samples, sample{map[string]string{"instance": node}, [2]any{metav1.Now().Unix(),
			fmt.Sprint(ratio)}})
	}
	body, err := json.Marshal(map[string]any{
		"status": "success", "data": map[string]any{"resultType": "vector", "result": samples},
	})
	return &http.Response{StatusCode: http.StatusOK}, body, err
}
