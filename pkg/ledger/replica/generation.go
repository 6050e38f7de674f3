package replica

import (
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/identity"
)

// Generation returns the one that the view shows.
func (v *View) Generation() identity.Generation { return v.generation }

// IsOpen reports whether members may act on the ledger: its generation is open, and was begun in the store that the
// view shows. A ledger without generations, of a version before them, is open.
func (v *View) IsOpen() bool {
	g := v.generation
	return g.Revision == 0 || g.Open && (v.store == 0 || v.store == g.Store)
}

// Permits reports whether a member whose facts are of an epoch may act on the ledger: IsOpen holds, and the queue
// published the facts after the generation began.
func (v *View) Permits(epoch uint64) bool {
	return v.IsOpen() && (v.generation.FactsAfter == 0 || epoch > v.generation.FactsAfter)
}

func (v *View) putGeneration(kv ledger.KV, set *changeSet) error {
	if kv.ModRevision <= v.generation.Revision {
		return nil
	}
	g, err := identity.DecodeGeneration(kv)
	if err != nil {
		return err
	}
	v.forgetHighest()
	v.generation, set.generation = g, true
	return nil
}

// forgetHighest recomputes the highest high-waters, and how far Kubernetes must have come, from the documents that
// exist. Those of another generation may name resourceVersions that do not exist yet.
func (v *View) forgetHighest() {
	clear(v.highest)
	clear(v.reached)
	for _, d := range v.docs {
		v.raise(d.HW)
		v.reach(d)
	}
	v.raise(v.names.floor.HW)
}
