package reserve

import (
	"flag"
	"fmt"
	"testing"

	"github.com/berth-scheduler/berth/test/model/explore"
	"github.com/berth-scheduler/berth/test/model/exploretest"
)

// bounds explores one scenario of one's own: two nodes for two pods each, three pods of two shards.
var bounds = flag.String("bounds", "",
	"explore with at most so many placements, fences, updates, deletes, outages (such as 4,1,1,1,1) instead")

// maxStates bounds one exploration, and with it the memory of the test: about 150 bytes each.
const maxStates = 60_000_000

func explored(t *testing.T, s scenario, ablated string) explore.Result {
	t.Helper()
	return exploretest.Run(t, newModel(s, ablated).explored(maxStates))
}

// cluster has two nodes with room for two pods each, and three pods: two of one shard.
func cluster(l limits) scenario {
	return scenario{nodes: 2, capacity: 2, owner: []int{0, 0, 1}, limits: l}
}

// apart has decisions and commits at different times.
func apart(l limits) scenario {
	s := cluster(l)
	s.apart = true
	return s
}

func scenarios() map[string]scenario {
	return map[string]scenario{
		"a fence, and a pod that others change": cluster(limits{placements: 4, fences: 1, updates: 1}),
		"a fence, and a pod that is deleted":    cluster(limits{placements: 4, fences: 1, deletes: 1}),
		"a log that loses its tail":             cluster(limits{placements: 3, outages: 1}),
		"decided now, committed later":          apart(limits{placements: 3}),
	}
}

func largeScenarios() map[string]scenario {
	return map[string]scenario{
		"a fence, a change and a deletion":          cluster(limits{placements: 4, fences: 1, updates: 1, deletes: 1}),
		"two fences":                                cluster(limits{placements: 4, fences: 2}),
		"a log that loses its tail, and a fence":    cluster(limits{placements: 3, fences: 1, outages: 1}),
		"a log that loses its tail, and a change":   cluster(limits{placements: 3, updates: 1, outages: 1}),
		"a log that loses its tail, and a deletion": cluster(limits{placements: 3, deletes: 1, outages: 1}),
		"decided now, committed later, a fence":     apart(limits{placements: 4, fences: 1, updates: 1}),
		"three shards with a pod each": {
			nodes: 2, capacity: 2, owner: []int{0, 1, 2}, limits: limits{placements: 4, fences: 1},
		},
	}
}

func TestProtocolHolds(t *testing.T) {
	if *bounds != "" {
		var l limits
		if _, err := fmt.Sscanf(*bounds, "%d,%d,%d,%d,%d",
			&l.placements, &l.fences, &l.updates, &l.deletes, &l.outages); err != nil {
			t.Fatalf("-bounds %q: want five numbers with commas: %v", *bounds, err)
		}
		holds(t, cluster(l))
		return
	}
	exploretest.Each(t, scenarios(), largeScenarios(), func(t *testing.T, _ string, s scenario) { holds(t, s) })
}

func holds(t *testing.T, s scenario) {
	t.Helper()
	exploretest.Holds(t, explored(t, s, ""))
}

// ablations are the parts of the protocol, each with a scenario that cannot do without it.
var ablations = map[string]scenario{
	"compare of the document":                  cluster(limits{placements: 3}),
	"the high-water":                           cluster(limits{placements: 3}),
	"entries that do not expire":               cluster(limits{placements: 3, fences: 1}),
	"the change of the pod":                    cluster(limits{placements: 3, fences: 1}),
	"the mark before the change":               cluster(limits{placements: 3, fences: 1}),
	"the look after the change":                cluster(limits{placements: 3, fences: 1}),
	"the resourceVersion precondition":         cluster(limits{placements: 3, fences: 1}),
	"the pod read before the document":         cluster(limits{placements: 3, fences: 1}),
	"progress beside the facts":                cluster(limits{placements: 3, updates: 1, outages: 1}),
	"facts kept one by one":                    cluster(limits{placements: 3, updates: 1}),
	"the reader's notice of a lost tail":       cluster(limits{placements: 3, updates: 1, outages: 1}),
	"the writer's notice of a lost tail":       cluster(limits{placements: 3, outages: 1}),
	"no progress while a leader writes":        cluster(limits{placements: 3, outages: 1}),
	"commit on the revision decided on":        apart(limits{placements: 3}),
	"the binder's own watch, with early hints": apart(limits{placements: 3}),
}

func TestEachPartIsNeeded(t *testing.T) {
	exploretest.Each(t, ablations, nil, func(t *testing.T, ablated string, s scenario) {
		exploretest.Breaks(t, explored(t, s, ablated))
	})
}

// exact are scenarios small enough to be explored without merging any states.
var exact = []struct {
	without string
	limits  limits
}{
	{"", limits{placements: 3}},
	{"the high-water", limits{placements: 3}},
	{"compare of the document", limits{placements: 3}},
	{"the change of the pod", limits{placements: 3, fences: 1}},
	{"the mark before the change", limits{placements: 3, fences: 1}},
	{"the resourceVersion precondition", limits{placements: 3, fences: 1}},
	{"facts kept one by one", limits{placements: 3, updates: 1}},
	{"the writer's notice of a lost tail", limits{placements: 3, outages: 1}},
}

// TestKeysLoseNothing compares the key, which takes states for one that behave alike, with
// one that does not.
func TestKeysLoseNothing(t *testing.T) {
	for _, e := range exact {
		m := newModel(cluster(e.limits), e.without)
		exploretest.KeyLosesNothing(t, fmt.Sprintf("without %q", e.without), m.explored(maxStates))
	}
}
