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
	// asked are the terms that attempts wait for, until the ledger's watch shows them registered; the next
	// transactions register them. registerAt is the earliest time of the next such transaction.
	asked      map[registry.TermID]registry.RegisteredTerm
	registerAt time.Time
	beats      beats
}

// maxAsks is how often one attempt may request the registration of its terms.
const maxAsks = 16

// registerEvery is the minimum time between two registrations of one shard. After each, all shards must decide again
// what they have staged: if every pod brings a term, the registry changes four times a second and not with every
// pod. One registration holds at least all the terms of one pod, so that a pod that arrives alone never waits for
// two.
const registerEvery = 250 * time.Millisecond

// Registered reports whether all terms that a pod needs are registered. If not, it requests that, and the attempt
// waits, or fails because it cannot be placed like this.
func (x *Terms) Registered(a *attempt.Attempt, n attempt.Needs, v claims.Supply) bool {
	if len(n.Missing) == 0 && n.Carried <= registry.MaxPodTerms {
		return true
	}
	err := n.Affordable(v)
	if err == nil {
		err = x.storable(a, v)
	}
	if err == nil {
		err = x.ask(a, n.Missing)
	}
	if err != nil {
		x.Life.Fail(a, err.Error())
		return false
	}
	x.Life.Defer(a)
	return false
}

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

// ask requests the registration of terms for an attempt, which waits for them.
func (x *Terms) ask(a *attempt.Attempt, missing []registry.Term) error {
	if a.Wait.Asks++; a.Wait.Asks > maxAsks {
		return fmt.Errorf("its rules about pods on other nodes could not be registered in %d tries", maxAsks)
	}
	if err := x.enlist(a.Pod.Namespace, missing); err != nil {
		return err
	}
	a.Wait.Terms = a.Wait.Terms[:0]
	for _, t := range missing {
		a.Wait.Terms = append(a.Wait.Terms, t.ID())
	}
	return nil
}

// enlist requests the registration of terms for a pod of a namespace: of all of them, or of none if one is not
// accepted or there is not enough room.
func (x *Terms) enlist(namespace string, missing []registry.Term) error {
	d := registry.TermDemand{Namespace: namespace, Terms: x.Shard.Ledger.Terms().Count(),
		Own: x.Shard.Ledger.Terms().CountOf(namespace)}
	for id, t := range x.asked {
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
		if _, asked := x.asked[id]; asked {
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
	if x.asked == nil {
		x.asked = map[registry.TermID]registry.RegisteredTerm{}
	}
	for _, t := range fresh {
		x.asked[t.ID()] = t
	}
	return nil
}

// Register sends terms that were requested; true if a transaction has been sent.
func (x *Terms) Register() bool {
	if len(x.asked) == 0 || x.Shard.Now.Before(x.registerAt) {
		return false
	}
	t, err := registry.RegisterTerms(x.Shard.Ledger.Terms().Registry(), x.Shard.Ledger.Terms(), x.nextTerms()...)
	if err != nil { // others have used the room in the meantime: the attempts ask again
		x.unask(err)
		return false
	}
	return x.changeTerms(t, true)
}

// unask forgets the terms for which there is no room any more: those of a namespace that has used up its share, or
// all.
func (x *Terms) unask(err error) {
	var share *registry.TermShareError
	of := ""
	if errors.As(err, &share) {
		of = share.Namespace
	}
	maps.DeleteFunc(x.asked, func(_ registry.TermID, t registry.RegisteredTerm) bool {
		return of == "" || t.Namespace == of
	})
	x.Life.Stir()
}

// nextTerms returns as many of the requested terms as one transaction registers. Namespaces take turns, so that one
// with many terms does not delay the others.
func (x *Terms) nextTerms() []registry.RegisteredTerm {
	asked := map[string][]registry.RegisteredTerm{}
	longest := 0
	for _, id := range slices.Sorted(maps.Keys(x.asked)) {
		t := x.asked[id]
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

// changeTerms sends a transaction about the registry: T11. Whether it was committed or not, the next one must wait
// until the watch shows the current registry.
func (x *Terms) changeTerms(t ledger.Txn, registers bool) bool {
	x.Slot.Send(txn.Request{Kind: "T11", Txn: t, Answered: func(r ledger.TxnResult, sent int) {
		if registers && (r.Succeeded || sent > 1) { // an earlier copy may have been committed
			x.registerAt = x.Shard.Now.Add(registerEvery)
		}
		x.landTerms(r)
	}})
	return true
}

// landTerms applies the answer to a T11.
func (x *Terms) landTerms(r ledger.TxnResult) {
	if r.Succeeded {
		x.Slot.Hold(r.Revision)
		return
	}
	for _, kv := range r.Current {
		if kv.Key == registry.KeyTermRegistry {
			x.Slot.Hold(kv.ModRevision)
		}
	}
}

// Rests returns the guards that a placement on a node depends on; false if they are not known yet.
func (x *Terms) Rests(pod *state.Pod, node *state.NodeInfo, concern *guard.Concern) ([]registry.GuardUse, bool) {
	var followed Following
	if concern.Together() {
		followed = x.Rules.Keepers(pod, node)
	}
	n, ready := x.Rules.Demands(concern, node, followed)
	if len(n.Missing) > 0 {
		_ = x.enlist(pod.Namespace, n.Missing) // without room: again, until the place is given up
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
	_, asked := x.asked[id]
	return asked || x.Slot.Waits()
}

// Follow applies terms that the ledger's watch shows registered.
func (x *Terms) Follow(changes replica.Changes) {
	if changes.Reset {
		for id, known := range x.Shard.Ledger.Terms().All() {
			x.arrived(id, known)
		}
		return
	}
	for _, id := range changes.Terms {
		if known, ok := x.Shard.Ledger.Terms().Get(id); ok {
			x.arrived(id, known)
		}
	}
}

func (x *Terms) arrived(id registry.TermID, known registry.RegisteredTerm) {
	if !known.Retiring {
		delete(x.asked, id)
	}
}

// Waiting reports whether terms wait to be registered.
func (x *Terms) Waiting() bool { return len(x.asked) > 0 }

// Forget forgets the terms that attempts wait for.
func (x *Terms) Forget() { x.asked = nil }
