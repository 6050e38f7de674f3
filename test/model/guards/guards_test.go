package guards

import (
	"maps"
	"testing"

	"github.com/berth-scheduler/berth/test/model/explore"
	"github.com/berth-scheduler/berth/test/model/exploretest"
)

// maxStates bounds one exploration, and with it the memory of the test.
const maxStates = 8_000_000

func explored(t *testing.T, s scenario, ablated string) explore.Result {
	t.Helper()
	m := &model{scenario: s, ablated: ablated}
	r, err := explore.Run(explore.Model[world]{
		Start: m.start(), Next: m.next, Broken: func(w world) string { return w.broken }, Limit: maxStates,
	})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Bits of the terms in pods.
const (
	first  = 1
	second = 2
	both   = 3
)

func carrier(shard int) pod  { return pod{shard: shard, carries: first, matches: first} }
func repeller(shard int) pod { return pod{shard: shard, carries: first} }
func matcher(shard int) pod  { return pod{shard: shard, matches: first} }

func scenarios() map[string]scenario {
	return map[string]scenario{
		"a pod and one that it repels": {
			terms: []kind{apart}, pods: []pod{repeller(0), matcher(1)}, handOver: true,
		},
		"a pod and one that it repels, not known from the start": {
			terms: []kind{apart}, pods: []pod{repeller(0), matcher(1)}, late: true,
		},
		"a pod and one that it repels, deleted at any time": {
			terms: []kind{apart}, pods: []pod{repeller(0), matcher(1)}, deletes: 2,
		},
		"two that repel each other": {
			terms: []kind{apart}, pods: []pod{carrier(0), carrier(1)}, handOver: true,
		},
		"one that repels two of another shard": {
			terms: []kind{apart}, pods: []pod{repeller(0), matcher(1), matcher(1)},
		},
		"one that is repelled by two of another shard": {
			terms: []kind{apart}, pods: []pod{matcher(0), repeller(1), matcher(1)},
		},
		"two of one spread": {
			terms: []kind{even}, pods: []pod{carrier(0), carrier(1)}, handOver: true,
		},
		"two of one spread, deleted at any time": {
			terms: []kind{even}, pods: []pod{carrier(0), carrier(1)}, deletes: 2,
		},
		"three of one spread, two of them of one shard": {
			terms: []kind{even}, pods: []pod{carrier(0), carrier(0), carrier(1)},
		},
		"two spreads that select each other's pods": {
			terms: []kind{even, even},
			pods:  []pod{{shard: 0, carries: first, matches: both}, {shard: 1, carries: second, matches: both}},
		},
		"two firsts of one kind": {
			terms: []kind{together}, pods: []pod{carrier(0), carrier(1)}, handOver: true, late: true,
		},
		"a first and another that it would follow": {
			terms: []kind{together}, pods: []pod{carrier(0), matcher(1)}, handOver: true,
		},
		"a kind whose first is deleted": {
			terms: []kind{together}, pods: []pod{carrier(0), carrier(1)}, deletes: 2,
		},
		"a term that comes and goes": {
			terms: []kind{apart}, pods: []pod{repeller(0), matcher(1)}, handOver: true, retire: 1,
		},
	}
}

// largeScenarios have millions of states.
func largeScenarios() map[string]scenario {
	return map[string]scenario{
		"one that is repelled by two of another shard, deleted at any time": {
			terms: []kind{apart}, pods: []pod{matcher(0), repeller(1), matcher(1)}, deletes: 1,
		},
		"a term that comes and goes with its second carrier": {
			terms: []kind{apart}, pods: []pod{repeller(0), matcher(1), repeller(0)}, retire: 1,
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
	"compare of the registry":                      "a pod and one that it repels",
	"compare of the matchers' guard":               "a pod and one that it repels",
	"compare of the carriers' guard by matchers":   "a pod and one that it repels",
	"compare of the carriers' guard by carriers":   "two that repel each other",
	"put of the matchers' guard":                   "a pod and one that it repels",
	"put of the carriers' guard":                   "two of one spread",
	"put by those that spread selects":             "two spreads that select each other's pods",
	"compare by the first of its kind":             "two firsts of one kind",
	"put by those that affinity selects":           "a first and another that it would follow",
	"registration of its own":                      "a pod and one that it repels",
	"waiting for the registration":                 "a pod and one that it repels",
	"high-water of the domain":                     "a pod and one that it repels",
	"undescribed pods":                             "a pod and one that it repels, not known from the start",
	"guards from the watch alone":                  "a pod and one that it repels",
	"waiting for an own put that compared nothing": "one that is repelled by two of another shard, deleted at any time",
	"retry of what counted a loser":                "three of one spread, two of them of one shard",
	"retiring in two steps":                        "a term that comes and goes",
	"waiting for carriers":                         "a term that comes and goes",
	"carriers wait while a term retires":           "a term that comes and goes",
	"facts of a retired term":                      "a term that comes and goes",
}

func TestEachPartIsNeeded(t *testing.T) {
	all := scenarios()
	maps.Copy(all, largeScenarios())
	exploretest.Each(t, ablations, nil, func(t *testing.T, ablated, in string) {
		exploretest.Breaks(t, explored(t, all[in], ablated))
	})
}
