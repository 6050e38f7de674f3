package sim

import "testing"

// TestMigrations plays runs in which a webhook turns evictions into migrations that take place, do not, or are given
// up, while binders, shards and deschedulers come and go: S21, and all that holds of other runs.
func TestMigrations(t *testing.T) {
	const runs = 20
	requests, done := 0, 0
	for seed := *first; seed < *first+runs; seed++ {
		report, err := Run(t.Context(), Options{Seed: seed, Family: string(migrated)})
		if err != nil {
			t.Fatalf("seed %d: %v\nreplay: make sim SEED=%d FAMILY=%s", seed, err, seed, migrated)
		}
		requests, done = requests+report.Requests, done+report.Migrated
	}
	if requests == 0 || done == 0 {
		t.Errorf("%d requests and %d migrations in %d runs: nothing was tested", requests, done, runs)
	}
	t.Logf("%d requests and %d migrations in %d runs", requests, done, runs)
}
