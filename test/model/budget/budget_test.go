package budget

import (
	"fmt"
	"testing"

	"github.com/berth-scheduler/berth/test/model/explore"
	"github.com/berth-scheduler/berth/test/model/exploretest"
)

// maxStates bounds one exploration, and with it the memory of the test.
const maxStates = 30_000_000

func explored(t *testing.T, m model) explore.Result {
	t.Helper()
	return exploretest.Run(t, m.explored(maxStates))
}

func scenarios() map[string]scenario {
	return map[string]scenario{
		"a budget of one, by its status": {
			pods: 3, desired: 2, limits: limits{claims: 3, sends: 3, drops: 2},
		},
		"a budget of one, counted": {
			pods: 3, desired: 2, limits: limits{claims: 3, sends: 3, drops: 2, timeouts: 1}, counts: true,
		},
		"a budget of two, by its status": {
			pods: 4, desired: 2, limits: limits{claims: 3, sends: 2, drops: 1},
		},
		"a pod replaced by its namesake": {
			pods: 4, desired: 2, limits: limits{claims: 1, sends: 3, drops: 1, swaps: 1}, counts: true,
		},
		"somebody else evicts": {
			pods: 3, desired: 2, limits: limits{claims: 2, sends: 2, drops: 1, foreign: 2}, counts: true,
		},
	}
}

func largeScenarios() map[string]scenario {
	return map[string]scenario{
		"a budget of two, counted": {
			pods: 4, desired: 2, limits: limits{claims: 3, sends: 3, drops: 1, timeouts: 1}, counts: true,
		},
		"a budget of one, with all of it": {
			pods: 3, desired: 2, limits: limits{claims: 3, sends: 4, drops: 2, timeouts: 2, swaps: 1}, counts: true,
		},
	}
}

func TestProtocolHolds(t *testing.T) {
	exploretest.Each(t, scenarios(), largeScenarios(), func(t *testing.T, _ string, s scenario) {
		exploretest.Holds(t, explored(t, model{scenario: s}))
	})
}

// ablation is a part of the protocol, with a scenario that cannot do without it.
type ablation struct {
	without, in string
	// down: go on until too many pods are down; a broken promise is not enough.
	down bool
}

var ablations = []ablation{
	{without: "the budget's document", in: "a budget of one, by its status"},
	{without: "the budget's document", in: "a budget of one, counted", down: true},
	{without: "the high-water of the budget's document", in: "a budget of one, by its status"},
	{without: "the budget read past the victim's leaving", in: "a budget of one, by its status"},
	{without: "a count of one's own", in: "a budget of one, counted"},
	{without: "a count of one's own", in: "a budget of one, counted", down: true},
	{without: "unknown is not failed", in: "a budget of one, counted"},
	{without: "unknown is not failed", in: "a budget of one, counted", down: true},
	{without: "a look after a failed precondition", in: "a pod replaced by its namesake"},
}

func TestEachPartIsNeeded(t *testing.T) {
	for _, a := range ablations {
		name := a.without
		if a.down {
			name += ", until pods are down"
		}
		t.Run(name, func(t *testing.T) {
			exploretest.Breaks(t, explored(t, model{scenario: scenarios()[a.in], ablated: a.without, down: a.down}))
		})
	}
}

// TestKeysLoseNothing compares the key, which takes states for one that behave alike, with
// one that does not.
func TestKeysLoseNothing(t *testing.T) {
	small := scenario{pods: 3, desired: 2, limits: limits{claims: 2, sends: 2, timeouts: 1}}
	for _, without := range []string{"", "the budget's document", "the high-water of the budget's document"} {
		for _, counts := range []bool{false, true} {
			small.counts = counts
			m := model{scenario: small, ablated: without}
			exploretest.KeyLosesNothing(t, fmt.Sprintf("without %q, counts %v", without, counts), m.explored(maxStates))
		}
	}
}
