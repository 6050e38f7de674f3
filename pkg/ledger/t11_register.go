package ledger

import "fmt"

// MaxTerms bounds the registry. Every member keeps all terms in memory and asks them about
// each pod; a cluster has one for each way of selecting pods that a workload with hard
// rules brings along. RegistryFullError says what happens beyond.
const MaxTerms = 4096

// RegistryFullError reports that a term cannot be registered: its carriers cannot be placed
// until others are dropped.
type RegistryFullError struct{ Terms int }

func (e *RegistryFullError) Error() string {
	return fmt.Sprintf(
		"ledger: %d terms about pods on other nodes are registered, at most %d are accepted: "+
			"wait until unused ones are dropped", e.Terms, MaxTerms)
}

// RegisterTerms is T11 (register terms): terms become known to every placement, or, if they
// were retiring, usable by carriers again. Known is how many terms are registered already,
// without the given ones.
//
// Compares: t/reg.ModRevision. Puts: t/<id> of each, t/reg. A crash before it leaves
// nothing, after it terms that somebody will drop some day. It is a transaction of its own,
// before the first carrier is placed: a pod that a term selects and that was placed before
// the term was registered has left no trace on the term's guards, so the carrier's shard
// must have read the ledger up to the registration when it decides. Every placement
// compares t/reg, so that none commits without knowing the terms.
//
// *RegistryFullError when there would be more than MaxTerms, *TxnError when they are too
// many for one transaction.
func RegisterTerms(r Registry, known int, terms ...Term) (Txn, error) {
	if known+len(terms) > MaxTerms {
		return Txn{}, &RegistryFullError{Terms: known}
	}
	return r.change(r.PodRV, terms, false)
}

// RetireTerms makes registered terms unusable for carriers, so that they can be dropped
// once every pod that carries them is bound or gone.
//
// Compares: t/reg.ModRevision. Puts: t/<id> of each, t/reg. A crash before it leaves
// nothing, after it terms that the next carrier registers again or that are dropped.
func RetireTerms(r Registry, terms ...Term) (Txn, error) { return r.change(r.PodRV, terms, true) }

func (r Registry) change(podRV uint64, terms []Term, retiring bool) (Txn, error) {
	if len(terms) == 0 {
		return Txn{}, fmt.Errorf("ledger: registry of terms: no term is given")
	}
	t, err := r.put(podRV)
	if err != nil {
		return Txn{}, err
	}
	for _, term := range terms {
		value, err := EncodeTerm(RegisteredTerm{Term: term, Retiring: retiring})
		if err != nil {
			return Txn{}, err
		}
		t.Puts = append(t.Puts, Put{Key: KeyTerm(term.ID()), Value: value})
	}
	return t, t.Validate()
}

func (r Registry) put(podRV uint64) (Txn, error) {
	value, err := EncodeRegistry(Registry{PodRV: podRV})
	if err != nil {
		return Txn{}, err
	}
	return Txn{
		Compares: []Compare{{Key: KeyTermRegistry, Target: ModRevision, Revision: r.Revision}},
		Puts:     []Put{{Key: KeyTermRegistry, Value: value}},
	}, nil
}

// DropTerms removes retiring terms with (at most the rest of) their guards. PodRV is the
// caller's progress of pods, with which it has seen, in a picture of the ledger that stands
// at or past r, that no reservation is left whose pod carries one of the terms or is not
// known, and that no document's high-water is beyond it: then every carrier there is shows
// in facts up to PodRV. Nobody decides anything with less from then on, which is what keeps
// pods that no longer guard themselves away from those carriers.
//
// Compares: t/reg.ModRevision. Puts: t/reg. Deletes: t/<id> of each, guards. A crash before
// it leaves retiring terms, after it none. *TxnError when they are too many for one
// transaction: DropGuards first.
func DropTerms(r Registry, podRV uint64, ids []TermID, guards []string) (Txn, error) {
	t, err := r.put(max(podRV, r.PodRV))
	if err != nil {
		return Txn{}, err
	}
	for _, id := range ids {
		t.Deletes = append(t.Deletes, KeyTerm(id))
	}
	t.Deletes = append(t.Deletes, guards...)
	return t, t.Validate()
}

// DropGuards removes guards of terms that are retiring or dropped: no carrier compares them
// before such a term is registered again, and then it has read of the removal.
//
// Compares: t/reg.ModRevision. Deletes: the guards. A crash changes nothing that matters.
func DropGuards(r Registry, guards []string) (Txn, error) {
	t := Txn{
		Compares: []Compare{{Key: KeyTermRegistry, Target: ModRevision, Revision: r.Revision}},
		Deletes:  guards,
	}
	return t, t.Validate()
}
