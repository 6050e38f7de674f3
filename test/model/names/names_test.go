package names

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/berth-scheduler/berth/test/model/explore"
	"github.com/berth-scheduler/berth/test/model/exploretest"
)

// maxStates bounds one exploration, and with it the memory of the test.
const maxStates = 40_000_000

func explored(t *testing.T, s scenario, ablated string) explore.Result {
	t.Helper()
	return exploretest.Run(t, (&model{scenario: s, ablated: ablated}).explored(maxStates))
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
	exploretest.Each(t, scenarios(), largeScenarios(), func(t *testing.T, _ string, s scenario) {
		exploretest.Holds(t, explored(t, s, ""))
	})
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
	exploretest.Each(t, ablations, nil, func(t *testing.T, ablated string, s scenario) {
		exploretest.Breaks(t, explored(t, s, ablated))
	})
}

// The high-waters of older documents count as long as these exist, and T16 hands them on before it deletes the
// documents. So T15 would not have to.
func TestDoubledParts(t *testing.T) {
	for _, name := range slices.Sorted(maps.Keys(scenarios())) {
		r := explored(t, scenarios()[name], "high-waters that T15 hands on")
		if r.Broken != "" {
			t.Errorf("%s: %s:\n%s", name, r.Broken, strings.Join(r.History, "\n"))
		}
	}
}
