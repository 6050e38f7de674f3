package registry

import (
	"fmt"
	"maps"
	"slices"

	"github.com/berth-scheduler/berth/pkg/ledger"
)

// Limits of the registry. Every member keeps all terms in memory and evaluates them for each pod. A cluster has one
// term for each way of selecting pods that its workloads with hard rules use.
const (
	// MaxTerms is how many terms may be registered. FullError explains what happens beyond that,
	// TermShareError how many of them one namespace may have.
	MaxTerms = 4096
	// MaxPodTerms is how many terms with guards one pod may carry. In its transaction each takes two compares of
	// MaxTxnOps. The node's document and incarnation, the epoch, the registry, the floor and the record of a plan
	// take six, which leaves room for 61 terms. The rest is for pods that it follows, volumes and pools of devices.
	MaxPodTerms = 60
	// MaxTermBytes bounds one stored term: 60 affinity terms with long labels, which form a single term here.
	MaxTermBytes = 32 << 10
	// maxTermsPerTxn and maxTermTxnBytes bound what one transaction registers or retires: all small terms
	// of one pod. The rest of MaxTxnBytes is for t/reg, and for the mark of terms that retire.
	maxTermsPerTxn  = 64
	maxTermTxnBytes = ledger.MaxTxnBytes - 4<<10
)

// FullError reports that a term cannot be registered: its carriers cannot be placed until other terms are
// dropped.
type FullError struct{ Terms, New int }

func (e *FullError) Error() string {
	return fmt.Sprintf(
		"ledger: %d terms about pods on other nodes are registered and %d more are needed, want at most %d: "+
			"wait until unused terms are dropped", e.Terms, e.New, MaxTerms)
}

// TermShareError reports that a namespace has used up its share of the registry.
type TermShareError struct {
	Namespace string
	// Terms is how many it has, New how many it would add, and Free how many would be left for other namespaces.
	Terms, New, Free int
}

func (e *TermShareError) Error() string {
	return fmt.Sprintf(
		"ledger: namespace %s has %d terms about pods on other nodes registered and needs %d more: a namespace may have as "+
			"many as remain free of %d, now %d; wait until unused terms are dropped",
		e.Namespace, e.Terms, e.New, MaxTerms, e.Free)
}

// TermSizeError reports a term that is too large to be registered.
type TermSizeError struct {
	Term  TermID
	Bytes int
}

func (e *TermSizeError) Error() string {
	return fmt.Sprintf("ledger: term %s about pods on other nodes has %d bytes, want at most %d: "+
		"select by fewer labels, values and namespaces", e.Term, e.Bytes, MaxTermBytes)
}

// TermDemand counts the terms that a pod, or several pods of one namespace, would add to the registry.
type TermDemand struct {
	Namespace string
	// Terms is how many terms there are, Own how many of them count against the namespace.
	Terms, Own int
	// New is how many terms are not registered, Moved how many count against another namespace so far.
	New, Moved int
}

// Check returns a *FullError or a *TermShareError if the demand cannot be met.
//
// A namespace may have as many terms as remain free. So one namespace alone gets half of the registry, and whatever
// others have taken, the next one gets half of the rest. (This is a dynamic threshold: Choudhury and Hahne, Dynamic
// Queue Length Thresholds for Shared-Memory Packet Switches, 1998. A fixed share would be too small for a cluster
// with one namespace, and too large for one where many namespaces use theirs up.) It needs no state but the
// registry.
func (d TermDemand) Check() error {
	free := MaxTerms - d.Terms - d.New
	switch {
	case free < 0:
		return &FullError{Terms: d.Terms, New: d.New}
	case d.Namespace != "" && d.New+d.Moved > 0 && d.Own+d.New+d.Moved > free:
		return &TermShareError{Namespace: d.Namespace, Terms: d.Own, New: d.New + d.Moved, Free: free}
	}
	return nil
}

// CheckTerm returns a *TermSizeError if a term is too large to be registered at all.
func CheckTerm(t RegisteredTerm) error {
	value, err := EncodeTerm(t)
	if err == nil && len(value) > MaxTermBytes {
		err = &TermSizeError{Term: t.ID(), Bytes: len(value)}
	}
	return err
}

// TermsInTxn returns how many of the given terms, from the first on, one transaction registers or retires.
func TermsInTxn(terms []RegisteredTerm) int {
	bytes := 0
	for n, t := range terms {
		value, err := EncodeTerm(t)
		bytes += ledger.Put{Key: KeyTerm(t.ID()), Value: value}.Bytes()
		if n > 0 && (n == maxTermsPerTxn || err != nil || bytes > maxTermTxnBytes) {
			return n
		}
	}
	return len(terms)
}

// Terms are the registered terms, as a member knows them (replica.Terms).
type Terms interface {
	// Get returns a registered term.
	Get(id TermID) (RegisteredTerm, bool)
	// Count returns how many terms are registered.
	Count() int
	// CountOf returns how many terms count against a namespace's share.
	CountOf(namespace string) int
}

