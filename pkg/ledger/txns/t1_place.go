package txns

import (
	"fmt"
	"slices"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/codec"
	"github.com/berth-scheduler/berth/pkg/ledger/registry"
)

// PlaceBatch is T1 (place batch): new reservations of one shard on any number of nodes, together with hand-overs
// (Finish) of the same documents.
//
// Compares: own/<p>.CreateRevision = epoch of every partition the placed pods belong to; t/reg.ModRevision;
// n/<uid>.ModRevision of every document, and x/...ModRevision; the guards whose comparison the placed pods require;
// for documents that do not exist yet incarnation/<name> and floor. Puts: every document, the incarnations of first
// documents, and the guards that the placed pods move.
//
// A crash before it leaves nothing: the next owner of the partitions finds the pods still pending. After it the
// reservations are independent of the shard, bindable by any binder. If the answer is lost, resubmit the identical
// Txn and call Classify, which recognises that the first copy has applied.
type PlaceBatch struct {
	// Epochs are the create revisions of own/<partition> as this shard took them; it includes at least those of all
	// partitions the placed pods belong to.
	Epochs map[int32]int64
	// TermRegistryRevision is the mod revision of t/reg the decisions used, 0 for none.
	TermRegistryRevision int64
	// Docs are the new documents, each with the Revision it was read at.
	Docs []ledger.NodeDoc
	// Placed are the tokens of the entries in Docs that this batch adds.
	Placed []ledger.Token
	// Needs are the further requirements of placements besides their document, by token; most have none.
	Needs map[ledger.Token]Needs
	// Exclusives are the volumes and pools of which placements hold something, as new documents, each with the
	// Revision it was read at: see Hold.
	Exclusives []ledger.ExclusiveDoc
}

// Needs are the requirements that a pod with rules about pods on other nodes has on its transaction.
type Needs struct {
	Guards []registry.GuardUse
	// Pins are the UIDs of the nodes whose documents pin pods that this one relies on.
	Pins []string
	// CountsBatch: the decision is right only if every pod placed in this batch, or in a batch before it, is placed
	// (hard spread: pods counted in other domains made this placement possible).
	CountsBatch bool
}

// Txn builds the transaction. An error means that the batch contradicts itself (see PlaceBatch), that a document
// exceeds its limits (*DocTooLargeError), or that the transaction is too large (*TxnError): then build it from
// fewer placements.
func (b PlaceBatch) Txn() (ledger.Txn, error) {
	if err := b.check(); err != nil {
		return ledger.Txn{}, err
	}
	var t ledger.Txn
	if err := b.mandate().compare(&t); err != nil {
		return ledger.Txn{}, err
	}
	if err := replaceDocs(&t, b.Docs, nil); err != nil {
		return ledger.Txn{}, err
	}
	if err := replaceAll(&t, b.Exclusives, codec.EncodeExclusive); err != nil {
		return ledger.Txn{}, err
	}
	if err := b.guard(&t); err != nil {
		return ledger.Txn{}, err
	}
	return t, t.Validate()
}

// Ops returns how much of MaxTxnOps the transaction will need: the longer of its lists of compares and puts.
func (b PlaceBatch) Ops() int {
	compares, puts := map[string]struct{}{}, map[string]struct{}{}
	for _, n := range b.Needs {
		for _, u := range n.Guards {
			if u.Compare {
				compares[u.Key] = struct{}{}
			}
			if u.Put {
				puts[u.Key] = struct{}{}
			}
		}
	}
	first := 0
	for _, d := range b.Docs {
		if d.Revision == 0 {
			first++ // its incarnation
		}
	}
	// The registry and the floor are compared once.
	return len(b.Docs) + first + len(b.Exclusives) + max(len(b.Epochs)+2+len(compares), len(puts))
}

// guard adds the guards' compares and puts, in the order of their keys. The value of a guard names the last pod of
// the batch that moves it.
func (b PlaceBatch) guard(t *ledger.Txn) error {
	if len(b.Needs) == 0 {
		return nil
	}
	all := map[string]registry.GuardUse{}
	movers := map[string]*ledger.Entry{}
	for _, e := range b.entries() {
		uses := b.Needs[e.Token].Guards
		if err := registry.MergeGuards(all, uses); err != nil {
			return err
		}
		for _, u := range uses {
			if u.Put {
				movers[u.Key] = e
			}
		}
	}
	return registry.MoveGuards(t, all, func(key string) ledger.Entry { return *movers[key] })
}

func (b PlaceBatch) mandate() Authority {
	return Authority{Epochs: b.Epochs, TermRegistryRevision: b.TermRegistryRevision}
}

// entries returns the placed ones, in the order of documents. They are the documents' own: entries are large, and
// are looked at several times.
func (b PlaceBatch) entries() []*ledger.Entry {
	placed := b.placed()
	out := make([]*ledger.Entry, 0, len(placed))
	for _, d := range b.Docs {
		for i := range d.Entries {
			e := &d.Entries[i]
			if _, ok := placed[e.Token]; ok && e.Role == ledger.RoleReservation {
				out = append(out, e)
			}
		}
	}
	return out
}

func (b PlaceBatch) check() error {
	if len(b.Placed) == 0 {
		return fmt.Errorf("ledger: place batch of %d documents places nothing; use Replace to hand over", len(b.Docs))
	}
	found := b.entries()
	for _, e := range found {
		if err := b.mandate().covers("place batch", *e); err != nil {
			return err
		}
		for _, uid := range b.Needs[e.Token].Pins {
			if !b.has(uid) {
				return fmt.Errorf("ledger: place batch: pod %s relies on a pod of node %s, whose document is not given",
					e.PodUID, uid)
			}
		}
	}
	if len(found) != len(b.Placed) {
		return fmt.Errorf("ledger: place batch: %d tokens are placed, but only %d of them are in its documents",
			len(b.Placed), len(found))
	}
	return nil
}

func (b PlaceBatch) has(nodeUID string) bool {
	return slices.ContainsFunc(b.Docs, func(d ledger.NodeDoc) bool { return d.NodeUID == nodeUID })
}

func (b PlaceBatch) placed() map[ledger.Token]struct{} {
	set := make(map[ledger.Token]struct{}, len(b.Placed))
	for _, t := range b.Placed {
		set[t] = struct{}{}
	}
	return set
}
