package intake

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"
	metricsclient "k8s.io/metrics/pkg/client/clientset/versioned/typed/metrics/v1beta1"
	"k8s.io/utils/clock"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/state"
)

const (
	// causePoll is the cause of facts of usage, because metrics.k8s.io cannot be watched.
	causePoll = "poll"
	// podsOfPage is how many pods share a fact: few facts, each far below eventlog.MaxMessage.
	podsOfPage = 500
)

// measured are the kinds that are polled.
var measured = []events.Kind{events.KindNodeMetrics, events.KindPodMetrics}

// Metrics configures the polling of actual usage.
type Metrics struct {
	// Every is the time between two polls; 0 is never.
	Every  time.Duration
	Clock  clock.WithTicker
	Logger *slog.Logger
}

// sampler publishes actual usage as metrics.k8s.io samples it. It is for one goroutine.
//
// The API has neither watches nor resourceVersions nor UIDs. A poll is therefore compared with the one before it, and
// each difference becomes a fact: its version is the time of the poll in milliseconds, or one more than the last if the
// clock has not advanced, and its UID is made from kind, namespace and name. The facts carry no progress, because no
// high-water depends on usage. Pods are published in pages (podsOfPage), because they are many times as many as
// nodes.
type sampler struct {
	Metrics
	client metricsclient.MetricsV1beta1Interface
	out    chan<- events.Fact
	// logged is the content of the log for each kind once everything handed over is stored, by UID. content is the part
	// of it that this sampler has published itself.
	logged  map[events.Kind]map[string]loggedObject
	content map[string][]byte
	// lastWarning is the last message that was logged, so that it is not logged again.
	lastWarning string
}

// sample polls until ctx ends.
func (c *Cluster) sample(ctx context.Context, r Round, out chan<- events.Fact) error {
	s := &sampler{
		Metrics: r.Metrics, client: c.metrics, out: out,
		logged: map[events.Kind]map[string]loggedObject{}, content: map[string][]byte{},
	}
	for _, kind := range measured {
		s.logged[kind] = loggedObjects(r.Base, kind)
	}
	if s.Every == 0 {
		return s.withdrawAll(ctx) // an earlier leader may have polled
	}
	ticker := s.Clock.NewTicker(s.Every)
	defer ticker.Stop()
	for {
		if err := s.poll(ctx); err != nil {
			return err
		}
		select {
		case <-ticker.C():
		case <-ctx.Done():
			return nil
		}
	}
}

// poll requests the usage once. If the API is not served, everything published is withdrawn. If it is served but
// fails, what was published stays, and readers see how old it is. An error ends the round.
func (s *sampler) poll(ctx context.Context) error {
	all, err := s.fetch(ctx)
	switch {
	case ctx.Err() != nil:
		return nil
	case apierrors.IsNotFound(err):
		s.warnOnce("the API server does not serve metrics.k8s.io: actual usage is unknown")
		return s.withdrawAll(ctx)
	case err != nil:
		s.warnOnce(fmt.Sprintf("metrics.k8s.io: %v", err))
		return nil
	}
	if s.lastWarning != "" {
		s.Logger.Info("metrics.k8s.io answers", "nodes", len(all[events.KindNodeMetrics]))
		s.lastWarning = ""
	}
	for _, kind := range measured {
		if err := s.publish(ctx, kind, all[kind]); err != nil {
			return err
		}
	}
	return nil
}

// warnOnce logs a problem, once.
func (s *sampler) warnOnce(trouble string) {
	if s.lastWarning != trouble {
		s.Logger.Warn(trouble, "askingAgainEvery", s.Every)
		s.lastWarning = trouble
	}
}

// fetch requests the usage of all nodes and pods, in two requests. A request may take as long as an interval: a late
// answer is better than none, and polls do not overlap.
func (s *sampler) fetch(ctx context.Context) (map[events.Kind][]object, error) {
	ctx, cancel := context.WithTimeout(ctx, max(s.Every, identifyTimeout))
	defer cancel()
	nodes, err := s.client.NodeMetricses().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	pods, err := s.client.PodMetricses(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	all := map[events.Kind][]object{events.KindPodMetrics: pagesOf(pods.Items)}
	for i := range nodes.Items {
		n := &nodes.Items[i]
		all[events.KindNodeMetrics] = append(all[events.KindNodeMetrics], &metricsv1beta1.NodeMetrics{
			ObjectMeta: identity(events.KindNodeMetrics, "", n.Name),
			Timestamp:  n.Timestamp, Window: n.Window, Usage: rounded(n.Usage),
		})
	}
	return all, nil
}

// identity returns the metadata of an object whose API has no UIDs.
func identity(kind events.Kind, namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: namespace, Name: name, UID: types.UID(string(kind) + "/" + namespace + "/" + name),
	}
}

