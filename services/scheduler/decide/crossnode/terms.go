package crossnode

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/guard"
	"github.com/berth-scheduler/berth/pkg/ledger/registry"
	"github.com/berth-scheduler/berth/pkg/ledger/replica"
	"github.com/berth-scheduler/berth/pkg/ledger/txns"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/services/scheduler/decide/attempt"
	"github.com/berth-scheduler/berth/services/scheduler/decide/claims"
	"github.com/berth-scheduler/berth/services/scheduler/decide/lifecycle"
	"github.com/berth-scheduler/berth/services/scheduler/decide/shard"
	"github.com/berth-scheduler/berth/services/scheduler/decide/txn"
)

// A pod's terms are registered before it is placed (T11). What it needs of the registry and of the transaction that
// places it is checked before that: a pod that cannot be placed fails alone, and leaves no term behind.

// Terms registers the terms of pods' rules in the ledger before the pods are placed (T11), and removes terms that
// are no longer used.
type Terms struct {
	Shard *shard.State
	Life  *lifecycle.Attempts
	Slot  *txn.Slot
	Rules *Rules
	// requested are the terms that attempts wait for, until the ledger's watch shows them registered; the next
	// transactions register them. registerAt is the earliest time of the next such transaction.
	requested  map[registry.TermID]registry.RegisteredTerm
	registerAt time.Time
	heartbeats heartbeats
}

// maxRegistrations is how often one attempt may request the registration of its terms. More than one may be needed,
// as the registry changes while the attempt waits.
const maxRegistrations = 16

// registerEvery is the minimum time between two registrations of one shard. After each, all shards must decide again
// what they have staged: if every pod brings a term, the registry changes four times a second and not with every
// pod. One registration holds at least all the terms of one pod, so that a pod that arrives alone never waits for
// two.
const registerEvery = 250 * time.Millisecond

// Registered reports whether all terms that a pod needs are registered. If not, it requests that, and the attempt
// waits, or fails because it cannot be placed like this: it carries too many terms, its transaction or its
// reservation would be too large, or the registry has no room. Failing here, before the registration, leaves no term
// behind.
func (x *Terms) Registered(a *attempt.Attempt, n attempt.Needs, v claims.Supply) bool {
	if Complete(n) {
		return true
	}
	err := n.Affordable(v)
	if err == nil {
		err = x.storable(a, v)
	}
	if err == nil {
		err = x.request(a, n.Missing)
	}
	if err != nil {
		x.Life.Fail(a, err.Error())
		return false
	}
	x.Life.Defer(a)
	return false
}

// Complete reports whether all terms that a pod needs are registered, and are not too many.
func Complete(n attempt.Needs) bool { return len(n.Missing) == 0 && n.Carried <= registry.MaxPodTerms }

// storable returns an error unless an empty node's document could hold the pod's reservation.
func (x *Terms) storable(a *attempt.Attempt, v claims.Supply) error {
	with := *a
	with.Pick.Volumes = v
	entry, err := with.Entry(x.Shard.ID)
	if err != nil {
		return err
	}
	_, err = txns.Place(ledger.NodeDoc{NodeUID: "any", NodeName: "any"}, entry)
	return err
}

// request requests the registration of terms for an attempt, which waits for them. An error ends the attempt.
func (x *Terms) request(a *attempt.Attempt, missing []registry.Term) error {
	if a.Wait.Registrations++; a.Wait.Registrations > maxRegistrations {
		return fmt.Errorf("its rules about pods on other nodes could not be registered in %d tries", maxRegistrations)
	}
	if err := x.requestTerms(a.Pod.Namespace, missing); err != nil {
		return err
	}
	a.Wait.Terms = a.Wait.Terms[:0]
	for _, t := range missing {
		a.Wait.Terms = append(a.Wait.Terms, t.ID())
	}
	return nil
}

// requestTerms requests the registration of terms for a pod of a namespace: of all of them, or of none if one is not
// accepted or there is not enough room.
func (x *Terms) requestTerms(namespace string, missing []registry.Term) error {
	// The demand is checked here as well as in the transaction: an attempt whose terms have no room must fail now,
	// and not wait for a registration that cannot happen.
	d := registry.TermDemand{Namespace: namespace, Terms: x.Shard.Ledger.Terms().Count(),
		Own: x.Shard.Ledger.Terms().CountOf(namespace)}
	// Terms that other attempts have requested count as if they were registered, so that two requests together
	// cannot exceed the limits.
	for id, t := range x.requested {
		old, known := x.Shard.Ledger.Terms().Get(id)
		if !known {
			d.Terms++
		}
		if t.Namespace == namespace && old.Namespace != namespace {
			d.Own++
		}
	}
	var fresh []registry.RegisteredTerm
	for _, t := range missing {
		id := t.ID()
		if _, asked := x.requested[id]; asked {
			continue
		}
		term := registry.RegisteredTerm{Term: t, Namespace: namespace}
		if err := registry.CheckTerm(term); err != nil {
			return err
		}
		fresh = append(fresh, term)
		switch old, known := x.Shard.Ledger.Terms().Get(id); {
		case !known:
			d.New++
		case old.Namespace != namespace:
			d.Moved++
		}
	}
	if err := d.Check(); err != nil {
		return err
	}
	if x.requested == nil {
		x.requested = map[registry.TermID]registry.RegisteredTerm{}
	}
	for _, t := range fresh {
		x.requested[t.ID()] = t
	}
	return nil
}

