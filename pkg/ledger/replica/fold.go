package replica

import (
	"strings"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/identity"
	"github.com/berth-scheduler/berth/pkg/ledger/registry"
	"github.com/berth-scheduler/berth/pkg/ledger/roster"
)

// Fold applies one batch of Follow. Values that were learned at later revisions than a listing's are kept. It
// returns *StoreReplacedError (errors.As) if a listing cannot follow on the view's content, because the store went
// back.
func (v *View) Fold(b Batch) (Changes, error) {
	if b.Reset {
		if err := v.checkContinues(b); err != nil && !b.Restart {
			return Changes{}, err
		}
		was := *v
		err := v.Reset(b.KVs, b.Events.Revision)
		if v.store = b.Store; err == nil && !b.Restart {
			v.carryOver(&was)
		}
		again := was.revision > 0 && v.generation.Revision != was.generation.Revision
		return Changes{Reset: true, Generation: again}, err
	}
	return v.Apply(b.Events)
}

// checkContinues checks that a listing of the store is later than the view: it has no older value than the view knows
// of by the listing's revision, and lacks none that the view, complete up to its own revision, has. A value that was
// learned at a later revision than the listing's proves nothing: a transaction of this member may have been carried
// out after the list was read, and answered before the list was folded in.
func (v *View) checkContinues(b Batch) error {
	anew := &ledger.StoreReplacedError{Was: v.store, Now: b.Store, Seen: v.revision, Revision: b.Events.Revision}
	if v.revision == 0 {
		return nil
	}
	if v.store != b.Store || b.Events.Revision < v.revision {
		return anew
	}
	for _, kv := range b.KVs {
		uid, is := strings.CutPrefix(kv.Key, ledger.PrefixNode)
		if !is {
			continue
		}
		known := v.docs.byNode[uid].Revision
		older := kv.ModRevision < known && known <= b.Events.Revision
		if missed := kv.ModRevision > known && kv.ModRevision <= v.revision; older || missed {
			anew.Key = kv.Key
			return anew
		}
	}
	return nil
}

// Reset replaces the view by a listing of the whole ledger, read at revision. An error names the key whose value
// cannot be read; the view is then empty, at revision 0. (Fold keeps what was learned at later revisions.)
func (v *View) Reset(kvs []ledger.KV, revision int64) error {
	v.clear()
	for _, kv := range kvs {
		if err := v.put(kv, &changeSet{}); err != nil {
			v.clear()
			return err
		}
	}
	v.advance(revision)
	return nil
}

// Apply folds in what a watch delivered: every event up to b.Revision. Events that Learn has anticipated change
// nothing. An error names the key whose value cannot be read. The member must stop then: if it continued without
// the value, it might contradict a promise.
func (v *View) Apply(b ledger.EventBatch) (Changes, error) {
	set := changeSet{docs: make([]DocChange, 0, len(b.Events))}
	for _, ev := range b.Events {
		if ev.Deleted {
			v.drop(ev.Key, ev.ModRevision, &set)
			continue
		}
		if err := v.put(ev.KV, &set); err != nil {
			return set.changes(), err
		}
	}
	v.advance(max(v.revision, b.Revision))
	return set.changes(), nil
}

// Learn folds in keys that this member knows ahead of its watch: those that a lost compare brought back
// (TxnResult.Current). The newer revision of a key wins. Keys that the watch has covered already are left alone,
// because the watch may have deleted them since.
//
// Owners, incarnations, the floor, terms and guards are not learned: each stands for all earlier changes related to
// it, and only the watch delivers those (see LearnOwn for what a member's own transaction adds). A shard that
// learned of its own ownership ahead of its watch would decide without the reservations of the previous owners. One
// that learned of a node's admission would decide without all documents of its name. One that learned of the floor
// would treat documents as absent that it has yet to read. For the same reason nothing is placed in a document that
// was created since, until the watch has reached it (Admission, AheadOfWatch): the node may have been admitted
// after another one.
func (v *View) Learn(kvs []ledger.KV) (Changes, error) {
	return v.learn(kvs, true, func(key string) bool {
		return ofTerms(key) || strings.HasPrefix(key, roster.PrefixOwn) || strings.HasPrefix(key, ledger.PrefixIncarnation) ||
			key == ledger.KeyFloor
	})
}

// LearnPut folds in what this member's own transaction has put: documents, and also incarnations, because the
// transaction has compared them.
func (v *View) LearnPut(kvs []ledger.KV) (Changes, error) {
	return v.learn(kvs, false, func(key string) bool {
		return ofTerms(key) || strings.HasPrefix(key, roster.PrefixOwn) || key == ledger.KeyFloor
	})
}

