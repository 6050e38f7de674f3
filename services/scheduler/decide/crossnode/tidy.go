package crossnode

import (
	"cmp"
	"slices"
	"time"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/registry"
)

const (
	// retireAbove is how many terms may be registered before the least recently used ones retire. A term that
	// retires too early costs its next carrier a registration; if none retired, terms would fill the registry, since
	// each rollout of a workload that counts its pods by template adds one. Terms of a namespace that has used three
	// quarters of its share retire as well.
	retireAbove = registry.MaxTerms * 3 / 4
	// unusedFor is how long a term must have been unused: a term registered for a pod must not retire while the pod
	// waits for the rest of its terms.
	unusedFor = 30 * time.Second
	// maxRetiring bounds the terms that are retiring and cannot be dropped yet: each is checked at every heartbeat.
	maxRetiring = 256
)

// Tidy removes unused terms from the registry, one transaction at a time: first they retire, and when every pod that
// carries them is bound or gone, they are dropped with their guards. Each is handled separately: a term that cannot
// be dropped does not keep another. Every shard does this on its heartbeat; of several at once one succeeds.
func (x *Terms) Tidy() {
	x.heartbeats.note(x.Shard.Now, x.Shard.Ledger.Revision())
	if x.Slot.Busy() || x.Shard.Draining || !x.Shard.Usable() || x.Slot.WaitsForRevision() {
		return
	}
	t, err := x.nextRemoval()
	if err == nil && len(t.Compares) > 0 { // terms that do not fit or encode stay: a full registry reports that
		x.changeTerms(t, false)
	}
}

// heartbeats are the revisions that the ledger's watch had reached at heartbeats: the latest one at least unusedFor
// ago, and those since.
type heartbeats []heartbeat

// heartbeat is the revision of one heartbeat.
type heartbeat struct {
	at       time.Time
	revision int64
}

// note adds a heartbeat, and drops those that are too old to be needed.
func (b *heartbeats) note(now time.Time, revision int64) {
	*b = append(*b, heartbeat{now, revision})
	for len(*b) > 1 && now.Sub((*b)[1].at) >= unusedFor {
		*b = (*b)[1:]
	}
}

// unusedSince returns the revision at or before which a term must have been used last to count as unused for unusedFor.
func (b heartbeats) unusedSince(now time.Time) int64 {
	if len(b) == 0 || now.Sub(b[0].at) < unusedFor {
		return 0
	}
	return b[0].revision
}

// nextRemoval returns the next transaction that removes something from the registry, empty for none. In this order:
// guards whose term is gone, retiring terms that no reserved pod carries, and terms to retire. Each call finds the
// next from the ledger, so that a transaction that was lost needs no memory.
func (x *Terms) nextRemoval() (ledger.Txn, error) {
	reg := x.Shard.Ledger.Terms().Registry()
	// Guards without their term guard nothing any more.
	if unguarded := x.Shard.Ledger.Terms().Unguarded(); len(unguarded) > 0 {
		return registry.DropGuards(reg, x.guardsOf(unguarded, ledger.MaxTxnOps))
	}
	retiring, surplus := x.retiring(), x.surplus()
	if len(retiring)+len(surplus) == 0 {
		return ledger.Txn{}, nil
	}
	// If pods may exist that are not counted, no term is dropped, but terms may still retire.
	used, known := x.inUse()
	if known {
		inUse := func(id registry.TermID) bool { return used[id] }
		if idle := slices.DeleteFunc(slices.Clone(retiring), inUse); len(idle) > 0 {
			return x.dropTerms(reg, idle)
		}
	}
	// A term that cannot be dropped would only retire for its carriers to register it again.
	surplus = slices.DeleteFunc(surplus, func(id registry.TermID) bool { return used[id] })
	var terms []registry.RegisteredTerm
	for _, id := range surplus[:min(len(surplus), max(0, maxRetiring-len(retiring)))] {
		t, _ := x.Shard.Ledger.Terms().Get(id)
		terms = append(terms, t)
	}
	if len(terms) == 0 {
		return ledger.Txn{}, nil
	}
	return registry.RetireTerms(reg, terms[:registry.TermsInTxn(terms)]...)
}

// retiring returns the terms that are retiring, sorted.
func (x *Terms) retiring() []registry.TermID {
	var ids []registry.TermID
	for id, t := range x.Shard.Ledger.Terms().All() {
		if t.Retiring {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// guardsOf lists the keys of guards of the given terms, at most limit.
func (x *Terms) guardsOf(ids []registry.TermID, limit int) []string {
	var keys []string
	for _, id := range ids {
		keys = append(keys, x.Shard.Ledger.Terms().Guards(id)...)
	}
	return keys[:min(len(keys), limit)]
}

// dropTerms drops as many retiring terms with their guards as fit in one transaction. If those of one term do not
// fit, it drops guards first.
func (x *Terms) dropTerms(r registry.Registry, retiring []registry.TermID) (ledger.Txn, error) {
	var ids []registry.TermID
	var guards []string
	for _, id := range retiring {
		more := x.Shard.Ledger.Terms().Guards(id)
		if 1+len(ids)+1+len(guards)+len(more) > ledger.MaxTxnOps {
			break
		}
		ids, guards = append(ids, id), append(guards, more...)
	}
	if len(ids) == 0 {
		return registry.DropGuards(r, x.guardsOf(retiring[:1], ledger.MaxTxnOps))
	}
	return registry.DropTerms(r, x.Shard.View.TxnFacts().PodProgress(), ids, guards)
}

// inUse returns the terms that concern a pod which is reserved and not bound, according to everything this shard has
// applied: registry.DropTerms requires that there is none. (Carriers would be enough; but what pods that spread by
// default carried depends on objects that may have changed, and a carrier that its own term does not select is
// unusual.) known is false if there may be others.
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

// surplus returns the terms that exceed the limits, those unused the longest first, by the ledger's revisions: of
// all namespaces, or of a namespace that has nearly as many terms as remain free.
func (x *Terms) surplus() []registry.TermID {
	full := x.Shard.Ledger.Terms().Count() > retireAbove
	// Relative to what remains free: a namespace may use much of an empty registry, and little of a full one.
	much := (registry.MaxTerms - x.Shard.Ledger.Terms().Count()) * 3 / 4
	greedy := map[string]bool{}
	for namespace, n := range x.Shard.Ledger.Terms().Shares() {
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
	rested := x.heartbeats.unusedSince(x.Shard.Now)
	for id, t := range x.Shard.Ledger.Terms().All() {
		last := x.Shard.Ledger.Terms().LastUse(id)
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
