package decide

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/services/scheduler/internal/attempt"
	"github.com/berth-scheduler/berth/services/scheduler/internal/claims"
	"github.com/berth-scheduler/berth/services/scheduler/internal/txn"
)

// A pod's terms are registered before it is placed (T11). What it needs of the registry and of the
// transaction that places it is known before: a pod that cannot be placed fails alone, and leaves no
// term behind.

// registerEvery is the least time between two registrations of one shard. Each makes all shards decide again what
// they have staged: if every pod brings a term, the registry moves four times a second and not with every pod. One
// registration takes all the terms of one pod at least, so that nobody waits for two who comes alone.
const registerEvery = 250 * time.Millisecond

// registered says whether all terms are registered that a pod needs. If not, it has that done, and
// the attempt waits, or ends as failed because it cannot be placed like this.
func (c *Core) registered(a *attempt.Attempt, n attempt.Needs, v claims.Supply) bool {
	if len(n.Missing) == 0 && n.Carried <= ledger.MaxPodTerms {
		return true
	}
	err := n.Affordable(v)
	if err == nil {
		err = c.storable(a, v)
	}
	if err == nil {
		err = c.ask(a, n.Missing)
	}
	if err != nil {
		c.life.Fail(a, err.Error())
		return false
	}
	c.life.Defer(a)
	return false
}

// storable says whether a node's document could hold the pod's reservation if it held no other.
func (c *Core) storable(a *attempt.Attempt, v claims.Supply) error {
	with := *a
	with.Pick.Volumes = v
	entry, err := with.Entry(c.shard.ID)
	if err != nil {
		return err
	}
	_, err = ledger.Place(ledger.NodeDoc{NodeUID: "any", NodeName: "any"}, entry)
	return err
}

// ask has terms registered for an attempt that waits for them.
func (c *Core) ask(a *attempt.Attempt, missing []ledger.Term) error {
	if a.Wait.Asks++; a.Wait.Asks > maxAsks {
		return fmt.Errorf("its rules about pods on other nodes could not be registered in %d tries", maxAsks)
	}
	if err := c.enlist(a.Pod.Namespace, missing); err != nil {
		return err
	}
	a.Wait.Terms = a.Wait.Terms[:0]
	for _, t := range missing {
		a.Wait.Terms = append(a.Wait.Terms, t.ID())
	}
	return nil
}

// enlist has terms registered for a pod of a namespace: all of them, or none if one is not accepted or
// there is no room for all.
func (c *Core) enlist(namespace string, missing []ledger.Term) error {
	d := ledger.TermDemand{Namespace: namespace, Terms: c.shard.Ledger.TermCount(), Own: c.shard.Ledger.TermsOf(namespace)}
	for id, t := range c.cross.asked {
		old, known := c.shard.Ledger.Term(id)
		if !known {
			d.Terms++
		}
		if t.Namespace == namespace && old.Namespace != namespace {
			d.Own++
		}
	}
	var fresh []ledger.RegisteredTerm
	for _, t := range missing {
		id := t.ID()
		if _, asked := c.cross.asked[id]; asked {
			continue
		}
		term := ledger.RegisteredTerm{Term: t, Namespace: namespace}
		if err := ledger.CheckTerm(term); err != nil {
			return err
		}
		fresh = append(fresh, term)
		switch old, known := c.shard.Ledger.Term(id); {
		case !known:
			d.New++
		case old.Namespace != namespace:
			d.Moved++
		}
	}
	if err := d.Check(); err != nil {
		return err
	}
	if c.cross.asked == nil {
		c.cross.asked = map[ledger.TermID]ledger.RegisteredTerm{}
	}
	for _, t := range fresh {
		c.cross.asked[t.ID()] = t
	}
	return nil
}

// register sends terms that have been asked for; true if there is a flight now.
func (c *Core) register() bool {
	if len(c.cross.asked) == 0 || c.shard.Now.Before(c.cross.registerAt) {
		return false
	}
	t, err := ledger.RegisterTerms(c.shard.Ledger.Registry(), c.shard.Ledger, c.nextTerms()...)
	if err != nil { // others have taken the room meanwhile: the attempts ask again
		c.unask(err)
		return false
	}
	return c.changeTerms(t, true)
}

// unask forgets the terms that there is no room for any more: those of a namespace that has its share,
// or all.
func (c *Core) unask(err error) {
	var share *ledger.TermShareError
	of := ""
	if errors.As(err, &share) {
		of = share.Namespace
	}
	maps.DeleteFunc(c.cross.asked, func(_ ledger.TermID, t ledger.RegisteredTerm) bool {
		return of == "" || t.Namespace == of
	})
	c.life.Stir()
}

// nextTerms are as many of the asked ones as one transaction registers. Namespaces take turns, so
// that one that asks for many does not keep others waiting.
func (c *Core) nextTerms() []ledger.RegisteredTerm {
	asked := map[string][]ledger.RegisteredTerm{}
	longest := 0
	for _, id := range slices.Sorted(maps.Keys(c.cross.asked)) {
		t := c.cross.asked[id]
		asked[t.Namespace] = append(asked[t.Namespace], t)
		longest = max(longest, len(asked[t.Namespace]))
	}
	var terms []ledger.RegisteredTerm
	namespaces := slices.Sorted(maps.Keys(asked))
	for turn := range longest {
		for _, namespace := range namespaces {
			if turn < len(asked[namespace]) {
				terms = append(terms, asked[namespace][turn])
			}
		}
	}
	return terms[:ledger.TermsInTxn(terms)]
}

// changeTerms sends a transaction about the registry: T11. Carried out or not, the next one has to wait until the
// watch shows what the registry is now.
func (c *Core) changeTerms(t ledger.Txn, registers bool) bool {
	c.slot.Send(txn.Request{Kind: "T11", Txn: t, Answered: func(r ledger.TxnResult, sent int) {
		if registers && (r.Succeeded || sent > 1) { // an earlier copy may have been carried out
			c.cross.registerAt = c.shard.Now.Add(registerEvery)
		}
		c.landTerms(r)
	}})
	return true
}

// landTerms applies the answer to such a transaction.
func (c *Core) landTerms(r ledger.TxnResult) {
	if r.Succeeded {
		c.slot.Hold(r.Revision)
		return
	}
	for _, kv := range r.Current {
		if kv.Key == ledger.KeyTermRegistry {
			c.slot.Hold(kv.ModRevision)
		}
	}
}