// LearnOwn folds in what this member's own transaction has put: what LearnPut accepts, and its guards as far as
// their compares prove that nothing uncounted lies before them.
func (v *View) LearnOwn(t ledger.Txn, r ledger.TxnResult) (Changes, error) {
	if r.Succeeded && r.Revision > v.revision {
		for _, p := range t.Puts {
			if strings.HasPrefix(p.Key, registry.PrefixGuard) {
				v.terms.putOwn(p.Key, t, r.Revision)
			}
		}
	}
	return v.LearnPut(t.Committed(r))
}

// learn stores the values that are later than the watch and whose kind may be learned (not excludes the others).
// foreign reports that other members have put them.
func (v *View) learn(kvs []ledger.KV, foreign bool, not func(key string) bool) (Changes, error) {
	set := changeSet{}
	for _, kv := range kvs {
		if kv.ModRevision <= v.revision || not(kv.Key) {
			continue
		}
		if foreign {
			v.names.note(kv)
			v.budgets.note(kv)
		}
		if err := v.put(kv, &set); err != nil {
			return set.changes(), err
		}
	}
	return set.changes(), nil
}

// advance records that the view is complete up to a revision.
func (v *View) advance(revision int64) {
	v.revision = revision
	v.terms.reached(revision)
	v.names.reached(revision)
	v.budgets.reached(revision)
}

// put stores one key in the part that it belongs to, unless that has this revision of the key or a newer one. It
// ignores keys that belong to no part, such as those of elections.
func (v *View) put(kv ledger.KV, set *changeSet) error {
	switch {
	case strings.HasPrefix(kv.Key, ledger.PrefixNode):
		return v.putDoc(kv, set)
	case ofRoster(kv.Key):
		return v.roster.put(kv, set)
	case ofTerms(kv.Key):
		return v.terms.put(kv, set)
	case strings.HasPrefix(kv.Key, ledger.PrefixBudget):
		return v.budgets.put(kv, set)
	case strings.HasPrefix(kv.Key, ledger.PrefixPlan):
		return v.plans.put(kv, set)
	case ledger.IsExclusiveKey(kv.Key):
		return v.exclusives.put(kv, set)
	case strings.HasPrefix(kv.Key, ledger.PrefixIncarnation):
		return v.names.put(kv, set)
	case kv.Key == ledger.KeyFloor:
		return v.docs.putFloor(kv, kv.ModRevision == v.generation.Revision, set)
	case kv.Key == identity.KeyGeneration:
		return v.putGeneration(kv, set)
	case kv.Key == identity.KeyCluster:
		uid, err := identity.DecodeCluster(kv.Value)
		if err != nil {
			return err
		}
		v.cluster = uid
	}
	return nil
}

// putDoc stores the document of a node, unless that revision of it or a newer one is known.
func (v *View) putDoc(kv ledger.KV, set *changeSet) error {
	r, newer, err := v.docs.decode(kv)
	if err != nil || !newer {
		return err
	}
	v.setDoc(&r, set)
	return nil
}

// setDoc stores a document that has changed, and updates the indexes of plans.
func (v *View) setDoc(r *revised, set *changeSet) {
	v.docs.set(r, set)
	v.plans.index(&r.change)
}

// putGeneration stores a generation, which ends what the previous one has proved about resourceVersions.
func (v *View) putGeneration(kv ledger.KV, set *changeSet) error {
	if kv.ModRevision <= v.generation.Revision {
		return nil
	}
	g, err := identity.DecodeGeneration(kv)
	if err != nil {
		return err
	}
	v.docs.recomputeHighest()
	v.generation, set.generation = g, true
	return nil
}

// drop applies a deletion at revision, unless the view has a newer value. The deletion of the floor or of the
// generation changes nothing.
func (v *View) drop(key string, revision int64, set *changeSet) {
	switch {
	case strings.HasPrefix(key, ledger.PrefixNode):
		uid := strings.TrimPrefix(key, ledger.PrefixNode)
		if c, dropped := v.docs.drop(uid, revision, set); dropped {
			v.plans.index(&c)
		}
	case ofRoster(key):
		v.roster.drop(key, revision, set)
	case ofTerms(key):
		v.terms.drop(key, revision, set)
	case strings.HasPrefix(key, ledger.PrefixBudget):
		v.budgets.drop(key, revision, set)
	case strings.HasPrefix(key, ledger.PrefixPlan):
		v.plans.drop(key, revision, set)
	case ledger.IsExclusiveKey(key):
		v.exclusives.drop(key, revision, set)
	case strings.HasPrefix(key, ledger.PrefixIncarnation):
		v.names.drop(key, revision, set)
	case key == identity.KeyCluster:
		v.cluster = ""
	}
}
