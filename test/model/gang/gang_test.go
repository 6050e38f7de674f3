package gang

import (
	"fmt"
	"testing"

	"github.com/berth-scheduler/berth/test/model/explore"
	"github.com/berth-scheduler/berth/test/model/exploretest"
)

// maxStates bounds one exploration, and with it the memory of the test.
const maxStates = 30_000_000

func explored(t *testing.T, s scenario, ablated ...string) explore.Result {
	t.Helper()
	return exploretest.Run(t, newModel(s, ablated...).explored(maxStates))
}

// first are members of the first gang, second those of the second.
func first(names string) []spec  { return members(names, 1, 2) }
func second(names string) []spec { return members(names, 2, 1) }

func members(names string, gang uint8, priority int) (out []spec) {
	for _, name := range names {
		out = append(out, spec{name: byte(name), gang: gang, priority: priority})
	}
	return out
}

func pods(lists ...[]spec) (out []spec) {
	for _, l := range lists {
		out = append(out, l...)
	}
	return out
}

// single is a more important pod of the other shard.
func single() []spec { return []spec{{name: 's', priority: 3, shard: 1}} }

// victims are two pods of one unit, on two nodes.
func victims() []spec { return []spec{{name: 'V', runs: 1, unit: 1}, {name: 'W', runs: 2, unit: 1}} }

// oneGang is on two nodes with room for one pod each, and others may be there.
func oneGang(names string, needed int, others []spec, l limits) scenario {
	return scenario{
		capacity: []int{1, 1},
		gangs:    []gangSpec{{name: 'G', min: needed, priority: 2}},
		pods:     pods(first(names), others),
		limits:   l,
	}
}

// twoGangs want the same two nodes.
func twoGangs(names, later string, needed int, others []spec, l limits) scenario {
	return scenario{
		capacity: []int{1, 1},
		gangs:    []gangSpec{{name: 'G', min: needed, priority: 2}, {name: 'H', min: needed, priority: 1, shard: 1}},
		pods:     pods(first(names), second(later), others),
		limits:   l,
	}
}

// late lets pictures be on their way for any time.
func late(s scenario) scenario {
	s.late = true
	return s
}

// early lets a scenario end before a gang is placed that has room.
func early(s scenario) scenario {
	s.mayEndEarly = true
	return s
}

// twice is two attempts for each gang.
func twice(l limits) limits {
	l.attempts = [maxGangs]uint8{2, 2}
	return l
}

func once(l limits) limits {
	l.attempts = [maxGangs]uint8{1, 1}
	return l
}

func scenarios() map[string]scenario {
	lag := twice(limits{timeouts: 1, answers: 1})
	moves := twice(limits{timeouts: 1, answers: 1, takeovers: 1})
	drop := twice(limits{timeouts: 1, answers: 1, drops: 1})
	fence := twice(limits{timeouts: 1, answers: 1, fences: 1})
	return map[string]scenario{
		"two members, both needed":                 oneGang("gh", 2, single(), moves),
		"two members, one needed":                  oneGang("gh", 1, single(), moves),
		"both needed, and a fence":                 oneGang("gh", 2, single(), fence),
		"one needed, and a fence":                  early(oneGang("gh", 1, single(), fence)),
		"one needed, and a record that is dropped": oneGang("gh", 1, single(), drop),
		"pictures on their way, both needed": late(oneGang("gh", 2, single(),
			twice(limits{answers: 1, timeouts: 1}))),
		"a victim and a free node": oneGang("gh", 2, pods(single(), victims()[:1]), lag),
		"a unit of victims": oneGang("gh", 2, pods(single(), victims()),
			twice(limits{answers: 1})),
		"a unit of victims, one needed": early(oneGang("gh", 1, pods(single(), victims()),
			once(limits{answers: 1}))),
		"a unit of victims for one member": early(oneGang("g", 1, pods(single(), victims()), lag)),
		"a victim, and a unit of victims":  early(roomy(pods(victims(), []spec{{name: 'X', runs: 1}}))),
		"a unit of victims on one node": early(roomy([]spec{{name: 'V', runs: 1, unit: 1},
			{name: 'W', runs: 1, unit: 1}})),
		"another scheduler": oneGang("g", 1, pods(another(), victims()[:1]),
			once(limits{timeouts: 1})),
		"two gangs": twoGangs("gh", "ij", 2, nil, twice(limits{})),
		"two gangs, and an attempt that ends": twoGangs("gh", "ij", 2, nil,
			limits{attempts: [maxGangs]uint8{1, 2}, timeouts: 1}),
		"pictures on their way, a unit of victims": late(oneGang("gh", 2, pods(single(), victims()),
			twice(limits{answers: 1}))),
		"pictures on their way, two gangs": late(twoGangs("gh", "ij", 2, nil, twice(limits{}))),
		"a unit of victims, taken over": early(oneGang("gh", 2, pods(single(), victims()),
			twice(limits{answers: 1, takeovers: 1}))),
		"two gangs and a more important pod": early(twoGangs("gh", "ij", 2, single(),
			once(limits{answers: 1}))),
		"two gangs and a unit of victims":      twoGangs("g", "i", 1, victims(), twice(limits{answers: 1})),
		"a gang in one transaction":            inOne(limits{takeovers: 1, fences: 1, answers: 1}),
		"in one transaction, or by an attempt": early(inOne(once(limits{timeouts: 1, takeovers: 1, fences: 1, answers: 1}))),
	}
}

