package txns

import (
	"fmt"
	"maps"
	"slices"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/codec"
	"github.com/berth-scheduler/berth/pkg/ledger/registry"
	"github.com/berth-scheduler/berth/pkg/ledger/roster"
)

// Change replaces documents of any kinds, all at one revision or none of them. T2, T3, T4, T8, T10 and T12 are
// carried out with it. Documents carry the Revision they were read at, and are compared with it.
//
// Compares: the keys that Authority and Guards require; n/, b/, x/ and plan/ .ModRevision of every document. Puts:
// every document except those that are Unchanged, and the guards that move. If the answer is lost, resubmit the
// identical Txn and call Classify.
type Change struct {
	// Authority is the shard's authority to decide; nil for a change that any member may make.
	Authority *Authority
	Docs      []ledger.NodeDoc
	// Unchanged documents are only compared.
	Unchanged      []ledger.NodeDoc
	Budgets        []ledger.BudgetDoc
	Exclusives     []ledger.ExclusiveDoc
	Plans          []ledger.PlanRecord
	UnchangedPlans []ledger.PlanRecord
	// DroppedPlans are records that are deleted, because nothing refers to them any more.
	DroppedPlans []ledger.PlanRecord
	Guards       []registry.GuardUse
	// Incarnations are node names that stand for another node from this change on: see AdmitNode.
	Incarnations []ledger.Incarnation
	// Sign shows that the change has been made.
	Marker Marker
}

// Authority is the authority of a shard to decide about a pod.
type Authority struct {
	// Epochs are the create revisions of own/<partition> as this shard took them; it includes at least those of the
	// partitions of all pods that are placed.
	Epochs map[int32]int64
	// TermRegistryRevision is the mod revision of t/reg the decision used, 0 for none.
	TermRegistryRevision int64
}

// Marker is an entry that is in a document if and, as far as can be determined, only if a change was made: the
// reservation or placeholder of that token, in that state or a later one. A zero Sign proves nothing: a change that
// lost is then decided again on the documents as they are.
type Marker struct {
	NodeUID string
	Token   ledger.Token
	State   ledger.State
}

// in reports whether a document shows the sign.
func (s Marker) in(d ledger.NodeDoc) bool {
	return s.Token != 0 && d.NodeUID == s.NodeUID && slices.ContainsFunc(d.Entries, func(e ledger.Entry) bool {
		return e.Token == s.Token && e.State >= s.State && (e.Role == ledger.RoleReservation || e.Role == ledger.RoleMove)
	})
}

// Txn builds the transaction. An error means that a document exceeds its limits (*DocTooLargeError) or that there
// are too many of them (*TxnError).
func (c Change) Txn() (ledger.Txn, error) {
	var t ledger.Txn
	if c.Authority != nil {
		if err := c.Authority.compare(&t); err != nil {
			return ledger.Txn{}, err
		}
	}
	if err := replaceDocs(&t, c.Docs, c.Incarnations); err != nil {
		return ledger.Txn{}, err
	}
	if err := replaceAll(&t, c.Incarnations, codec.EncodeIncarnation); err != nil {
		return ledger.Txn{}, err
	}
	for _, d := range c.Unchanged {
		t.Compares = append(t.Compares, ledger.Compare{Key: ledger.KeyNode(d.NodeUID), Target: ledger.ModRevision,
			Revision: d.Revision})
		if err := compareFloor(&t, d.Revision, d.Floor); err != nil {
			return ledger.Txn{}, err
		}
	}
	if err := replaceAll(&t, c.Budgets, codec.EncodeBudget); err != nil {
		return ledger.Txn{}, err
	}
	if err := replaceAll(&t, c.Exclusives, codec.EncodeExclusive); err != nil {
		return ledger.Txn{}, err
	}
	if err := replaceAll(&t, c.Plans, codec.EncodePlan); err != nil {
		return ledger.Txn{}, err
	}
	for _, p := range append(slices.Clone(c.UnchangedPlans), c.DroppedPlans...) {
		t.Compares = append(t.Compares, ledger.Compare{Key: p.DocKey(), Target: ledger.ModRevision, Revision: p.Revision})
	}
	for _, p := range c.DroppedPlans {
		t.Deletes = append(t.Deletes, p.DocKey())
	}
	if err := c.guard(&t); err != nil {
		return ledger.Txn{}, err
	}
	return t, t.Validate()
}

func (m Authority) compare(t *ledger.Txn) error {
	for _, p := range slices.Sorted(maps.Keys(m.Epochs)) {
		if p < 0 || p >= ledger.Partitions || m.Epochs[p] <= 0 {
			return fmt.Errorf("ledger: epoch %d of partition %d: want a revision above 0 and a partition below %d",
				m.Epochs[p], p, ledger.Partitions)
		}
		t.Compares = append(t.Compares, ledger.Compare{Key: roster.KeyOwn(p), Target: ledger.CreateRevision,
			Revision: m.Epochs[p]})
	}
	t.Compares = append(t.Compares,
		ledger.Compare{Key: registry.KeyTermRegistry, Target: ledger.ModRevision, Revision: m.TermRegistryRevision})
	return nil
}

