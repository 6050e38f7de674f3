package app

import (
	"strings"
	"testing"
)

// TestDrainGivesToWhoHasLeast also checks the error when there is no other shard.
func TestDrainGivesToWhoHasLeast(t *testing.T) {
	owned := map[string][]int32{"a": {0, 1, 2, 3, 4, 5}, "b": {10, 11, 12}, "c": nil}
	moves, err := drainMoves(owned, "a")
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]int{"b": len(owned["b"])}
	for _, to := range moves {
		got[to]++
	}
	if len(moves) != 6 || got["a"] != 0 || got["b"]+got["c"] != 9 || got["b"]-got["c"] > 1 || got["c"]-got["b"] > 1 {
		t.Errorf("moves %v leave %v, want an even spread over b and c", moves, got)
	}
	for id, shards := range map[string]map[string][]int32{"nobody": owned, "alone": {"alone": {1}}} {
		if _, err := drainMoves(shards, id); err == nil || !strings.Contains(err.Error(), id) {
			t.Errorf("%s: %v, want an error that names it", id, err)
		}
	}
}
