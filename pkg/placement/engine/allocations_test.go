package engine_test

import (
	"testing"

	"github.com/berth-scheduler/berth/pkg/placement/placementbench"
	"github.com/berth-scheduler/berth/pkg/state"
)

// allocationsOfDecision bounds, by workload, the allocations of the engine for deciding about one pod that it has
// not seen before and for adding the pod to its node: a fifth more than it currently needs. Upstream's matcher of
// node affinity allocates for each node that it evaluates, which happens once for each new shape of pods.
var allocationsOfDecision = map[string]float64{
	"basic":              98,
	"basic-unowned":      44,
	"basic-unique":       275,
	"node-affinity":      475,
	"spread":             62,
	"pod-affinity":       124,
	"preferred-affinity": 114,
	"mixed":              148,
}

func TestAllocationsOfDecisions(t *testing.T) {
	const nodes, pods = 200, 200
	for _, w := range placementbench.All() {
		site, err := placementbench.NewSite(w.Cluster(nodes))
		if err != nil {
			t.Fatal(err)
		}
		arrived := make([]*state.Pod, pods+1)
		for i := range arrived {
			arrived[i] = placementbench.Arrive(w.Pending(i))
		}
		var next int
		got := testing.AllocsPerRun(pods, func() { // runs once more before it measures
			r := site.Decide(arrived[next], uint64(next))
			if r.Err != nil || len(r.Feasible) == 0 {
				t.Fatalf("pod %d of %s fits nowhere: %s %v", next, w.Name, r.Diagnosis.Message(), r.Err)
			}
			next++
		})
		budget, ok := allocationsOfDecision[w.Name]
		if !ok {
			t.Errorf("%s: %.0f allocations a decision, and no budget", w.Name, got)
		}
		if got > budget {
			t.Errorf("%s: %.0f allocations a decision, want at most %.0f", w.Name, got, budget)
		}
	}
}
