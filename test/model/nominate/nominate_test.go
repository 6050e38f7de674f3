package nominate

import (
	"testing"

	"github.com/berth-scheduler/berth/test/model/explore"
	"github.com/berth-scheduler/berth/test/model/exploretest"
)

// maxStates bounds one exploration, and with it the memory of the test.
const maxStates = 30_000_000

func explored(t *testing.T, s scenario, ablated string) explore.Result {
	t.Helper()
	return exploretest.Run(t, (&model{scenario: s, ablated: ablated}).explored(maxStates))
}

// Nodes, as bits and as numbers from 1.
const (
	a, b, c       = 1, 2, 4
	onA, onB, onC = 1, 2, 3
)

func scenarios() map[string]scenario {
	return map[string]scenario{
		"two victims, an intruder of low priority": {
			capacity: []int{2},
			pods: []spec{
				{name: "V", size: 1, runs: onA}, {name: "W", size: 1, runs: onA},
				{name: "P", size: 2, priority: 2, on: a}, {name: "Q", shard: 1, size: 1, priority: 1, on: a},
			},
			limits: limits{plans: 3, aborts: 2, deletes: 1},
		},
		"two preemptors of two nodes, blocked by one pod": {
			capacity: []int{1, 1, 1},
			pods: []spec{
				{name: "V", size: 1, runs: onB},
				{name: "P", size: 1, priority: 1, on: a, blocked: 1},
				{name: "R", shard: 1, size: 1, priority: 1, on: c, blocked: 1},
			},
			limits: limits{plans: 3, aborts: 2, deletes: 1},
		},
		"a preemptor, and one of higher priority": {
			capacity: []int{1, 1},
			pods: []spec{
				{name: "V", size: 1, runs: onB},
				{name: "P", size: 1, priority: 1, on: a, blocked: 1}, {name: "Z", shard: 1, size: 1, priority: 2, on: b},
			},
			limits: limits{plans: 3, aborts: 1, deletes: 1},
		},
		"a place that is taken over": {
			capacity: []int{2},
			pods: []spec{
				{name: "V", size: 1, runs: onA}, {name: "W", size: 1, runs: onA},
				{name: "P", size: 2, priority: 1, on: a}, {name: "Z", shard: 1, size: 2, priority: 2, on: a},
			},
			limits: limits{plans: 3, aborts: 2, deletes: 1},
		},
		"two plans on one node": {
			capacity: []int{3},
			pods: []spec{
				{name: "V", size: 2, runs: onA}, {name: "W", size: 1, runs: onA},
				{name: "P", size: 1, priority: 2, on: a}, {name: "R", shard: 1, size: 2, priority: 2, on: a},
			},
			limits: limits{plans: 3, aborts: 1, deletes: 1},
		},
		"a victim that another pod needs": {
			capacity: []int{1, 1},
			pods: []spec{
				{name: "V", size: 1, runs: onA}, {name: "P", size: 1, priority: 1, on: a},
				{name: "D", shard: 1, size: 1, on: b, needs: 1},
			},
			limits: limits{plans: 2, aborts: 1, deletes: 1},
		},
		"a pod that another scheduler binds": {
			capacity: []int{1},
			pods: []spec{
				{name: "V", size: 1, runs: onA}, {name: "P", size: 1, priority: 1, on: a},
				{name: "X", shard: 1, size: 1, on: a, foreign: true},
			},
			limits: limits{plans: 1, aborts: 1},
		},
	}
}

func largeScenarios() map[string]scenario {
	return map[string]scenario{
		"two nodes, three victims, three that want their place": {
			capacity: []int{2, 2},
			pods: []spec{
				{name: "U", size: 2, runs: onB}, {name: "V", size: 1, runs: onA}, {name: "W", size: 1, runs: onA},
				{name: "P", size: 2, priority: 2, on: a | b}, {name: "Q", shard: 1, size: 1, priority: 1, on: a | b},
				{name: "Z", shard: 1, size: 2, priority: 3, on: a},
			},
			limits: limits{plans: 3, aborts: 1, deletes: 1},
		},
		"three plans on one node": {
			capacity: []int{4},
			pods: []spec{
				{name: "V", size: 2, runs: onA}, {name: "W", size: 1, runs: onA}, {name: "U", size: 1, runs: onA},
				{name: "P", size: 1, priority: 2, on: a}, {name: "R", shard: 1, size: 2, priority: 2, on: a},
				{name: "S", shard: 1, size: 1, priority: 3, on: a},
			},
			limits: limits{plans: 3, aborts: 1},
		},
	}
}

func TestProtocolHolds(t *testing.T) {
	exploretest.Each(t, scenarios(), largeScenarios(), func(t *testing.T, _ string, s scenario) {
		exploretest.Holds(t, explored(t, s, ""))
	})
}

// ablations are the parts of the protocol, each with a scenario that cannot do without it.
var ablations = map[string]string{
	"commit before eviction":               "two victims, an intruder of low priority",
	"the test that it fits now":            "a pod that another scheduler binds",
	"the view of all victims gone":         "two preemptors of two nodes, blocked by one pod",
	"the pin on what a pod relies on":      "a victim that another pod needs",
	"the high-water when a claim goes":     "a victim that another pod needs",
	"the plan that goes with its place":    "a place that is taken over",
	"Held entries count for everybody":     "two victims, an intruder of low priority",
	"sent claims that stay":                "two victims, an intruder of low priority",
	"the mark before the eviction":         "two victims, an intruder of low priority",
	"compare of the victim's document":     "two preemptors of two nodes, blocked by one pod",
	"compare of the holder's document":     "a place that is taken over",
	"claims count for their own plan only": "two plans on one node",
}

func TestEachPartIsNeeded(t *testing.T) {
	exploretest.Each(t, ablations, nil, func(t *testing.T, ablated, in string) {
		exploretest.Breaks(t, explored(t, scenarios()[in], ablated))
	})
}