// covers checks that the mandate includes the pod's partition.
func (m Authority) covers(step string, e ledger.Entry) error {
	if _, ok := m.Epochs[e.Partition()]; !ok {
		return fmt.Errorf("ledger: %s: pod %s belongs to partition %d, whose epoch is not given",
			step, e.PodUID, e.Partition())
	}
	return nil
}

func (c Change) guard(t *ledger.Txn) error {
	all := map[string]registry.GuardUse{}
	if err := registry.MergeGuards(all, c.Guards); err != nil {
		return err
	}
	mover, _ := c.signed()
	return registry.MoveGuards(t, all, func(string) ledger.Entry { return mover })
}

// signed returns the entry that the Marker refers to.
func (c Change) signed() (ledger.Entry, bool) {
	for _, d := range c.Docs {
		for _, e := range d.Entries {
			if d.NodeUID == c.Marker.NodeUID && e.Token == c.Marker.Token && c.Marker.Token != 0 {
				return e, true
			}
		}
	}
	return ledger.Entry{}, false
}

// floored is a document whose absence is read under a floor.
type floored interface {
	ReadAt() int64
	ReadUnder() int64
}

func replaceAll[T ledger.Document[T]](t *ledger.Txn, docs []T, encode func(T) ([]byte, error)) error {
	for _, d := range docs {
		value, err := encode(d)
		if err != nil {
			return err
		}
		if absent, ok := any(d).(floored); ok {
			if err := compareFloor(t, d.ReadAt(), absent.ReadUnder()); err != nil {
				return err
			}
		}
		t.Compares = append(t.Compares, ledger.Compare{Key: d.DocKey(), Target: ledger.ModRevision, Revision: d.ReadAt()})
		t.Puts = append(t.Puts, ledger.Put{Key: d.DocKey(), Value: value})
	}
	return nil
}

// refreshed returns the documents of a failed transaction that are no longer at the revision they were read at, as
// they are now.
func refreshed[T ledger.Document[T]](docs []T, decode func(ledger.KV) (T, error), r ledger.TxnResult) ([]T, error) {
	var lost []T
	for _, d := range docs {
		kv := r.ValueOf(d.DocKey())
		if kv.ModRevision == d.ReadAt() && !absenceLost(r, d) {
			continue
		}
		now := d.Blank()
		if kv.ModRevision != 0 {
			var err error
			if now, err = decode(kv); err != nil {
				return nil, err
			}
		}
		lost = append(lost, now)
	}
	return lost, nil
}

// absenceLost reports whether a document that was meant to be the first of its key still does not exist, but may
// not be written: the floor has moved since, or another node has the node's name.
func absenceLost(r ledger.TxnResult, d any) bool {
	if of, ok := d.(floored); ok && of.ReadAt() == 0 && r.ValueOf(ledger.KeyFloor).ModRevision != of.ReadUnder() {
		return true
	}
	doc, ok := d.(ledger.NodeDoc)
	return ok && doc.Revision == 0 && r.ValueOf(ledger.KeyIncarnation(doc.NodeName)).ModRevision != 0
}

// Classify classifies the failure of a change from the current values in r. If r succeeded, the change is Applied. A
// change that is not Applied has lost, and must be decided again on the values in Lost; View.Learn accepts the same
// values.
func (c Change) Classify(r ledger.TxnResult) (Outcome, error) {
	if r.Succeeded {
		return Outcome{Applied: true, AppliedAt: r.Revision}, nil
	}
	var lost Outcome
	if c.Authority != nil {
		lost.mandate(*c.Authority, r)
	}
	lost.guards(c.Guards, r)
	lost.names(c.Docs, c.Incarnations, r)
	for _, b := range c.Budgets {
		lost.absence(b, r)
	}
	for _, x := range c.Exclusives {
		lost.absence(x, r)
	}
	err := lost.documents(c, r)
	if err != nil {
		return Outcome{}, err
	}
	for _, d := range lost.Docs {
		if c.Marker.in(d) {
			lost.Applied, lost.AppliedAt = true, max(lost.AppliedAt, d.Revision)
		}
	}
	return lost, nil
}

func (l *Outcome) mandate(m Authority, r ledger.TxnResult) {
	l.RegistryRevision = r.ValueOf(registry.KeyTermRegistry).ModRevision
	l.Registry = l.RegistryRevision != m.TermRegistryRevision
	for _, p := range slices.Sorted(maps.Keys(m.Epochs)) {
		if r.ValueOf(roster.KeyOwn(p)).CreateRevision != m.Epochs[p] {
			l.Partitions = append(l.Partitions, p)
		}
	}
}

func (l *Outcome) documents(c Change, r ledger.TxnResult) error {
	var err error
	if l.Docs, err = refreshed(append(slices.Clone(c.Docs), c.Unchanged...), codec.DecodeNodeDoc, r); err != nil {
		return err
	}
	if l.Budgets, err = refreshed(c.Budgets, codec.DecodeBudget, r); err != nil {
		return err
	}
	if l.Exclusives, err = refreshed(c.Exclusives, codec.DecodeExclusive, r); err != nil {
		return err
	}
	plans := append(append(slices.Clone(c.Plans), c.UnchangedPlans...), c.DroppedPlans...)
	l.Plans, err = refreshed(plans, codec.DecodePlan, r)
	return err
}