// Register sends terms that were requested; true if a transaction has been sent. The slot must be free. If the
// registry has no room for them any more, the attempts are decided again, and their requests are checked again.
func (x *Terms) Register() bool {
	if len(x.requested) == 0 || x.Shard.Now.Before(x.registerAt) {
		return false
	}
	// One transaction takes as many terms as fit; the rest follows when the watch shows these.
	t, err := registry.RegisterTerms(x.Shard.Ledger.Terms().Registry(), x.Shard.Ledger.Terms(), x.nextTerms()...)
	if err != nil { // others have used the room in the meantime: the attempts ask again
		x.dropRequests(err)
		return false
	}
	return x.changeTerms(t, true)
}

// dropRequests forgets the terms for which there is no room any more: those of a namespace that has used up its
// share, or all.
func (x *Terms) dropRequests(err error) {
	var share *registry.TermShareError
	of := ""
	if errors.As(err, &share) {
		of = share.Namespace
	}
	maps.DeleteFunc(x.requested, func(_ registry.TermID, t registry.RegisteredTerm) bool {
		return of == "" || t.Namespace == of
	})
	x.Life.WakeDeferred()
}

// nextTerms returns as many of the requested terms as one transaction registers. Namespaces take turns, so that one
// with many terms does not delay the others.
func (x *Terms) nextTerms() []registry.RegisteredTerm {
	asked := map[string][]registry.RegisteredTerm{}
	longest := 0
	for _, id := range slices.Sorted(maps.Keys(x.requested)) {
		t := x.requested[id]
		asked[t.Namespace] = append(asked[t.Namespace], t)
		longest = max(longest, len(asked[t.Namespace]))
	}
	var terms []registry.RegisteredTerm
	namespaces := slices.Sorted(maps.Keys(asked))
	for turn := range longest {
		for _, namespace := range namespaces {
			if turn < len(asked[namespace]) {
				terms = append(terms, asked[namespace][turn])
			}
		}
	}
	return terms[:registry.TermsInTxn(terms)]
}

// changeTerms sends a transaction about the registry: T11. Whether it was committed or not, the next transaction
// must wait until the watch shows the current registry: it would compare an older one. The answer itself is not
// applied to the view: the watch delivers it. It always returns true.
func (x *Terms) changeTerms(t ledger.Txn, registers bool) bool {
	x.Slot.Send(txn.Request{Kind: "T11", Txn: t, Answered: func(r ledger.TxnResult, sent int) {
		if registers && (r.Succeeded || sent > 1) { // an earlier copy may have been committed
			x.registerAt = x.Shard.Now.Add(registerEvery)
		}
		x.onTermsResult(r)
	}})
	return true
}

// onTermsResult applies the answer to a T11.
func (x *Terms) onTermsResult(r ledger.TxnResult) {
	if r.Succeeded {
		x.Slot.WaitForRevision(r.Revision)
		return
	}
	for _, kv := range r.Current {
		if kv.Key == registry.KeyTermRegistry {
			x.Slot.WaitForRevision(kv.ModRevision)
		}
	}
}

// GuardsFor returns the guards that a placement on a node depends on; false if they are not known yet. It serves
// promotions, which have no attempt that could wait: missing terms are requested, and the promotion is tried again.
func (x *Terms) GuardsFor(pod *state.Pod, node *state.NodeInfo, concern *guard.Concern) ([]registry.GuardUse, bool) {
	var followed Following
	if concern.Together() {
		followed = x.Rules.Keepers(pod, node)
	}
	n, ready := x.Rules.Demands(concern, node, followed)
	if len(n.Missing) > 0 {
		_ = x.requestTerms(pod.Namespace, n.Missing) // without room: again, until the place is given up
		return nil, false
	}
	return n.Guards, ready && !followed.Waits
}

// MustWait reports whether an attempt must not be decided yet. No attempt is decided on facts older than the
// registry requires, nor right after a lost compare: the pod would be placed on a worse node than the one that
// another shard has just used.
func (x *Terms) MustWait(a *attempt.Attempt) bool {
	if x.Shard.Ledger.Names().AheadOfWatch() ||
		x.Shard.View.TxnFacts().PodProgress() < x.Shard.Ledger.Terms().Registry().PodRV ||
		x.Shard.Ledger.Revision() < a.Wait.Revision || a.Turn.Pending(x.Shard.Now) {
		return true
	}
	return slices.ContainsFunc(a.Wait.Terms, func(id registry.TermID) bool {
		_, usable := x.Rules.index.Knows(id)
		return !usable && x.expected(id)
	})
}

// expected reports whether a term will be in the registry soon.
func (x *Terms) expected(id registry.TermID) bool {
	_, asked := x.requested[id]
	return asked || x.Slot.WaitsForRevision()
}

// Follow applies terms that the ledger's watch shows registered: no attempt has to wait for them any more.
func (x *Terms) Follow(changes replica.Changes) {
	if changes.Reset {
		for id, known := range x.Shard.Ledger.Terms().All() {
			x.onRegistered(id, known)
		}
		return
	}
	for _, id := range changes.Terms {
		if known, ok := x.Shard.Ledger.Terms().Get(id); ok {
			x.onRegistered(id, known)
		}
	}
}

// onRegistered drops the request for a term, unless the term is retiring and must be registered again.
func (x *Terms) onRegistered(id registry.TermID, known registry.RegisteredTerm) {
	if !known.Retiring {
		delete(x.requested, id)
	}
}

// Waiting reports whether terms wait to be registered.
func (x *Terms) Waiting() bool { return len(x.requested) > 0 }

// Forget forgets the terms that attempts wait for, when the attempts are given back.
func (x *Terms) Forget() { x.requested = nil }
