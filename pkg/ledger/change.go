package ledger

import (
	"fmt"
	"maps"
	"slices"
)

// Change replaces documents of any kinds, all at one revision or none of them. T2, T3, T4, T8, T10 and T12 are
// carried out with it. Documents carry the Revision they were read at, and are compared with it.
//
// Compares: the keys that Mandate and Guards require; n/, b/, x/ and plan/ .ModRevision of every document. Puts:
// every document except those that are Unchanged, and the guards that move. If the answer is lost, resubmit the
// identical Txn and call Losers.
type Change struct {
	// Mandate is the shard's authority to decide; nil for a change that any member may make.
	Mandate *Mandate
	Docs    []NodeDoc
	// Unchanged documents are only compared.
	Unchanged      []NodeDoc
	Budgets        []BudgetDoc
	Exclusives     []ExclusiveDoc
	Plans          []PlanRecord
	UnchangedPlans []PlanRecord
	// DroppedPlans are records that are deleted, because nothing refers to them any more.
	DroppedPlans []PlanRecord
	Guards       []GuardUse
	// Incarnations are node names that stand for another node from this change on: see AdmitNode.
	Incarnations []Incarnation
	// Sign shows that the change has been made.
	Sign Sign
}

// Mandate is the authority of a shard to decide about a pod.
type Mandate struct {
	// Epochs are the create revisions of own/<partition> as this shard took them; it includes at least those of the
	// partitions of all pods that are placed.
	Epochs map[int32]int64
	// TermRegistryRevision is the mod revision of t/reg the decision used, 0 for none.
	TermRegistryRevision int64
}

// Sign is an entry that is in a document if and, as far as can be determined, only if a change was made: the
// reservation or placeholder of that token, in that state or a later one. A zero Sign proves nothing: a change that
// lost is then decided again on the documents as they are.
type Sign struct {
	NodeUID string
	Token   Token
	State   State
}

// in reports whether a document shows the sign.
func (s Sign) in(d NodeDoc) bool {
	return s.Token != 0 && d.NodeUID == s.NodeUID && slices.ContainsFunc(d.Entries, func(e Entry) bool {
		return e.Token == s.Token && e.State >= s.State && (e.Role == RoleReservation || e.Role == RoleMove)
	})
}

// Txn builds the transaction. An error means that a document exceeds its limits (*DocTooLargeError) or that there
// are too many of them (*TxnError).
func (c Change) Txn() (Txn, error) {
	var t Txn
	if c.Mandate != nil {
		if err := c.Mandate.compare(&t); err != nil {
			return Txn{}, err
		}
	}
	if err := t.replaceDocs(c.Docs, c.Incarnations); err != nil {
		return Txn{}, err
	}
	if err := replaceAll(&t, c.Incarnations, EncodeIncarnation); err != nil {
		return Txn{}, err
	}
	for _, d := range c.Unchanged {
		t.Compares = append(t.Compares, Compare{Key: KeyNode(d.NodeUID), Target: ModRevision, Revision: d.Revision})
		if err := t.absent(d.Revision, d.Floor); err != nil {
			return Txn{}, err
		}
	}
	if err := replaceAll(&t, c.Budgets, EncodeBudget); err != nil {
		return Txn{}, err
	}
	if err := replaceAll(&t, c.Exclusives, EncodeExclusive); err != nil {
		return Txn{}, err
	}
	if err := replaceAll(&t, c.Plans, EncodePlan); err != nil {
		return Txn{}, err
	}
	for _, p := range append(slices.Clone(c.UnchangedPlans), c.DroppedPlans...) {
		t.Compares = append(t.Compares, Compare{Key: p.key(), Target: ModRevision, Revision: p.Revision})
	}
	for _, p := range c.DroppedPlans {
		t.Deletes = append(t.Deletes, p.key())
	}
	if err := c.guard(&t); err != nil {
		return Txn{}, err
	}
	return t, t.Validate()
}

func (m Mandate) compare(t *Txn) error {
	for _, p := range slices.Sorted(maps.Keys(m.Epochs)) {
		if p < 0 || p >= Partitions || m.Epochs[p] <= 0 {
			return fmt.Errorf("ledger: epoch %d of partition %d: want a revision above 0 and a partition below %d",
				m.Epochs[p], p, Partitions)
		}
		t.Compares = append(t.Compares, Compare{Key: KeyOwn(p), Target: CreateRevision, Revision: m.Epochs[p]})
	}
	t.Compares = append(t.Compares,
		Compare{Key: KeyTermRegistry, Target: ModRevision, Revision: m.TermRegistryRevision})
	return nil
}

// covers checks that the mandate includes the pod's partition.
func (m Mandate) covers(step string, e Entry) error {
	if _, ok := m.Epochs[e.Partition()]; !ok {
		return fmt.Errorf("ledger: %s: pod %s belongs to partition %d, whose epoch is not given",
			step, e.PodUID, e.Partition())
	}
	return nil
}

