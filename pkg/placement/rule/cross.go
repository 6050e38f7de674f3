package rule

import (
	"github.com/berth-scheduler/berth/pkg/state"
)

// CrossRule is one hard rule of a pod whose result depends on pods on other nodes. A caller that decides
// concurrently with others must make sure that the result still holds when the decision is carried out
// (pkg/ledger/guard). Rules about one node need no such care: the ledger compares the node's document.
type CrossRule struct {
	Kind CrossKind
	// TopologyKey is the node label whose values are the rule's domains. It is empty for CrossTogether, whose terms
	// have one each.
	TopologyKey string
	// Terms select the pods that the rule counts: those that match all terms. Only CrossTogether has more than one.
	Terms []state.AffinityTerm
}

// CrossKind is the requirement that a CrossRule expresses.
type CrossKind uint8

// The kinds of rules that reach beyond one node.
const (
	// CrossApart is required anti-affinity, with one term.
	CrossApart CrossKind = iota + 1
	// CrossSpread is a hard spread constraint, the pod's own or a default one.
	CrossSpread
	// CrossTogether is all required affinity terms of the pod.
	CrossTogether
)
