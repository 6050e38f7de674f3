package decide

import (
	"cmp"
	"slices"
	"strings"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/replica"
	"github.com/berth-scheduler/berth/services/binder/decide/bind"
	"github.com/berth-scheduler/berth/services/binder/decide/effect"
)

// ledgerMoved folds the watch in: documents first, then the work that follows from them. So a rule that looks at one
// document never finds another of the same revision missing.
func (c *Core) ledgerMoved(in effect.LedgerChanged) {
	view := c.base.Ledger
	changes, err := view.Fold(in.Batch)
	if err != nil {
		c.stopForLedger(err)
		return
	}
	docs, deleted := moved(changes)
	if changes.Reset {
		docs, deleted = c.relisted()
	}
	var touched bind.Touched
	for _, d := range docs {
		touched = append(touched, c.reservations.Follow(d)...)
	}
	for _, uid := range deleted {
		c.reservations.Forget(uid, view.Revision())
	}
	c.claimsMoved(changes)
	c.base.Revision = max(c.base.Revision, view.Revision()) // hints up to here have met their entry or never will
	c.reservations.Advance(touched)
}

// moved lists the last change of each document that changed and still exists, and the nodes whose document was deleted.
func moved(changes replica.Changes) (docs []*replica.DocChange, deleted []string) {
	var seen map[string]bool
	if len(changes.Docs) > 1 {
		seen = make(map[string]bool, len(changes.Docs))
	}
	for i := range slices.Backward(changes.Docs) {
		c := &changes.Docs[i]
		uid := cmp.Or(c.After.NodeUID, c.Before.NodeUID)
		if seen[uid] {
			continue
		}
		if seen != nil {
			seen[uid] = true
		}
		if c.After.NodeUID == "" {
			deleted = append(deleted, uid)
			continue
		}
		docs = append(docs, c)
	}
	slices.Reverse(docs)
	return docs, deleted
}

// relisted returns what moved returns after a list of the ledger: all documents in the order of their revisions, and
// the nodes that have none any more.
func (c *Core) relisted() (docs []*replica.DocChange, deleted []string) {
	for d := range c.base.Ledger.Docs() {
		change := replica.FirstSeen(d)
		docs = append(docs, &change)
	}
	slices.SortFunc(docs, func(a, b *replica.DocChange) int {
		return cmp.Or(cmp.Compare(a.After.Revision, b.After.Revision), cmp.Compare(a.After.NodeUID, b.After.NodeUID))
	})
	for _, uid := range c.documents.Nodes() {
		if _, present := c.base.Ledger.Doc(uid); !present {
			deleted = append(deleted, uid)
		}
	}
	return docs, deleted
}

// learnKeys applies what one of the binder's own transactions returned.
func (c *Core) learnKeys(in effect.Amended) {
	changes, err := c.base.Ledger.Learn(in.KVs)
	if err != nil {
		c.stopForLedger(err)
		return
	}
	var touched bind.Touched
	for i := range changes.Docs {
		if d := &changes.Docs[i]; d.After.NodeUID != "" {
			touched = append(touched, c.reservations.Follow(d)...)
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
func (c *Core) claimsMoved(changes replica.Changes) {
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
