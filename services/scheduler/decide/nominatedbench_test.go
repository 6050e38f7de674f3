package decide_test

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// BenchmarkNominated measures what pods that are nominated by their status cost the decisions about other pods, on
// 1,000 nodes. They leave room, or take all of it on nine nodes of ten. It is the processor time of the whole process.
func BenchmarkNominated(b *testing.B) {
	const nodes, room = 1000, 100
	for _, test := range []struct {
		nominated, on int
		asks          string
	}{
		{0, nodes, "100m"}, {100, nodes, "100m"}, {10_000, nodes, "100m"}, {10_000, nodes * 9 / 10, "1"},
	} {
		b.Run(fmt.Sprintf("%d of %s on %d", test.nominated, test.asks, test.on), func(b *testing.B) {
			var took []float64
			for b.Loop() {
				p := newPlacerOn(b, true, nodes, room)
				for i := range test.nominated {
					node := func(p *corev1.Pod) { p.Status.NominatedNodeName = fmt.Sprintf("n%d", i%test.on) }
					p.st.addPod(fmt.Sprintf("nominated-%d", i), important(10), asking(test.asks), node)
				}
				took = append(took, p.place(podsInTurn).Seconds())
			}
			slices.Sort(took)
			b.ReportMetric(took[len(took)/2]/podsInTurn*1e6, "cpu-µs/pod")
		})
	}
}