// RegisterTerms is T11 (register terms): terms become known to every placement, or, if they were retiring, usable
// by carriers again. known are the terms that are registered at r.
//
// Compares: t/reg.ModRevision. Puts: t/<id> of each, t/reg. A crash before it leaves nothing, after it terms that
// are dropped eventually. It is a transaction of its own, before the first carrier is placed: a pod that a term
// selects and that was placed before the term was registered has left no trace on the term's guards, so the
// carrier's shard must have read the ledger up to the registration when it decides. Every placement compares t/reg,
// so that none commits without knowing the terms.
//
// *FullError, *TermShareError or *TermSizeError when they cannot be accepted, *TxnError when they are too
// many for one transaction.
func RegisterTerms(r Registry, known Terms, terms ...RegisteredTerm) (ledger.Txn, error) {
	demands := map[string]*TermDemand{}
	all := 0
	for _, t := range terms {
		if err := CheckTerm(t); err != nil {
			return ledger.Txn{}, err
		}
		d, ok := demands[t.Namespace]
		if !ok {
			d = &TermDemand{Namespace: t.Namespace, Own: known.CountOf(t.Namespace)}
			demands[t.Namespace] = d
		}
		switch old, there := known.Get(t.ID()); {
		case !there:
			d.New, all = d.New+1, all+1
		case old.Namespace != t.Namespace:
			d.Moved++
		}
	}
	for _, namespace := range slices.Sorted(maps.Keys(demands)) {
		d := demands[namespace]
		d.Terms = known.Count() + all - d.New
		if err := d.Check(); err != nil {
			return ledger.Txn{}, err
		}
	}
	return changeRegistry(r, r.PodRV, terms, false)
}

// RetireTerms makes registered terms unusable for carriers, so that they can be dropped once every pod that carries
// them is bound or gone.
//
// Compares: t/reg.ModRevision. Puts: t/<id> of each, t/reg. A crash before it leaves nothing, after it terms that
// the next carrier registers again or that are dropped.
func RetireTerms(r Registry, terms ...RegisteredTerm) (ledger.Txn, error) {
	return changeRegistry(r, r.PodRV, terms, true)
}

func changeRegistry(r Registry, podRV uint64, terms []RegisteredTerm, retiring bool) (ledger.Txn, error) {
	if len(terms) == 0 {
		return ledger.Txn{}, fmt.Errorf("ledger: registry of terms: no term is given")
	}
	t, err := putRegistry(r, podRV)
	if err != nil {
		return ledger.Txn{}, err
	}
	for _, term := range terms {
		term.Retiring = retiring
		value, err := EncodeTerm(term)
		if err != nil {
			return ledger.Txn{}, err
		}
		t.Puts = append(t.Puts, ledger.Put{Key: KeyTerm(term.ID()), Value: value})
	}
	return t, t.Validate()
}

func putRegistry(r Registry, podRV uint64) (ledger.Txn, error) {
	value, err := EncodeRegistry(Registry{PodRV: podRV, Later: r.Later})
	if err != nil {
		return ledger.Txn{}, err
	}
	return ledger.Txn{
		Compares: []ledger.Compare{{Key: KeyTermRegistry, Target: ledger.ModRevision, Revision: r.Revision}},
		Puts:     []ledger.Put{{Key: KeyTermRegistry, Value: value}},
	}, nil
}

// DropTerms removes retiring terms with their guards (or those that are left of them). podRV is the caller's
// progress of pods. With that progress, in a view of the ledger at or past r, the caller has seen two things: no
// reservation is left whose pod carries one of the terms or is not known, and no document's high-water is beyond
// podRV. Then the facts up to podRV show every existing carrier. From then on no shard decides with older facts,
// which keeps pods that no longer use the terms' guards away from those carriers.
//
// Compares: t/reg.ModRevision. Puts: t/reg. Deletes: t/<id> of each, guards. A crash before it leaves retiring
// terms, after it none. *TxnError when they are too many for one transaction: DropGuards first.
func DropTerms(r Registry, podRV uint64, ids []TermID, guards []string) (ledger.Txn, error) {
	t, err := putRegistry(r, max(podRV, r.PodRV))
	if err != nil {
		return ledger.Txn{}, err
	}
	for _, id := range ids {
		t.Deletes = append(t.Deletes, KeyTerm(id))
	}
	t.Deletes = append(t.Deletes, guards...)
	return t, t.Validate()
}

// DropGuards removes guards of terms that are retiring or dropped. No carrier compares them before such a term is
// registered again, and by then the carrier's shard has read of the removal.
//
// Compares: t/reg.ModRevision. Deletes: the guards. A crash has no effect that matters.
func DropGuards(r Registry, guards []string) (ledger.Txn, error) {
	t := ledger.Txn{
		Compares: []ledger.Compare{{Key: KeyTermRegistry, Target: ledger.ModRevision, Revision: r.Revision}},
		Deletes:  guards,
	}
	return t, t.Validate()
}
