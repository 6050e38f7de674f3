package epochs

import (
	"strings"
	"testing"

	"github.com/berth-scheduler/berth/test/model/explore"
	"github.com/berth-scheduler/berth/test/model/exploretest"
)

// maxStates bounds one exploration, and with it the memory of the test.
const maxStates = 40_000_000

func explored(t *testing.T, m *model) explore.Result {
	t.Helper()
	return exploretest.Run(t, m.explored(maxStates))
}

type scenario struct {
	pods   int
	limits limits
}

func scenarios() map[string]scenario {
	return map[string]scenario{
		"there and back":               {1, limits{placements: 3, takes: 2}},
		"there and back, and a fence":  {1, limits{placements: 3, takes: 2, fences: 1}},
		"there and back with two pods": {2, limits{placements: 3, takes: 2}},
	}
}

func largeScenarios() map[string]scenario {
	return map[string]scenario{
		"there and back twice":                  {1, limits{placements: 4, takes: 4, fences: 1}},
		"there and back with two pods, a fence": {2, limits{placements: 4, takes: 2, fences: 1}},
	}
}

func TestProtocolHolds(t *testing.T) {
	exploretest.Each(t, scenarios(), largeScenarios(), func(t *testing.T, _ string, s scenario) { holds(t, s) })
}

func holds(t *testing.T, s scenario, ablated ...string) {
	t.Helper()
	exploretest.Holds(t, explored(t, &model{pods: s.pods, limits: s.limits, ablated: ablated}))
}

const (
	over  = "what was decided in an epoch that is over is committed"
	twice = "a pod is reserved twice"
)

// needed are parts of the protocol, each with the first violation without it.
var needed = []struct {
	without []string
	// counting: only the consequences count as violations.
	counting bool
	found    string
}{
	{[]string{"the epoch's compare"}, false, over},
	{[]string{"the epoch's compare"}, true, twice},
	{[]string{"the epoch of the decision"}, false, over},
	{[]string{"the epoch of the decision", "a look for a reservation before the commit"}, true, twice},
	{[]string{"a look for a reservation at the decision", "a look for a reservation before the commit"}, false, twice},
	{[]string{"owners read from the watch alone", "the watch at the epoch"}, false, twice},
}

func TestEachPartIsNeeded(t *testing.T) {
	for _, n := range needed {
		name := strings.Join(n.without, ", ") + ": " + n.found
		t.Run(name, func(t *testing.T) {
			m := &model{pods: 1, limits: limits{placements: 3, takes: 2}, ablated: n.without, counting: n.counting}
			r := explored(t, m)
			if r.Broken != n.found {
				t.Fatalf("%q after %d states, want one in which %q", r.Broken, r.States, n.found)
			}
			t.Logf("%d states. %s, after %d steps:\n%s", r.States, r.Broken, len(r.History), strings.Join(r.History, "\n"))
		})
	}
}

// Parts that are doubled: either half is enough.
func TestDoubledParts(t *testing.T) {
	for _, ablated := range []string{
		"a look for a reservation at the decision", "a look for a reservation before the commit",
		"owners read from the watch alone", "the watch at the epoch",
	} {
		t.Run(ablated, func(t *testing.T) { holds(t, scenarios()["there and back, and a fence"], ablated) })
	}
}