func (c Change) guard(t *Txn) error {
	all := map[string]GuardUse{}
	if err := mergeGuards(all, c.Guards); err != nil {
		return err
	}
	mover, _ := c.signed()
	return moveGuards(t, all, func(string) Entry { return mover })
}

// signed returns the entry that the Sign refers to.
func (c Change) signed() (Entry, bool) {
	for _, d := range c.Docs {
		for _, e := range d.Entries {
			if d.NodeUID == c.Sign.NodeUID && e.Token == c.Sign.Token && c.Sign.Token != 0 {
				return e, true
			}
		}
	}
	return Entry{}, false
}

// document is a value of a key that is changed by compare-and-set on its mod revision.
type document[T any] interface {
	key() string
	revision() int64
	// blank returns the document in the form that stands for one that does not exist.
	blank() T
}

// floored is a document whose absence is read under a floor.
type floored interface {
	revision() int64
	floor() int64
}

func (d NodeDoc) floor() int64 { return d.Floor }

func (d NodeDoc) key() string { return KeyNode(d.NodeUID) }

func (d NodeDoc) revision() int64 { return d.Revision }

func (d NodeDoc) blank() NodeDoc { return NodeDoc{NodeUID: d.NodeUID, NodeName: d.NodeName} }

func (i Incarnation) key() string { return KeyIncarnation(i.NodeName) }

func (i Incarnation) revision() int64 { return i.Revision }

func (i Incarnation) blank() Incarnation { return Incarnation{NodeName: i.NodeName} }

func replaceAll[T document[T]](t *Txn, docs []T, encode func(T) ([]byte, error)) error {
	for _, d := range docs {
		value, err := encode(d)
		if err != nil {
			return err
		}
		if absent, ok := any(d).(floored); ok {
			if err := t.absent(d.revision(), absent.floor()); err != nil {
				return err
			}
		}
		t.Compares = append(t.Compares, Compare{Key: d.key(), Target: ModRevision, Revision: d.revision()})
		t.Puts = append(t.Puts, Put{Key: d.key(), Value: value})
	}
	return nil
}

// refreshed returns the documents of a failed transaction that are no longer at the revision they were read at, as
// they are now.
func refreshed[T document[T]](docs []T, decode func(KV) (T, error), r TxnResult) ([]T, error) {
	var lost []T
	for _, d := range docs {
		kv := r.current(d.key())
		if kv.ModRevision == d.revision() && !r.absenceLost(d) {
			continue
		}
		now := d.blank()
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
func (r TxnResult) absenceLost(d any) bool {
	if of, ok := d.(floored); ok && of.revision() == 0 && r.current(KeyFloor).ModRevision != of.floor() {
		return true
	}
	doc, ok := d.(NodeDoc)
	return ok && doc.Revision == 0 && r.current(KeyIncarnation(doc.NodeName)).ModRevision != 0
}

// Losers classifies the failure of a change from the current values in r. If r succeeded, the change is Applied. A
// change that is not Applied has lost, and must be decided again on the values in Lost; View.Learn accepts the same
// values.
func (c Change) Losers(r TxnResult) (Lost, error) {
	if r.Succeeded {
		return Lost{Applied: true, AppliedAt: r.Revision}, nil
	}
	var lost Lost
	if c.Mandate != nil {
		lost.mandate(*c.Mandate, r)
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
		return Lost{}, err
	}
	for _, d := range lost.Docs {
		if c.Sign.in(d) {
			lost.Applied, lost.AppliedAt = true, max(lost.AppliedAt, d.Revision)
		}
	}
	return lost, nil
}

func (l *Lost) mandate(m Mandate, r TxnResult) {
	l.RegistryRevision = r.current(KeyTermRegistry).ModRevision
	l.Registry = l.RegistryRevision != m.TermRegistryRevision
	for _, p := range slices.Sorted(maps.Keys(m.Epochs)) {
		if r.current(KeyOwn(p)).CreateRevision != m.Epochs[p] {
			l.Partitions = append(l.Partitions, p)
		}
	}
}

func (l *Lost) documents(c Change, r TxnResult) error {
	var err error
	if l.Docs, err = refreshed(append(slices.Clone(c.Docs), c.Unchanged...), DecodeNodeDoc, r); err != nil {
		return err
	}
	if l.Budgets, err = refreshed(c.Budgets, DecodeBudget, r); err != nil {
		return err
	}
	if l.Exclusives, err = refreshed(c.Exclusives, DecodeExclusive, r); err != nil {
		return err
	}
	plans := append(append(slices.Clone(c.Plans), c.UnchangedPlans...), c.DroppedPlans...)
	l.Plans, err = refreshed(plans, DecodePlan, r)
	return err
}
