package txns

import (
	"maps"
	"slices"

	"github.com/berth-scheduler/berth/pkg/ledger"
)

// holdsFor returns the keys whose documents have a holder of that reservation.
func holdsFor(docs []ledger.ExclusiveDoc, token ledger.Token) []string {
	var keys []string
	for _, x := range docs {
		if slices.ContainsFunc(x.Holders, func(h ledger.Holder) bool { return h.Token == token }) {
			keys = append(keys, x.Key)
		}
	}
	return keys
}

// Reservations is the part of a view of the ledger that FinishHolders needs; *View implements it.
type Reservations interface {
	// Doc returns the document of a node.
	Doc(nodeUID string) (ledger.NodeDoc, bool)
	// Revision is the revision up to which the view is complete.
	Revision() int64
	// HighWater returns the highest high-water of a kind among all node documents that exist or existed.
	HighWater(kind string) uint64
}

// FinishHolders is T5 (hand-over) of a volume or pool. It drops the holders whose reservation has left the ledger,
// because the facts show the pod bound or gone or because the reservation was taken back. It raises the high-waters
// to those of the node's document, which cover that fact. With a view that is older than the document it changes
// nothing. It returns the document and whether it changed.
//
// Carry it out with a Change, alone or together with other steps: compares x/...ModRevision, puts the document. A
// crash before it leaves holders of reservations that are gone, which keep the volume or items from other pods
// until a member repeats it.
func FinishHolders(x ledger.ExclusiveDoc, view Reservations) (ledger.ExclusiveDoc, bool) {
	if len(x.Holders) == 0 || view.Revision() < x.Revision {
		return x, false
	}
	var kept []ledger.Holder
	hw := maps.Clone(x.HW)
	for _, h := range x.Holders {
		d, known := view.Doc(h.NodeUID)
		if e, ok := d.Find(h.PodUID); known && ok && e.Token == h.Token {
			kept = append(kept, h)
			continue
		}
		if !known {
			hw = ledger.Raised(ledger.Raised(hw, ledger.KindPod, view.HighWater(ledger.KindPod)), ledger.KindClaim,
				view.HighWater(ledger.KindClaim))
			continue
		}
		hw = ledger.Raised(ledger.Raised(hw, ledger.KindPod, d.HW[ledger.KindPod]), ledger.KindClaim, d.HW[ledger.KindClaim])
	}
	if len(kept) == len(x.Holders) {
		return x, false
	}
	x = x.Clone()
	x.Holders, x.HW = kept, hw
	return x, true
}
