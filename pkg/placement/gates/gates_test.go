package gates

import (
	"slices"
	"strings"
	"testing"
)

// TestListsAreDisjoint: a gate has one treatment, and one that is not followed has an effect.
func TestListsAreDisjoint(t *testing.T) {
	seen := map[string]bool{}
	for _, g := range All() {
		if seen[g.Name] {
			t.Errorf("%s is in two lists", g.Name)
		}
		seen[g.Name] = true
		if (g.Note == "") != (g.Treatment == Followed) {
			t.Errorf("%s is %s, with note %q", g.Name, g.Treatment, g.Note)
		}
		if strings.HasSuffix(g.Note, ".") {
			t.Errorf("%s: the note ends in a full stop: %q", g.Name, g.Note)
		}
	}
	for _, name := range slices.Concat(alpha, stable) {
		if !seen[name] {
			t.Errorf("%s has a stage, and is in no list", name)
		}
	}
	if !slices.IsSorted(followed) {
		t.Error("the followed gates are not sorted")
	}
}

// TestUnfollowed: only gates that are refused or ignored are reported, in the order of their names.
func TestUnfollowed(t *testing.T) {
	got := Unfollowed([]string{
		"StorageCapacityScoring", "SomethingElse", "DRADeviceTaints", "OpportunisticBatching", "DRANodeAllocatableResources",
	})
	if len(got) != 2 || got[0].Name != "DRANodeAllocatableResources" || got[1].Name != "StorageCapacityScoring" {
		t.Fatalf("unfollowed: %v", got)
	}
	want := "feature gate StorageCapacityScoring is not followed: nodes are not scored by their storage capacity; " +
		"which nodes are feasible is the same"
	if got[1].String() != want {
		t.Errorf("got %q, want %q", got[1], want)
	}
	if list := Unfollowed(nil); list != nil {
		t.Errorf("unfollowed of nothing: %v", list)
	}
}