// roomy has room for two pods on one of the nodes.
func roomy(others []spec) scenario {
	s := oneGang("gh", 1, others, once(limits{timeouts: 1}))
	s.capacity = []int{2, 1}
	return s
}

func another() []spec { return []spec{{name: 'X', foreign: true}} }

// inOne is a gang of which one transaction can place all members.
func inOne(l limits) scenario {
	s := oneGang("gh", 2, single(), l)
	s.gangs[0].whole = true
	return s
}

func largeScenarios() map[string]scenario {
	return map[string]scenario{
		"both needed, three attempts": oneGang("gh", 2, single(),
			limits{attempts: [maxGangs]uint8{3}, timeouts: 2, answers: 1}),
		"pictures on their way, taken over": late(oneGang("gh", 1, single(),
			twice(limits{timeouts: 1, answers: 1, takeovers: 1}))),
		"two gangs, taken over": twoGangs("gh", "ij", 2, nil,
			twice(limits{timeouts: 1, answers: 1, takeovers: 1})),
	}
}

func TestProtocolHolds(t *testing.T) {
	exploretest.Each(t, scenarios(), largeScenarios(), func(t *testing.T, _ string, s scenario) {
		exploretest.Holds(t, explored(t, s))
	})
}

// ablations are the parts of the protocol, each with a scenario that cannot do without it.
var ablations = map[string]string{
	"the count of members, to commit":                "two members, both needed",
	"the binder's look at the record":                "two members, both needed",
	"pledges count":                                  "two members, both needed",
	"a commit is final":                              "two members, both needed",
	"an abort is final":                              "two members, both needed",
	"the record in a displacement":                   "two members, both needed",
	"the compare of the record, to commit":           "two members, both needed",
	"the compare of the epoch":                       "two members, both needed",
	"attempts told apart":                            "two members, both needed",
	"pledges count in a document ahead of the watch": "two members, both needed",
	"resolved before replaced":                       "two members, one needed",
	"reading records from the watch alone":           "two members, one needed",
	"a picture past the record, to bind":             "two members, one needed",
	"no fence of a pledge":                           "both needed, and a fence",
	"ready before marks":                             "a victim and a free node",
	"all claims before ready":                        "a unit of victims for one member",
	"no longer ready after a displacement":           "a victim and a free node",
	"ready before a commit with holds":               "a unit of victims on one node",
	"ready before a hold is displaced":               "a unit of victims for one member",
	"whole units":                                    "a unit of victims for one member",
	"marks of whole units":                           "a unit of victims for one member",
	"claims that move with their unit":               "a unit of victims for one member",
	"no new victims after ready":                     "a victim, and a unit of victims",
	"the test that it fits now":                      "another scheduler",
	"the later yields":                               "two gangs",
	"the earlier does not yield":                     "two gangs",
	"the order of gangs":                             "two gangs",
	"the later waits for the earlier's end":          "two gangs, and an attempt that ends",
	"void pledges do not count":                      "two gangs, and an attempt that ends",
	"the count of members, in one transaction":       "in one transaction, or by an attempt",
	"a gang in one transaction, or not at all":       "a gang in one transaction",
}

func TestEachPartIsNeeded(t *testing.T) {
	exploretest.Each(t, ablations, nil, func(t *testing.T, ablated, in string) {
		exploretest.Breaks(t, explored(t, scenarios()[in], ablated))
	})
}

// doubled are parts that the others make redundant, each with a scenario that would need it if any did.
var doubled = map[string]string{
	"the compare of the record, to pledge":         "two members, both needed",
	"the compare of the record, to drop a pledge":  "two members, both needed",
	"attempts that are never used again":           "one needed, and a record that is dropped",
	"no open attempt of a gang in one transaction": "in one transaction, or by an attempt",
	"resolved before a fence":                      "both needed, and a fence",
}

func TestPartsThatAreDoubled(t *testing.T) {
	exploretest.Each(t, doubled, nil, func(t *testing.T, ablated, in string) {
		exploretest.Holds(t, explored(t, scenarios()[in], ablated))
	})
}

// TestKeysLoseNothing compares the key, which takes states for one that behave alike, with one that does not.
func TestKeysLoseNothing(t *testing.T) {
	for _, s := range []scenario{
		oneGang("gh", 2, single(), once(limits{timeouts: 1})),
		oneGang("gh", 2, nil, once(limits{takeovers: 1, answers: 1, fences: 1})),
		early(oneGang("g", 1, victims(), once(limits{timeouts: 1}))),
		late(oneGang("gh", 2, nil, once(limits{timeouts: 1, answers: 1, takeovers: 1}))),
	} {
		for _, ablated := range []string{"", "the count of members, to commit", "pledges count", "ready before marks"} {
			exploretest.KeyLosesNothing(t, fmt.Sprintf("without %q", ablated), newModel(s, ablated).explored(maxStates))
		}
	}
}
