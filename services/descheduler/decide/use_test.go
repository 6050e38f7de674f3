package decide

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"
	"pgregory.net/rapid"

	"github.com/berth-scheduler/berth/pkg/descheduling"
	"github.com/berth-scheduler/berth/pkg/descheduling/policy"
	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/pkg/state/statetest"
)

var sampledAt = time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)

func sampledNode(name string, ago time.Duration, milli int64) *metricsv1beta1.NodeMetrics {
	return &metricsv1beta1.NodeMetrics{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name)},
		Timestamp:  metav1.Time{Time: sampledAt.Add(-ago)},
		Usage: corev1.ResourceList{
			corev1.ResourceCPU:    *resource.NewMilliQuantity(milli, resource.DecimalSI),
			corev1.ResourceMemory: resource.MustParse("1Gi"),
		},
	}
}

func metricsPolicy(t *testing.T) *policy.Policy {
	t.Helper()
	p, err := policy.Parse("test", []byte(`apiVersion: descheduler/v1alpha2
kind: DeschedulerPolicy
profiles:
- name: p
  pluginConfig:
  - {name: DefaultEvictor, args: {nodeFit: false}}
  - name: LowNodeUtilization
    args:
      thresholds: {cpu: 20}
      targetThresholds: {cpu: 50}
      metricsUtilization: {source: KubernetesMetrics}
  plugins: {balance: {enabled: [LowNodeUtilization]}}
metricsProviders: [{source: KubernetesMetrics}]
`))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func measuredCluster(t *testing.T, objects ...state.APIObject) *state.Snapshot {
	t.Helper()
	var h statetest.History
	for _, o := range objects {
		kind := events.KindNodeMetrics
		if _, ok := o.(*metricsv1beta1.PodMetrics); ok {
			kind = events.KindPodMetrics
		}
		h.Upsert(kind, o)
	}
	store := state.New()
	if _, err := store.Apply(h.Facts); err != nil {
		t.Fatal(err)
	}
	return store.Snapshot()
}

func TestMeasure(t *testing.T) {
	page := &metricsv1beta1.PodMetrics{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "page-0", UID: "page"}, Timestamp: metav1.Time{Time: sampledAt},
		Containers: []metricsv1beta1.ContainerMetrics{
			{Name: "a", Usage: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("250m")}},
			{Name: "b", Usage: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2")}},
		},
	}
	for _, tt := range []struct {
		name    string
		objects []state.APIObject
		want    string
	}{
		{
			"as sampled", []state.APIObject{sampledNode("n", time.Minute, 700), page},
			"nodes n=700, pods ns/a=250 ns/b=2000",
		},
		{"nobody asked", nil, "does not serve metrics.k8s.io"},
		{"nothing new for long", []state.APIObject{sampledNode("n", 6*time.Minute, 700)},
			"has not sampled any node for 6m0s"},
		{
			"one node is silent", []state.APIObject{sampledNode("m", time.Hour, 1), sampledNode("n", 0, 700)},
			"nodes n=700, pods",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var out descheduling.Usage
			Measure(&out, metricsPolicy(t), measuredCluster(t, tt.objects...), nil, sampledAt)
			got := "nodes"
			for name, used := range out.Nodes {
				got += fmt.Sprintf(" %s=%d", name, used[corev1.ResourceCPU])
			}
			got += ", pods"
			for _, name := range []string{"ns/a", "ns/b"} {
				if used, ok := out.Pods[name]; ok {
					got += fmt.Sprintf(" %s=%d", name, used[corev1.ResourceCPU])
				}
			}
			if out.Unmeasured != nil {
				got = out.Unmeasured.Error()
			}
			if !strings.Contains(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// TestAverageHalves: the average follows a step of usage by a half within the half-life, in however many samples, and
// is always between the least and the greatest sample.
func TestAverageHalves(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		halfLife := time.Duration(rapid.IntRange(1, 600).Draw(t, "half-life")) * time.Second
		parts := rapid.IntRange(1, 20).Draw(t, "samples")
		a := NewAverages()
		a.Take(sampledNode("n", time.Hour, 1000), halfLife)
		for i := 1; i <= parts; i++ {
			ago := time.Hour - halfLife*time.Duration(i)/time.Duration(parts)
			a.Take(sampledNode("n", ago, 3000), halfLife)
			a.Take(sampledNode("n", time.Hour, 9_000_000), halfLife) // known already
		}
		if got := a.nodes["n"].use[corev1.ResourceCPU]; math.Abs(got-2000) > 1 {
			t.Fatalf("after a half-life %.1f, want 2000", got)
		}
		b := a.Clone()
		low, high := int64(1000), int64(3000)
		for i := range rapid.IntRange(0, 10).Draw(t, "more") {
			milli := rapid.Int64Range(0, 10_000).Draw(t, "use")
			low, high = min(low, milli), max(high, milli)
			a.Take(sampledNode("n", 30*time.Minute-time.Duration(i)*time.Minute, milli), halfLife)
			if got := a.nodes["n"].use[corev1.ResourceCPU]; got < float64(low)-1 || got > float64(high)+1 {
				t.Fatalf("the average is %.1f, of samples from %d to %d", got, low, high)
			}
		}
		if got := b.nodes["n"].use[corev1.ResourceCPU]; math.Abs(got-2000) > 1 {
			t.Fatalf("the clone has changed to %.1f", got)
		}
		a.Forget(sampledAt.Add(2 * time.Hour))
		if len(a.nodes) > 0 {
			t.Fatal("what is no use is not forgotten")
		}
	})
}

// TestMeasureSmooths: averages are used where they exist.
func TestMeasureSmooths(t *testing.T) {
	a := NewAverages()
	a.Take(sampledNode("n", 2*time.Minute, 1000), time.Minute)
	last := sampledNode("n", time.Minute, 3000)
	a.Take(last, time.Minute)
	var out descheduling.Usage
	Measure(&out, metricsPolicy(t), measuredCluster(t, last), a, sampledAt)
	if got := out.Nodes["n"][corev1.ResourceCPU]; got != 2000 {
		t.Errorf("%d in use, want 2000", got)
	}
}
