package sim

import "testing"

// TestGangs plays runs in which most pods are members of groups, while shards, binders and queues come and go: S8, S23
// and L11, and all that holds of other runs.
func TestGangs(t *testing.T) {
	const runs = 20
	gangs, bound, plans := 0, 0, 0
	for seed := *first; seed < *first+runs; seed++ {
		report, err := Run(t.Context(), Options{Seed: seed, Family: string(grouped)})
		if err != nil {
			t.Fatalf("seed %d: %v\nreplay: make sim SEED=%d FAMILY=%s", seed, err, seed, grouped)
		}
		gangs, bound, plans = gangs+report.Gangs, bound+report.Bound, plans+report.GangPlans
	}
	if gangs == 0 || bound == 0 || plans == 0 {
		t.Errorf("%d revisions with members, %d binds and %d plans in %d runs: nothing was tested",
			gangs, bound, plans, runs)
	}
	t.Logf("%d revisions with members, %d binds and %d plans in %d runs", gangs, bound, plans, runs)
}
