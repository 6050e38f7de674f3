package engine_test

import (
	"testing"

	"github.com/berth-scheduler/berth/pkg/placement/placementbench"
)

// BenchmarkEnginePreempt measures one preemption among 5,000 full nodes, including the failed attempt before it and
// the exchange of the pods after it. The cluster is rebuilt when preemptors have replaced its pods.
func BenchmarkEnginePreempt(b *testing.B) {
	for _, crowd := range placementbench.Crowds() {
		b.Run(crowd.Name, func(b *testing.B) {
			const perCluster = 5000
			var site *placementbench.Site
			victims := 0
			for i := 0; b.Loop(); i++ {
				b.StopTimer()
				if i%perCluster == 0 {
					var err error
					if site, err = placementbench.NewSite(crowd.Cluster(5000)); err != nil {
						b.Fatal(err)
					}
				}
				pod := placementbench.Arrive(crowd.Preemptor(i % perCluster))
				b.StartTimer()
				r, err := site.Preempt(pod, uint64(i))
				if err != nil {
					b.Fatal(err)
				}
				victims += len(r.Victims)
			}
			b.ReportMetric(float64(victims)/float64(b.N), "victims/op")
		})
	}
}
