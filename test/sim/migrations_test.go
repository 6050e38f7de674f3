package sim

import (
	"testing"
)

// TestMigrations plays runs in which a webhook turns evictions into migrations that take place, do not, or are given up,
// while binders, shards and deschedulers come and go: S21, and all that holds of other runs.
func TestMigrations(t *testing.T) {
	const runs = 40
	requests, done := 0, 0
	for seed := *first; seed < *first+runs; seed++ {
		report, err := Run(t.Context(), Options{Seed: seed, Family: string(migrated)})
		if err != nil {
			t.Fatalf("seed %d: %v\nreplay: make sim SEED=%d FAMILY=%s", seed, err, seed, migrated)
		}
		requests, done = requests+report.Requests, done+report.Migrated
	}
	if requests < runs || done < runs/2 {
		t.Errorf("%d requests and %d migrations in %d runs: too few to show anything", requests, done, runs)
	}
	t.Logf("%d requests, %d migrations", requests, done)
}
