package names

import (
	"flag"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/berth-scheduler/berth/test/model/explore"
)

var long = flag.Bool("long", false, "explore the large scenarios too")

// maxStates bounds one exploration, and with it the memory of the test.
const maxStates = 40_000_000

func explored(t *testing.T, s scenario, ablated string) explore.Result {
	t.Helper()
	r, err := explore.RunCompact((&model{scenario: s, ablated: ablated}).explored(maxStates))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// pair is a pod of each of two shards.
func pair(l limits) scenario { return scenario{owner: []int{0, 1}, limits: l} }

func scenarios() map[string]scenario {
	return map[string]scenario{
		"registered again":             pair(limits{placements: 3, fences: 1, registrations: 1}),
		"registered again twice":       pair(limits{placements: 3, fences: 1, registrations: 2}),
		"collected without being gone": pair(limits{placements: 3, fences: 1, collections: 2}),
		"a ledger of before incarnations": {
			owner: []int{0, 1}, before: true, limits: limits{placements: 2, fences: 1, registrations: 1, collections: 1},
		},
		"registered again and collected": pair(limits{placements: 3, fences: 1, registrations: 1, collections: 2}),
	}
}

func largeScenarios() map[string]scenario {
	return map[string]scenario{
		"registered again twice and collected": pair(limits{placements: 3, fences: 1, registrations: 2, collections: 2}),
		"three pods": {
			owner: []int{0, 0, 1}, limits: limits{placements: 4, fences: 2, registrations: 1, collections: 1},
		},
		"a ledger of before incarnations, and collected": {
			owner: []int{0, 1}, before: true, limits: limits{placements: 3, fences: 1, registrations: 1, collections: 2},
		},
	}
}

func TestProtocolHolds(t *testing.T) {
	all := scenarios()
	if *long {
		maps.Copy(all, largeScenarios())
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		t.Run(name, func(t *testing.T) {
			r := explored(t, all[name], "")
			if r.Broken != "" {
				t.Fatalf("%s:\n%s", r.Broken, strings.Join(r.History, "\n"))
			}
			t.Logf("%d states, %d steps deep", r.States, r.Depth)
		})
	}
}

// ablations are the parts of the protocol, each with a scenario that cannot do without it.
var ablations = map[string]scenario{
	"incarnations":                        pair(limits{placements: 2, registrations: 1}),
	"the incarnation's compare":           pair(limits{placements: 2, registrations: 1}),
	"documents that T15 supersedes":       pair(limits{placements: 3, fences: 1, registrations: 1}),
	"high-waters handed on":               pair(limits{placements: 2, registrations: 1}),
	"the high-waters of older documents":  pair(limits{placements: 2, registrations: 1}),
	"high-waters that T16 hands on":       pair(limits{placements: 2, registrations: 1, collections: 1}),
	"the floor that T16 raises":           pair(limits{placements: 2, collections: 1}),
	"the floor's high-waters":             pair(limits{placements: 2, collections: 1}),
	"the floor's compare":                 pair(limits{placements: 2, collections: 1}),
	"the floor that T15 starts from":      pair(limits{placements: 3, fences: 1, registrations: 1, collections: 1}),
	"the floor read from the watch alone": pair(limits{placements: 3, registrations: 1, collections: 1}),
	"new documents read from the watch before they are used": {
		owner: []int{0, 0, 1}, limits: limits{placements: 4, fences: 1, registrations: 1, collections: 1},
	},
	"incarnations read from the watch alone": pair(limits{placements: 3, fences: 1, registrations: 2}),
}

func TestEachPartIsNeeded(t *testing.T) {
	for _, ablated := range slices.Sorted(maps.Keys(ablations)) {
		t.Run(ablated, func(t *testing.T) {
			r := explored(t, ablations[ablated], ablated)
			if r.Broken == "" {
				t.Fatalf("nothing is broken without it, in %d states", r.States)
			}
			t.Logf("%d states. %s, after %d steps:\n%s", r.States, r.Broken, len(r.History), strings.Join(r.History, "\n"))
		})
	}
}

// What older documents have counts as long as they are there, and T16 hands it on before it deletes them.
// So T15 would not have to.
func TestDoubledParts(t *testing.T) {
	for _, name := range slices.Sorted(maps.Keys(scenarios())) {
		r := explored(t, scenarios()[name], "high-waters that T15 hands on")
		if r.Broken != "" {
			t.Errorf("%s: %s:\n%s", name, r.Broken, strings.Join(r.History, "\n"))
		}
	}
}
