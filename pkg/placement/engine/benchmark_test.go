package engine_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/placement/placementbench"
	"github.com/berth-scheduler/berth/pkg/state"
)

const (
	// benchNodes is the size of the cluster; each node has ten pods.
	benchNodes = 5000
	// benchPods are added and removed. There are more of them than the engine keeps classes for, so that pods of
	// unique shape never find their class again.
	benchPods = 2000
)

// BenchmarkEngine decides about one pod and places it, after another one has been removed: the cluster stays as
// full as it is. In a workload with events, every tenth decision has one.
func BenchmarkEngine(b *testing.B) {
	for _, w := range placementbench.All() {
		b.Run(w.Name, func(b *testing.B) {
			c := w.Cluster(benchNodes)
			churn := w.NewChurn(deepCopies(c.Nodes))
			site, err := placementbench.NewSite(c)
			if err != nil {
				b.Fatal(err)
			}
			pods, on := make([]*state.Pod, benchPods), make([]*state.NodeInfo, benchPods)
			var seed uint64
			decide := func(i int) {
				seed++
				r := site.Decide(pods[i], seed)
				if r.Err != nil || len(r.Feasible) == 0 {
					b.Fatalf("pod %d of %s fits nowhere: %s %v", i, w.Name, r.Diagnosis.Message(), r.Err)
				}
				on[i] = r.Feasible[0].Node
			}
			for i := range pods {
				pods[i] = placementbench.Arrive(w.Pending(i))
				decide(i)
			}
			b.ReportAllocs()
			for n := 0; b.Loop(); n++ {
				if w.EventEvery > 0 && n%w.EventEvery == 0 {
					b.StopTimer()
					event := churn.Next()
					b.StartTimer()
					site.Change(event)
				}
				i := n % benchPods
				site.Remove(on[i], pods[i])
				decide(i)
			}
		})
	}
}

// BenchmarkFromScratch decides about one pod with Profile.Evaluate; the difference to BenchmarkEngine is the time the
// engine saves.
func BenchmarkFromScratch(b *testing.B) {
	for _, w := range placementbench.All() {
		b.Run(w.Name, func(b *testing.B) {
			site, err := placementbench.NewSite(w.Cluster(benchNodes))
			if err != nil {
				b.Fatal(err)
			}
			in := placement.Input{Nodes: site.Nodes(), Objects: site.Objects}
			b.ReportAllocs()
			for n := 0; b.Loop(); n++ {
				b.StopTimer()
				in.Pod = placementbench.Arrive(w.Pending(n))
				b.StartTimer()
				in.Seed++
				if r := site.Profile.Evaluate(in); r.Err != nil || len(r.Feasible) == 0 {
					b.Fatalf("pod %d of %s fits nowhere: %s %v", n, w.Name, r.Diagnosis.Message(), r.Err)
				}
			}
		})
	}
}

func deepCopies(nodes []*corev1.Node) []*corev1.Node {
	copies := make([]*corev1.Node, len(nodes))
	for i, n := range nodes {
		copies[i] = n.DeepCopy()
	}
	return copies
}
