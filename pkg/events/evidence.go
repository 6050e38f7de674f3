package events

import "time"

// Evidence is what one decision of a shard was computed from, beside what Decision says, and
// what it weighed. A decision is a function of the facts up to FactSequence, of the ledger at
// LedgerRevision, of the pods the shard had staged, of its profile and of the seed.
type Evidence struct {
	// Config is the hash of the pod's profile (placement.Profile.Hash): decisions under
	// different ones are not comparable.
	Config uint64
	// Class is the same for pods that no rule can tell apart, in all shards of one version of
	// Berth; 0 is not known.
	Class uint64
	// LedgerRevision is the revision the decision had applied. (Decision.LedgerRevision is
	// that of the reservation, where one was made.)
	LedgerRevision int64
	// Order counts the decisions of the shard's life (Decision.Actor) that chose a node, from
	// 1; 0 for one that chose none. Staged are the orders of those that it counted although
	// the ledger, at LedgerRevision, did not show them yet; ascending.
	Order  uint64
	Staged []uint64
	// Home: only the shard's home nodes were looked at.
	Home bool
	// Behind is how many nodes were left out because the facts about them were not there yet.
	Behind int32
	// Rejected counts nodes by the rule that said no first. Rules beyond one node (spread,
	// inter-pod affinity) are counted together, under all their names.
	Rejected map[string]int32
	// ScoredBy names the rules that gave points, in the order of Candidate.Points; Candidates
	// are the best nodes, the chosen one among them unless a race was lost for a better one.
	ScoredBy   []string
	Candidates []Candidate
	// Cause is the event that brought the pod to the head of the queue, and Waited how long it
	// stood there before it was offered. Considered is the time from the offer to the choice,
	// Reserved from there to the ledger's answer. In whole microseconds, by the clocks of the
	// queue and of the shard.
	Cause                        string
	Waited, Considered, Reserved time.Duration
	// Basis is what else has to be known to make the decision again.
	Basis Basis
}

// Basis is what a decision depended on that neither the facts nor the ledger nor the pod tell:
// what the shard knew ahead of its watch of the ledger, and whatever came of time, of other
// shards, of kubelets and of the decisions before. Most of it is empty most of the time.
type Basis struct {
	// Moment counts the looks at nodes in the shard's life (Decision.Actor), from 1: of two
	// decisions of a shard, the one with the lower moment was made first. Several records share
	// one if the pod went on to the next-best node after a lost race. 0 is not known: then the
	// decision cannot be made again.
	Moment uint64
	// FactEpoch is the fact epoch at Decision.FactSequence.
	FactEpoch uint64
	// Learned are the changes of the ledger behind Evidence.LedgerRevision that the shard knew
	// already, by its own transactions or by those that it lost.
	Learned []Learned
	// LeftAlone are the nodes that the shard left alone for a while, Avoided those that the pods
	// of this one's owner kept away from, by name, sorted. Unlisted says that there were more
	// nodes left alone than a record lists (MaxLeftAlone).
	LeftAlone, Avoided []string
	Unlisted           bool
	// Spared are the UIDs of pods that are nobody's victims for a while, because they could not be
	// evicted; sorted, and listed as far as LeftAlone.
	Spared []string
	// Preferred is the node, by name, where the shard had a turn to be alone.
	Preferred string
	// Start and HomeStart are where a profile that samples began to look, among all nodes and
	// among the home nodes.
	Start, HomeStart int32
	// Alternative is which of the next-best nodes was taken after lost races, from 1; 0 for the
	// best.
	Alternative int32
	// Way is how the node was found.
	Way Way
	// Whole: the shard prefers no home nodes.
	Whole bool
}

// MaxLeftAlone is how many nodes Basis.LeftAlone lists at most.
const MaxLeftAlone = 64

// Learned is a part of a revision of the ledger: one key of it, or with an empty key all that it has put,
// which was then a transaction of the shard itself.
type Learned struct {
	Revision int64
	Key      string
}

// Way is how a shard came by a node.
type Way uint8

const (
	// WayRanked: the best of the nodes that passed the rules.
	WayRanked Way = iota
	// WayKept: the place that was kept for the pod when the one it replaces was moved.
	WayKept
	// WayOusted: a place that was kept for a less important pod.
	WayOusted
	// WayHeld: a place that is held for it until others have gone. Facts, revision, Staged and Basis
	// are those of the search for victims; the rest of the evidence is about the look at nodes
	// before, which found none.
	WayHeld
	// WayAdvised: extenders were asked about the nodes that passed the rules, or about victims. What they said is
	// not in the log, so that the decision cannot be made again. It is also told of attempts that chose none.
	WayAdvised
)

// Candidate is a node that could have taken the pod.
type Candidate struct {
	Node string
	// Total is the weighted sum, 0 when it was the only one: that is not scored. Points are
	// the shares of the rules in Evidence.ScoredBy.
	Total  int64
	Points []int64
}

// EvidenceCandidates is how many candidates a shard keeps of one decision.
const EvidenceCandidates = 3
