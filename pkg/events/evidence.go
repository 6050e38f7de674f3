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
}

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
