package evidence

import "time"

// Evidence is the input of one decision of a shard, in addition to what Decision contains, and the alternatives it
// weighed. A decision is a function of the facts up to FactSequence, of the ledger at LedgerRevision, of the pods
// the shard had staged, of its profile and of the seed.
type Evidence struct {
	// Config is the hash of the pod's profile (placement.Profile.Hash): decisions under different profiles are not
	// comparable.
	Config uint64
	// Class is the same for pods that no rule can distinguish, in all shards of one version of Berth; 0 means not
	// known.
	Class uint64
	// LedgerRevision is the revision the decision had applied. (Decision.LedgerRevision is that of the reservation,
	// if one was made.)
	LedgerRevision int64
	// Order counts the decisions of the shard's life (Decision.Actor) that chose a node, from 1; 0 for a decision
	// that chose none. Staged are the orders of those that it counted although the ledger, at LedgerRevision, did
	// not show them yet; ascending.
	Order  uint64
	Staged []uint64
	// Home: only the shard's home nodes were examined.
	Home bool
	// Examined is how many nodes the rules were evaluated for, without those that a rule excludes beforehand (a pod that
	// names its node); Usable is how many nodes the shard had to choose from. Both are 0 where that is not known.
	Examined, Usable int32
	// Stale is how many nodes were left out because the shard's facts about them were not recent enough.
	Stale int32
	// Rejected counts nodes by the first rule that rejected them. Rules beyond one node (spread, inter-pod
	// affinity) are counted together, under all their names.
	Rejected map[string]int32
	// ScoredBy names the rules that gave points, in the order of Candidate.Points. Candidates are the best nodes,
	// including the chosen one unless a race was lost for a better one.
	ScoredBy   []string
	Candidates []Candidate
	// Cause is the event that brought the pod to the head of the queue, and Waited how long it waited there before
	// it was offered. Considered is the time from the offer to the choice, Reserved from there to the ledger's
	// answer. All are in whole microseconds, by the clocks of the queue and of the shard.
	Cause                        string
	Waited, Considered, Reserved time.Duration
	// Basis is the further information that is needed to reproduce the decision.
	Basis Basis
}

// Basis holds what a decision depended on that is neither in the facts nor in the ledger nor in the pod: what the
// shard knew ahead of its watch of the ledger, and the effects of time, of other shards, of kubelets and of earlier
// decisions. Most of it is empty most of the time.
type Basis struct {
	// LookNumber counts the examinations of nodes in the shard's life (Decision.Actor), from 1: of two decisions of a
	// shard, the one with the lower moment was made first. Several records share one if the pod moved on to the
	// next-best node after a lost race. 0 means not known: then the decision cannot be reproduced.
	LookNumber uint64
	// FactEpoch is the fact epoch at Decision.FactSequence.
	FactEpoch uint64
	// Learned are the changes of the ledger after Evidence.LedgerRevision that the shard knew already, from its own
	// transactions or from those that it lost.
	Learned []Learned
	// LeftAlone are the nodes that the shard avoided for a while, Avoided those that the pods of this pod's owner
	// avoided, by name, sorted. Unlisted reports that more nodes were left alone than a record lists
	// (MaxLeftAlone).
	LeftAlone, Avoided []string
	Unlisted           bool
	// Spared are the UIDs of pods that no plan may choose as victims for a while, because they could not be
	// evicted; sorted, with the same limit as LeftAlone.
	Spared []string
	// Preferred is the node, by name, for which the shard had a turn.
	Preferred string
	// Start and HomeStart are the positions at which a profile that samples began to look, among all nodes and
	// among the home nodes.
	Start, HomeStart int32
	// Alternative is which of the next-best nodes was taken after lost races, from 1; 0 for the best.
	Alternative int32
	// Way is how the node was found.
	Way Way
	// NoHomePreference: the shard prefers no home nodes, not even among equally good ones. No member writes it any more.
	NoHomePreference bool
	// AllNodes: home nodes were not tried first, although the pod has no preferences. Near: home nodes came first if they
	// were behind the best node by no more than what so many more such pods would cost that one; 0 for no such
	// preference.
	AllNodes bool
	Near     int32
	// Nominations: pods that no place was held or reserved for were nominated to nodes (status.nominatedNodeName), and
	// held room there against this pod if they were at least as important.
	Nominations bool
}

// MaxLeftAlone is how many nodes Basis.LeftAlone lists at most.
const MaxLeftAlone = 64

// Learned is a part of a revision of the ledger: one key of it, or, if Key is empty, everything that the revision
// has put, which was then a transaction of the shard itself.
type Learned struct {
	Revision int64
	Key      string
}

// Way is how a shard found a node.
type Way uint8

const (
	// WayRanked: the best of the nodes that passed the rules.
	WayRanked Way = iota
	// WayKept: the place that was kept for the pod when the pod it replaces was moved.
	WayKept
	// WayOusted: a place that was kept for a pod of lower priority.
	WayOusted
	// WayHeld: a place that is held for the pod until victims have left. Facts, revision, Staged and Basis are
	// those of the search for victims; the rest of the evidence is about the preceding examination of nodes, which
	// found none.
	WayHeld
	// WayAdvised: extenders were asked about the nodes that passed the rules, or about victims. Their answers are
	// not in the log, so the decision cannot be reproduced. It is also recorded for attempts that chose no node.
	WayAdvised
)

// Candidate is a node that could have taken the pod.
type Candidate struct {
	Node string
	// Total is the weighted sum, 0 for an only candidate, which is not scored. Points are the shares of the rules
	// in Evidence.ScoredBy.
	Total  int64
	Points []int64
}

// MaxCandidates is how many candidates a shard keeps of one decision.
const MaxCandidates = 3
