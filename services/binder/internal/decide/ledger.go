package decide

import (
	"strings"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/services/binder/internal/bind"
	"github.com/berth-scheduler/berth/services/binder/internal/effect"
)

// ledgerMoved folds the watch in: documents first, then the work that follows from them. So a rule that looks at one
// document never finds another of the same revision missing.
func (c *Core) ledgerMoved(in effect.LedgerMoved) {
	if in.Reset {
		present := make(map[string]bool, len(in.Docs))
		for _, d := range in.Docs {
			present[d.NodeUID] = true
		}
		for _, uid := range c.documents.Nodes() {
			if !present[uid] {
				c.reservations.Forget(uid, in.Revision)
			}
		}
	}
	var touched bind.Touched
	for _, d := range in.Docs {
		touched = append(touched, c.reservations.Learn(d)...)
	}
	for _, uid := range in.Deleted {
		c.reservations.Forget(uid, in.Revision)
	}
	c.foldBatch(in.Batch)
	c.base.Revision = max(c.base.Revision, in.Revision) // hints up to here have met their entry or never will
	c.reservations.Advance(touched)
}

// foldBatch applies a batch of the ledger watch. (Its documents have been learned.)
func (c *Core) foldBatch(b ledger.ViewBatch) {
	changes, err := c.base.Ledger.Fold(b)
	if err != nil {
		c.broken(err)
		return
	}
	c.claimsMoved(changes)
}

// learnKeys applies what one of the binder's own transactions returned.
func (c *Core) learnKeys(in effect.Amended) {
	changes, err := c.base.Ledger.Learn(in.KVs)
	if err != nil {
		c.broken(err)
		return
	}
	var touched bind.Touched
	for _, d := range changes.Docs {
		if d.After.NodeUID != "" {
			touched = append(touched, c.reservations.Learn(d.After)...)
		}
	}
	for i := range in.KVs {
		if uid, is := strings.CutPrefix(in.KVs[i].Key, ledger.PrefixNode); is {
			c.documents.Vouch(uid, in.Op)
		}
	}
	c.claimsMoved(changes)
	c.reservations.Advance(touched)
}

// claimsMoved brings plans and removals in line with the documents that changed, and advances them.
func (c *Core) claimsMoved(changes ledger.ViewChanges) {
	if changes.Generation {
		c.forgetVersions()
		c.evictor.RefuseOlder()
	}
	if changes.Reset {
		c.base.ForgetFates()
	}
	c.evictor.Follow(changes)
}

// forgetVersions drops everything that is kept about resourceVersions: with a new generation of the ledger, they may
// be versions that Kubernetes has yet to reach again.
func (c *Core) forgetVersions() {
	c.base.ForgetFates()
	c.reservations.ForgetVersions()
	c.status.ForgetVersions()
}

// vouchRead records that a document was read, if the view of the ledger has the version that was read.
func (c *Core) vouchRead(in effect.DocRead) {
	if in.Problem != "" || in.Doc == nil {
		return
	}
	if known, ok := c.base.Ledger.Doc(in.Doc.NodeUID); ok && known.Revision >= in.Doc.Revision {
		c.documents.Vouch(in.Doc.NodeUID, in.Op)
	}
}
