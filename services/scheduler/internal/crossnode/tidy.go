package crossnode

import (
	"cmp"
	"slices"
	"time"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/registry"
)

const (
	// retireAbove is how many terms may be registered before the least recently used retire.
	// Retired too early, a term costs its next carrier a registration; never retired, terms
	// fill the registry: each rollout of a workload that counts its pods by template brings one.
	// So do those of a namespace that has three quarters of what it may have.
	retireAbove = registry.MaxTerms * 3 / 4
	// restsFor is how long a term must have gone unused: one that is registered for a pod must not retire
	// while the pod waits for the rest of its terms.
	restsFor = 30 * time.Second
	// maxRetiring bounds the terms that retire and cannot be dropped yet.
	maxRetiring = 256
)

// Tidy takes unused terms out of the registry, one transaction at a time: first they
// retire, and when every pod that carries them is bound or gone they are dropped with their
// guards. Each goes by itself: one that cannot be dropped keeps no other. Every shard does this
// on its heartbeat; of several at once one succeeds.
func (x *Terms) Tidy() {
	x.beats.note(x.Shard.Now, x.Shard.Ledger.Revision())
	if x.Slot.Busy() || x.Shard.Draining || !x.Shard.Usable() || x.Slot.Waits() {
		return
	}
	t, err := x.tidying()
	if err == nil && len(t.Compares) > 0 { // what does not fit or encode stays: a registry too full says so
		x.changeTerms(t, false)
	}
}

// beats are the revisions that the ledger's watch had reached at heartbeats: the last one that is restsFor ago, and
// those since.
type beats []beat

type beat struct {
	at       time.Time
	revision int64
}

func (b *beats) note(now time.Time, revision int64) {
	*b = append(*b, beat{now, revision})
	for len(*b) > 1 && now.Sub((*b)[1].at) >= restsFor {
		*b = (*b)[1:]
	}
}

// rested is the revision up to which a term must have been used last to have gone unused for restsFor.
func (b beats) rested(now time.Time) int64 {
	if len(b) == 0 || now.Sub(b[0].at) < restsFor {
		return 0
	}
	return b[0].revision
}

// tidying is the next transaction that takes something out of the registry, empty for none.
func (x *Terms) tidying() (ledger.Txn, error) {
	reg := x.Shard.Ledger.Registry()
	if unguarded := x.Shard.Ledger.Unguarded(); len(unguarded) > 0 {
		return registry.DropGuards(reg, x.guardsOf(unguarded, ledger.MaxTxnOps))
	}
	retiring, surplus := x.retiring(), x.surplus()
	if len(retiring)+len(surplus) == 0 {
		return ledger.Txn{}, nil
	}
	used, known := x.inUse()
	if known {
		inUse := func(id registry.TermID) bool { return used[id] }
		if idle := slices.DeleteFunc(slices.Clone(retiring), inUse); len(idle) > 0 {
			return x.dropTerms(reg, idle)
		}
	}
	// What could not be dropped would only retire for its carriers to register it again.
	surplus = slices.DeleteFunc(surplus, func(id registry.TermID) bool { return used[id] })
	var terms []registry.RegisteredTerm
	for _, id := range surplus[:min(len(surplus), max(0, maxRetiring-len(retiring)))] {
		t, _ := x.Shard.Ledger.Term(id)
		terms = append(terms, t)
	}
	if len(terms) == 0 {
		return ledger.Txn{}, nil
	}
	return registry.RetireTerms(reg, terms[:registry.TermsInTxn(terms)]...)
}

func (x *Terms) retiring() []registry.TermID {
	var ids []registry.TermID
	for id, t := range x.Shard.Ledger.Terms() {
		if t.Retiring {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// guardsOf lists guards of some terms, at most limit.
func (x *Terms) guardsOf(ids []registry.TermID, limit int) []string {
	var keys []string
	for _, id := range ids {
		keys = append(keys, x.Shard.Ledger.Guards(id)...)
	}
	return keys[:min(len(keys), limit)]
}

// dropTerms drops as many retiring terms as one transaction holds with their guards; guards
// first, if those of one term do not fit.
func (x *Terms) dropTerms(r registry.Registry, retiring []registry.TermID) (ledger.Txn, error) {
	var ids []registry.TermID
	var guards []string
	for _, id := range retiring {
		more := x.Shard.Ledger.Guards(id)
		if 1+len(ids)+1+len(guards)+len(more) > ledger.MaxTxnOps {
			break
		}
		ids, guards = append(ids, id), append(guards, more...)
	}
	if len(ids) == 0 {
		return registry.DropGuards(r, x.guardsOf(retiring[:1], ledger.MaxTxnOps))
	}
	return registry.DropTerms(r, x.Shard.View.PodProgress(), ids, guards)
}

// inUse are the terms that concern a pod which is reserved and not bound, by all this shard has
// applied: registry.DropTerms demands that there is none. (Carriers are enough; but of
// those that spread by default, what they carried depends on objects that may have changed,
// and a carrier that its term does not select is an odd one.) known is false if there may be others.
func (x *Terms) inUse() (used map[registry.TermID]bool, known bool) {
	if nodes, elsewhere := x.Shard.View.Uncounted(); len(nodes) > 0 || elsewhere {
		return nil, false
	}
	used = map[registry.TermID]bool{}
	for uid := range x.Shard.Ledger.Reserved() {
		pod, there := x.Shard.View.Pod(uid)
		if !there || pod.NodeName != "" {
			continue
		}
		profile, ok := x.Shard.Profiles[pod.SchedulerName]
		if !ok {
			return nil, false
		}
		concern, err := x.Rules.ConcernOf(pod, profile)
		if err != nil || concern.Uncertain {
			return nil, false
		}
		for _, id := range concern.IDs() {
			used[id] = true
		}
	}
	return used, true
}

// surplus are the terms that there are too many of, those that have gone unused the longest first, by
// the ledger's revisions: of all, or of a namespace that has nearly as many as remain free.
func (x *Terms) surplus() []registry.TermID {
	full := x.Shard.Ledger.TermCount() > retireAbove
	much := (registry.MaxTerms - x.Shard.Ledger.TermCount()) * 3 / 4
	greedy := map[string]bool{}
	for namespace, n := range x.Shard.Ledger.TermShares() {
		if n > much {
			greedy[namespace] = true
		}
	}
	if !full && len(greedy) == 0 {
		return nil
	}
	type used struct {
		id   registry.TermID
		last int64
	}
	var all []used
	rested := x.beats.rested(x.Shard.Now)
	for id, t := range x.Shard.Ledger.Terms() {
		last := x.Shard.Ledger.LastUse(id)
		if !t.Retiring && last <= rested && (full || greedy[t.Namespace]) {
			all = append(all, used{id, last})
		}
	}
	slices.SortFunc(all, func(a, b used) int { return cmp.Or(cmp.Compare(a.last, b.last), cmp.Compare(a.id, b.id)) })
	ids := make([]registry.TermID, len(all))
	for i, u := range all {
		ids[i] = u.id
	}
	return ids
}
