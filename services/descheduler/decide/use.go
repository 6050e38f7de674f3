package decide

import (
	"fmt"
	"maps"
	"math"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"

	"github.com/berth-scheduler/berth/pkg/descheduling"
	"github.com/berth-scheduler/berth/pkg/descheduling/policy"
	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/state"
)

// staleAfter is how old a sample of usage may be. metrics-server takes one every 15 to 60 seconds; an older one shows
// that something between it and the descheduler does not work.
const staleAfter = 5 * time.Minute

// use is the usage of resources: cpu in milli-CPU, memory in bytes.
type use map[corev1.ResourceName]int64

// useOf converts a list of quantities.
func useOf(list corev1.ResourceList) use {
	out := use{}
	for name, q := range list {
		if name == corev1.ResourceCPU {
			out[name] = q.MilliValue()
			continue
		}
		out[name] = q.Value()
	}
	return out
}

// Averages smooth usage over time. It is for one goroutine; the result of Clone shares nothing that changes. It is
// not stored: a new process begins with the samples in the facts.
type Averages struct {
	// nodes is keyed by name, and pods by "namespace/name".
	nodes, pods map[string]average
}

// average is the average of the samples up to a time. It is immutable.
type average struct {
	at  time.Time
	use map[corev1.ResourceName]float64
}

// NewAverages returns averages without samples.
func NewAverages() *Averages {
	return &Averages{nodes: map[string]average{}, pods: map[string]average{}}
}

// Clone returns a copy of the current averages.
func (a *Averages) Clone() *Averages {
	return &Averages{nodes: maps.Clone(a.nodes), pods: maps.Clone(a.pods)}
}

// Take adds the samples in an object of kind nodemetrics or podmetrics; one that is not newer than the last changes
// nothing. The weight of the past halves with every halfLife, however far apart samples are: an exponentially
// weighted moving average over irregular times, like Unix load averages and TCP's round-trip times (RFC 6298, with a
// gain that follows from the time passed). Upstream's 0.9*old + 0.1*new every 5 s (metricscollector.go) is a
// half-life of 33 s.
func (a *Averages) Take(sampled metav1.Object, halfLife time.Duration) {
	switch m := sampled.(type) {
	case *metricsv1beta1.NodeMetrics:
		add(a.nodes, m.Name, m.Timestamp.Time, m.Usage, halfLife)
	case *metricsv1beta1.PodMetrics:
		for i := range m.Containers {
			c := &m.Containers[i]
			add(a.pods, m.Namespace+"/"+c.Name, m.Timestamp.Time, c.Usage, halfLife)
		}
	}
}

// add applies one sample to the average of a key. The first sample of a key, or of a resource, is the average.
func add(all map[string]average, key string, at time.Time, sampled corev1.ResourceList, halfLife time.Duration) {
	last, known := all[key]
	if known && !at.After(last.at) {
		return
	}
	next := average{at: at, use: map[corev1.ResourceName]float64{}}
	for name, amount := range useOf(sampled) {
		was, has := last.use[name]
		if !has {
			was = float64(amount)
		}
		past := math.Exp2(-at.Sub(last.at).Seconds() / halfLife.Seconds())
		next.use[name] = past*was + (1-past)*float64(amount)
	}
	all[key] = next
}

// Forget drops averages whose last sample is too old to be of use, among them those of pods and nodes that are
// gone.
func (a *Averages) Forget(now time.Time) {
	old := func(_ string, v average) bool { return now.Sub(v.at) > staleAfter }
	maps.DeleteFunc(a.nodes, old)
	maps.DeleteFunc(a.pods, old)
}

// of returns the average of a key, or the last sample if there is none.
func of(all map[string]average, key string, sampled corev1.ResourceList) use {
	v, known := all[key]
	if !known {
		return useOf(sampled)
	}
	out := use{}
	for name, amount := range v.use {
		out[name] = int64(math.Round(amount))
	}
	return out
}

// Measure adds the usage from metrics.k8s.io, as the facts show it, to out, if the policy uses it. Averages may be
// nil; then the last samples count.
func Measure(out *descheduling.Usage, p *policy.Policy, cluster *state.Snapshot, a *Averages, now time.Time) {
	if !p.WantsMetrics() {
		return
	}
	if a == nil {
		a = NewAverages()
	}
	out.Nodes, out.Pods = map[string]map[corev1.ResourceName]int64{}, map[string]map[corev1.ResourceName]int64{}
	last := time.Time{}
	for o := range cluster.Objects(events.KindNodeMetrics) {
		m, ok := o.API.(*metricsv1beta1.NodeMetrics)
		if !ok {
			continue
		}
		if m.Timestamp.After(last) {
			last = m.Timestamp.Time
		}
		if now.Sub(m.Timestamp.Time) <= staleAfter {
			out.Nodes[m.Name] = of(a.nodes, m.Name, m.Usage)
		}
	}
	switch {
	case last.IsZero():
		out.Unmeasured = fmt.Errorf("node usage is unknown: the API server does not serve metrics.k8s.io, " +
			"or the queue does not poll it (--metrics-interval); see the log of the queue")
		return
	case len(out.Nodes) == 0:
		out.Unmeasured = fmt.Errorf("metrics.k8s.io has not sampled any node for %s (limit %s); see the log of the queue",
			now.Sub(last).Round(time.Second), staleAfter)
		return
	}
	for o := range cluster.Objects(events.KindPodMetrics) {
		m, ok := o.API.(*metricsv1beta1.PodMetrics)
		if !ok || now.Sub(m.Timestamp.Time) > staleAfter {
			continue
		}
		for i := range m.Containers {
			key := m.Namespace + "/" + m.Containers[i].Name
			out.Pods[key] = of(a.pods, key, m.Containers[i].Usage)
		}
	}
}