// pagesOf groups the pods of each namespace into pages. A page is as old as the oldest sample in it.
func pagesOf(pods []metricsv1beta1.PodMetrics) (pages []object) {
	slices.SortFunc(pods, func(a, b metricsv1beta1.PodMetrics) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	var page *metricsv1beta1.PodMetrics
	number := 0
	for i := range pods {
		p := &pods[i]
		switch {
		case page == nil || page.Namespace != p.Namespace:
			page, number = nil, 0
		case len(page.Containers) == podsOfPage:
			page, number = nil, number+1
		}
		if page == nil {
			page = &metricsv1beta1.PodMetrics{
				ObjectMeta: identity(events.KindPodMetrics, p.Namespace, fmt.Sprint("page-", number)),
				Timestamp:  p.Timestamp, Window: p.Window,
			}
			pages = append(pages, page)
		}
		if p.Timestamp.Before(&page.Timestamp) {
			page.Timestamp = p.Timestamp
		}
		page.Containers = append(page.Containers, metricsv1beta1.ContainerMetrics{Name: p.Name, Usage: rounded(sum(p))})
	}
	return pages
}

// sum returns the total usage of a pod's containers.
func sum(p *metricsv1beta1.PodMetrics) corev1.ResourceList {
	all := corev1.ResourceList{}
	for i := range p.Containers {
		for name, q := range p.Containers[i].Usage {
			total := all[name]
			total.Add(q)
			all[name] = total
		}
	}
	return all
}

// rounded keeps CPU and memory, in the units used for decisions: thousandths of a CPU, and bytes. The samples are
// finer, and would differ in every poll even where no decision would.
func rounded(use corev1.ResourceList) corev1.ResourceList {
	out := corev1.ResourceList{}
	if q, ok := use[corev1.ResourceCPU]; ok {
		out[corev1.ResourceCPU] = *resource.NewMilliQuantity(q.MilliValue(), resource.DecimalSI)
	}
	if q, ok := use[corev1.ResourceMemory]; ok {
		out[corev1.ResourceMemory] = *resource.NewQuantity(q.Value(), resource.BinarySI)
	}
	return out
}

// publish hands over what has changed of a kind, and deletions of what is gone.
func (s *sampler) publish(ctx context.Context, kind events.Kind, objects []object) error {
	version := uint64(max(s.Clock.Now().UnixMilli(), 1)) //nolint:gosec // after 1970
	gone := maps.Clone(s.logged[kind])
	for _, o := range objects {
		uid := string(o.GetUID())
		delete(gone, uid)
		data, err := o.Marshal()
		if err != nil {
			return fmt.Errorf("queue: %s %s/%s: encode: %w", kind, o.GetNamespace(), o.GetName(), err)
		}
		if bytes.Equal(data, s.content[uid]) {
			continue
		}
		told := s.send(ctx, events.Fact{
			Kind: kind, Op: events.OpUpsert, UID: uid, Namespace: o.GetNamespace(), Name: o.GetName(),
			ResourceVersion: max(version, s.logged[kind][uid].version+1), Cause: causePoll, Object: data,
		})
		if !told {
			return nil
		}
		s.content[uid] = data
		s.logged[kind][uid] = loggedObject{max(version, s.logged[kind][uid].version+1), o.GetNamespace(), o.GetName()}
	}
	for _, uid := range slices.Sorted(maps.Keys(gone)) {
		told := s.send(ctx, events.Fact{
			Kind: kind, Op: events.OpDelete, UID: uid, Namespace: gone[uid].namespace, Name: gone[uid].name,
			ResourceVersion: max(version, gone[uid].version+1), Cause: causePoll,
		})
		if !told {
			return nil
		}
		delete(s.logged[kind], uid)
		delete(s.content, uid)
	}
	return nil
}

// withdrawAll withdraws everything published, by this sampler or by an earlier leader's.
func (s *sampler) withdrawAll(ctx context.Context) error {
	for _, kind := range measured {
		if err := s.publish(ctx, kind, nil); err != nil {
			return err
		}
	}
	return nil
}

// send hands a fact over, waiting as long as necessary. It reports false if ctx ended first.
func (s *sampler) send(ctx context.Context, f events.Fact) bool {
	select {
	case s.out <- f:
		return true
	case <-ctx.Done():
		return false
	}
}

var (
	_ state.APIObject = (*metricsv1beta1.NodeMetrics)(nil)
	_ state.APIObject = (*metricsv1beta1.PodMetrics)(nil)
)
