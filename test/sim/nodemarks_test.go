package sim

import "testing"

// However processes die while nodes have marks for cluster autoscalers, none is left when nothing is withheld or
// promised any more. Nodes are deleted and register again with their marks, and Kubernetes is restored with them.
func TestNodeMarks(t *testing.T) {
	for _, f := range []family{ordinary, moved, claimed, registered, storeReplaced} {
		t.Run(string(f), func(t *testing.T) {
			marks := map[string]int{}
			for seed := *first; seed < *first+max(*seeds/10, 4); seed++ {
				report, err := Run(t.Context(), Options{Seed: seed, Family: string(f), Marks: true})
				if err != nil {
					t.Fatalf("seed %d: %v\nreplay: go test ./test/sim -run 'TestNodeMarks/%s' -first %d", seed, err, f, seed)
				}
				for what, n := range report.Marks {
					marks[what] += n
				}
			}
			t.Logf("marks written: %v", marks)
			if f == moved && (marks["none"] == 0 || marks["kept"] == 0) {
				t.Error("no node was marked, so nothing was tested")
			}
		})
	}
}
