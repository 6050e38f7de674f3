package replica

import (
	"iter"
	"maps"
	"strings"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/codec"
)

// Budgets is the part of a View about disruption budgets: what plans have claimed from each.
type Budgets struct {
	byUID map[string]ledger.BudgetDoc
	// ahead are the revisions of shared documents that lost compares have shown, by UID: see Shared. It holds
	// revisions above the view's only; reached removes the others.
	ahead map[string]int64
	docs  *documents
}

func newBudgets(docs *documents) Budgets {
	return Budgets{byUID: map[string]ledger.BudgetDoc{}, ahead: map[string]int64{}, docs: docs}
}

func (b *Budgets) clone(docs *documents) Budgets {
	return Budgets{byUID: maps.Clone(b.byUID), ahead: maps.Clone(b.ahead), docs: docs}
}

// Of returns the document of a disruption budget; an empty one at revision 0 if nothing was ever claimed from it.
func (b *Budgets) Of(pdbUID string) ledger.BudgetDoc {
	if doc, ok := b.byUID[pdbUID]; ok {
		return doc
	}
	floor := &b.docs.floor
	return ledger.BudgetDoc{UID: pdbUID, HW: floor.Of(ledger.KindBudget, ledger.KindPod), Floor: floor.Revision}
}

// Shared returns the document that the budgets of a namespace share (BudgetRoom.Shared), and whether a lost compare
// has shown it ahead of the watch. It then shows that other members have claimed, but not what: only the watch
// delivers that.
func (b *Budgets) Shared(namespace string) (doc ledger.BudgetDoc, ahead bool) {
	doc = b.Of(ledger.SharedBudgetPrefix + namespace)
	doc.Namespace = namespace
	_, ahead = b.ahead[doc.UID]
	return doc, ahead
}

// All iterates over the documents of all disruption budgets, in no order.
func (b *Budgets) All() iter.Seq[ledger.BudgetDoc] { return maps.Values(b.byUID) }

// note records that a lost compare has shown a shared document.
func (b *Budgets) note(kv ledger.KV) {
	if _, shared := ledger.ParseShared(kv.Key); shared {
		b.ahead[strings.TrimPrefix(kv.Key, ledger.PrefixBudget)] = kv.ModRevision
	}
}

// reached forgets the entries of ahead that the watch has caught up with.
func (b *Budgets) reached(revision int64) {
	maps.DeleteFunc(b.ahead, func(_ string, ahead int64) bool { return ahead <= revision })
}

// carryOver keeps what was learned later than the list, which was read at revision.
func (b *Budgets) carryOver(was *Budgets, revision int64) {
	keepAhead(b.ahead, was.ahead, revision)
	keepLater(b.byUID, was.byUID, revision, ledger.BudgetDoc.ReadAt)
}

func (b *Budgets) put(kv ledger.KV, set *changeSet) error {
	return putNewer(b.byUID, kv, codec.DecodeBudget, strings.TrimPrefix(kv.Key, ledger.PrefixBudget), &set.budgets)
}

func (b *Budgets) drop(key string, revision int64, set *changeSet) {
	dropOlder(b.byUID, strings.TrimPrefix(key, ledger.PrefixBudget), revision, &set.budgets)
}
