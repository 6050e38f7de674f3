package registry_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/registry"
	"github.com/berth-scheduler/berth/pkg/ledger/replica"
)

// numbered returns a term of a namespace, different for each number.
func numbered(namespace string, n int) registry.RegisteredTerm {
	return registry.RegisteredTerm{Namespace: namespace, Term: registry.Term{
		Kind: registry.TermApart, TopologyKey: "zone", Parts: []registry.TermPart{{
			Namespaces: []string{namespace},
			Selector:   []registry.Requirement{{Key: "app", Operator: "In", Values: []string{fmt.Sprint(n)}}},
		}},
	}}
}

// shared is the registry as members see it while its transactions are carried out.
type shared struct {
	t *testing.T
	*replica.View
	revision int64
}

func newRegistry(t *testing.T) *shared { return &shared{t: t, View: replica.NewView()} }

func (r *shared) apply(txn ledger.Txn) {
	r.t.Helper()
	r.revision++
	batch := ledger.EventBatch{Revision: r.revision}
	for _, p := range txn.Puts {
		batch.Events = append(batch.Events, ledger.Event{KV: ledger.KV{Key: p.Key, Value: p.Value, ModRevision: r.revision}})
	}
	for _, key := range txn.Deletes {
		batch.Events = append(batch.Events, ledger.Event{KV: ledger.KV{Key: key, ModRevision: r.revision}, Deleted: true})
	}
	if _, err := r.Fold(replica.Batch{Events: batch}); err != nil {
		r.t.Fatal(err)
	}
}

// register registers n terms of a namespace, with numbers from first on, and returns how many could be registered.
func (r *shared) register(namespace string, first, n int) (registered int, err error) {
	r.t.Helper()
	for ; registered < n; registered++ {
		var txn ledger.Txn
		txn, err = registry.RegisterTerms(r.Terms().Registry(), r.Terms(), numbered(namespace, first+registered))
		if err != nil {
			return registered, err
		}
		r.apply(txn)
	}
	return registered, nil
}

// However many namespaces take as much as they can, the next one can have as much as each of them.
func TestNamespacesShareTheRegistry(t *testing.T) {
	r := newRegistry(t)
	var share *registry.TermShareError
	for i, want := range []int{2048, 1024, 512} {
		namespace := fmt.Sprint("greedy-", i)
		n, err := r.register(namespace, 0, registry.MaxTerms)
		if n != want || !errors.As(err, &share) {
			t.Fatalf("%s has %d terms, then %v; want %d, then *TermShareError", namespace, n, err, want)
		}
		for _, part := range []string{namespace, fmt.Sprint(want), "needs 1 more", "4096"} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%q does not say %q", err, part)
			}
		}
	}
	if n, err := r.register("modest", 0, 100); n != 100 {
		t.Errorf("a namespace that has nothing yet gets %d terms of 100: %v", n, err)
	}
}

// A registry that is full for all namespaces is reported as full: here with terms that name no namespace.
func TestRegistryIsBounded(t *testing.T) {
	r := newRegistry(t)
	if n, err := r.register("", 0, registry.MaxTerms); n != registry.MaxTerms {
		t.Fatalf("%d terms, then %v", n, err)
	}
	var full *registry.FullError
	_, err := r.register("d", 0, 1)
	if !errors.As(err, &full) || !strings.Contains(err.Error(), "4096") {
		t.Errorf("one term too many: %v, want *FullError that names the limit", err)
	}
}

// A term that retires and is wanted again needs no additional room, whichever namespace has taken what was free.
func TestTermComesBackIntoItsOwnPlace(t *testing.T) {
	r := newRegistry(t)
	if _, err := r.register("first", 0, 2048); err != nil {
		t.Fatal(err)
	}
	if _, err := r.register("second", 0, 1024); err != nil {
		t.Fatal(err)
	}
	txn, err := registry.RetireTerms(r.Terms().Registry(), numbered("first", 7))
	if err != nil {
		t.Fatal(err)
	}
	r.apply(txn)
	if n, err := r.register("first", 7, 1); n != 1 {
		t.Errorf("it does not come back: %v", err)
	}
	// Another namespace that registers it has it counted against its own share.
	term := numbered("first", 7)
	term.Namespace = "third"
	if txn, err = registry.RegisterTerms(r.Terms().Registry(), r.Terms(), term); err != nil {
		t.Fatal(err)
	}
	r.apply(txn)
	term.Namespace = "second"
	_, err = registry.RegisterTerms(r.Terms().Registry(), r.Terms(), term)
	if !errors.As(err, new(*registry.TermShareError)) {
		t.Errorf("a namespace beyond its share takes a term over: %v", err)
	}
	a, b, c := r.Terms().CountOf("first"), r.Terms().CountOf("second"), r.Terms().CountOf("third")
	if a != 2047 || b != 1024 || c != 1 {
		t.Errorf("shares of %d, %d and %d, want 2047, 1024 and 1", a, b, c)
	}
}

// The shares match the terms, however terms are added and dropped.
func TestSharesFollowTheTerms(t *testing.T) {
	r := newRegistry(t)
	if _, err := r.register("a", 0, 3); err != nil {
		t.Fatal(err)
	}
	if _, err := r.register("b", 0, 1); err != nil {
		t.Fatal(err)
	}
	before := r.Clone()
	txn, err := registry.DropTerms(r.Terms().Registry(), 1,
		[]registry.TermID{numbered("a", 0).ID(), numbered("b", 0).ID()}, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.apply(txn)
	if a, b := r.Terms().CountOf("a"), r.Terms().CountOf("b"); a != 2 || b != 0 {
		t.Errorf("shares of %d and %d after a drop, want 2 and 0", a, b)
	}
	if a, b := before.Terms().CountOf("a"), before.Terms().CountOf("b"); a != 3 || b != 1 {
		t.Errorf("shares of %d and %d in a copy from before, want 3 and 1", a, b)
	}
}

// Terms are bounded in size, and so are the transactions that write them.
func TestTermsAreBoundedInSize(t *testing.T) {
	sized := func(bytes int) registry.RegisteredTerm {
		term := numbered("d", 0)
		term.Parts[0].Selector[0].Values = []string{strings.Repeat("x", bytes)}
		return term
	}
	var size *registry.TermSizeError
	_, err := registry.RegisterTerms(registry.Registry{}, replica.NewView().Terms(), sized(registry.MaxTermBytes))
	if !errors.As(err, &size) || !strings.Contains(err.Error(), "at most 32768") {
		t.Errorf("%v, want *TermSizeError that names the limit", err)
	}
	var many []registry.RegisteredTerm
	for n := range 200 {
		many = append(many, sized(30_000+n))
	}
	if n := registry.TermsInTxn(many); n != 34 {
		t.Errorf("%d terms of 30 KB in one transaction, want 34, which are just under 1 MiB", n)
	}
	for n := range many {
		many[n] = numbered("d", n)
	}
	if n := registry.TermsInTxn(many); n != 64 {
		t.Errorf("%d small terms in one transaction, want 64", n)
	}
	if n := registry.TermsInTxn(many[:3]); n != 3 {
		t.Errorf("%d of 3 terms in one transaction", n)
	}
	if n := registry.TermsInTxn([]registry.RegisteredTerm{sized(2 << 20)}); n != 1 {
		t.Errorf("%d of one large term of an older version, want it tried alone", n)
	}
}

// TermsInTxn returns a number of terms that one transaction accepts, whatever their sizes.
func TestTermsOfOneTransactionFitIt(t *testing.T) {
	const terms = 40
	for total := ledger.MaxTxnBytes - 8<<10; total < ledger.MaxTxnBytes+4<<10; total += 509 {
		var many []registry.RegisteredTerm
		for n := range terms {
			term := numbered("d", n)
			values := &term.Parts[0].Selector[0].Values
			*values = append(*values, strings.Repeat("x", total/terms))
			many = append(many, term)
		}
		first := many[:registry.TermsInTxn(many)]
		if len(first) < terms-2 {
			t.Fatalf("%d of %d terms of %d bytes in one transaction", len(first), terms, total/terms)
		}
		if _, err := registry.RegisterTerms(registry.Registry{}, replica.NewView().Terms(), first...); err != nil {
			t.Fatalf("%d terms of %d bytes: %v", len(first), total/terms, err)
		}
		if _, err := registry.RetireTerms(registry.Registry{}, first...); err != nil {
			t.Fatalf("%d terms of %d bytes retire: %v", len(first), total/terms, err)
		}
	}
}
