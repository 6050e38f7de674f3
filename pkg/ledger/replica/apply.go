package replica

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/codec"
	"github.com/berth-scheduler/berth/pkg/ledger/identity"
	"github.com/berth-scheduler/berth/pkg/ledger/registry"
	"github.com/berth-scheduler/berth/pkg/ledger/roster"
)

// Changes describes what one call changed in a View.
type Changes struct {
	// Reset: everything may have changed. Apart from it, only Generation is filled in.
	Reset bool
	// Docs are the changes of documents, in the order of the ledger.
	Docs []DocChange
	// PodUIDs are the pods whose reservations appeared, changed or disappeared, sorted.
	PodUIDs []string
	// Partitions are those that changed their owner, their epoch or the member they are wanted for, sorted.
	Partitions []int32
	// Members: a member appeared, disappeared or changed its record.
	Members bool
	// Names are the node names that stand for another node now, sorted. Floor: the floor was raised.
	Names []string
	Floor bool
	// Generation: it differs from the view's previous one, or was opened or closed. A first listing never sets it.
	Generation bool
	// Registry: t/reg moved. Terms are those that appeared, changed or disappeared, sorted.
	Registry bool
	Terms    []registry.TermID
	// Budgets are the UIDs of disruption budgets, Exclusives the keys of volumes and pools, and Plans the ids of
	// plans whose documents appeared, changed or disappeared, sorted.
	Budgets, Exclusives, Plans []string
}

// DocChange is one change of one document. A zero Before means that the document is new, a zero After that it was
// deleted (the node is long gone).
type DocChange struct{ Before, After ledger.NodeDoc }

// Fold applies one batch of Follow. Values that were learned at later revisions than a listing's are kept. It
// returns *StoreReplacedError (errors.As) if a listing cannot follow on the view's content, because the store went
// back.
func (v *View) Fold(b Batch) (Changes, error) {
	if b.Reset {
		if err := v.follows(b); err != nil && !b.Restart {
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

// follows checks that a listing of the store is later than the view: it has no older value than the view knows of
// by the listing's revision, and lacks none that the view, complete up to its own revision, has. A value that was
// learned at a later revision than the listing's proves nothing: a transaction of this member may have been carried
// out after the list was read, and answered before the list was folded in.
func (v *View) follows(b Batch) error {
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
		known := v.docs[uid].Revision
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
	v.revision = revision
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
	v.revision = max(v.revision, b.Revision)
	v.names.reached(v.revision)
	v.claims.reached(v.revision)
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

func (v *View) learn(kvs []ledger.KV, foreign bool, not func(key string) bool) (Changes, error) {
	set := changeSet{}
	for _, kv := range kvs {
		if kv.ModRevision <= v.revision || not(kv.Key) {
			continue
		}
		if foreign {
			v.names.note(kv, v.docs[strings.TrimPrefix(kv.Key, ledger.PrefixNode)].Revision)
			v.claims.note(kv)
		}
		if err := v.put(kv, &set); err != nil {
			return set.changes(), err
		}
	}
	return set.changes(), nil
}

// put stores one key, unless the view has that revision of it or a newer one.
func (v *View) put(kv ledger.KV, set *changeSet) error {
	switch {
	case strings.HasPrefix(kv.Key, ledger.PrefixNode):
		return v.putDoc(kv, set)
	case strings.HasPrefix(kv.Key, roster.PrefixOwn):
		return v.putOwner(kv, set)
	case strings.HasPrefix(kv.Key, roster.PrefixWant):
		return v.putWanted(kv, set)
	case strings.HasPrefix(kv.Key, roster.PrefixMember):
		return v.putMember(kv, set)
	case ofTerms(kv.Key):
		return v.terms.put(kv, set)
	case ofClaims(kv.Key):
		return v.claims.put(kv, set)
	case strings.HasPrefix(kv.Key, ledger.PrefixIncarnation):
		return v.putIncarnation(kv, set)
	case kv.Key == ledger.KeyFloor:
		return v.putFloor(kv, set)
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

func (v *View) putDoc(kv ledger.KV, set *changeSet) error {
	old, held := v.docs[strings.TrimPrefix(kv.Key, ledger.PrefixNode)]
	if held && kv.ModRevision <= old.Revision {
		return nil
	}
	d, err := codec.DecodeNodeDoc(kv)
	if err != nil {
		return err
	}
	v.setDoc(d, set)
	return nil
}

// setDoc stores d as the document of its node.
func (v *View) setDoc(d ledger.NodeDoc, set *changeSet) {
	old := v.docs[d.NodeUID]
	v.name(&d)
	v.docs[d.NodeUID] = d
	v.raise(d.HW)
	v.reach(d)
	v.index(old, d, set)
	v.renamed(d.NodeName)
}

// raise keeps the highest high-waters.
func (v *View) raise(hw map[string]uint64) {
	for kind, rv := range hw {
		if rv > v.highest[kind] {
			v.highest[kind] = rv
		}
	}
}

// reach records the resourceVersions that a document's entries were decided on.
func (v *View) reach(d ledger.NodeDoc) {
	var pods, claims uint64
	for i := range d.Entries {
		e := &d.Entries[i]
		pods = max(pods, e.PodRV)
		for j := range e.Dependents {
			pods = max(pods, e.Dependents[j].PodRV)
		}
		for j := range e.Devices {
			claims = max(claims, e.Devices[j].ClaimRV)
		}
	}
	v.reached[ledger.KindPod] = max(v.reached[ledger.KindPod], pods)
	if claims > 0 {
		v.reached[ledger.KindClaim] = max(v.reached[ledger.KindClaim], claims)
	}
}

// index moves the reservations of one document from old to now.
func (v *View) index(old, now ledger.NodeDoc, set *changeSet) {
	set.docs = append(set.docs, DocChange{Before: old, After: now})
	v.claims.index(old, now)
	v.names.index(old, now)
	// Most reservations of a document stay where they are when it is written again.
	for e := range old.Reservations() {
		set.pod(e.PodUID)
		if now.Reserves(e.PodUID) {
			continue
		}
		at := slices.DeleteFunc(slices.Clone(v.reserved[e.PodUID]), func(uid string) bool { return uid == old.NodeUID })
		if len(at) == 0 {
			delete(v.reserved, e.PodUID)
			continue
		}
		v.reserved[e.PodUID] = at
	}
	for e := range now.Reservations() {
		set.pod(e.PodUID)
		if old.Reserves(e.PodUID) {
			continue
		}
		v.reserved[e.PodUID] = append(slices.Clip(v.reserved[e.PodUID]), now.NodeUID)
	}
}

func (v *View) putOwner(kv ledger.KV, set *changeSet) error {
	p, ok := roster.ParseOwn(kv.Key)
	if !ok {
		return fmt.Errorf("ledger: key %s: want %s and a partition below %d", kv.Key, roster.PrefixOwn, ledger.Partitions)
	}
	old := v.owners[p]
	if kv.ModRevision <= old.modified {
		return nil
	}
	owner, err := roster.DecodeOwner(kv.Value)
	if err != nil {
		return fmt.Errorf("ledger: key %s: %w", kv.Key, err)
	}
	epoch := kv.CreateRevision
	if epoch == 0 {
		epoch = old.epoch
	}
	v.owners[p] = ownership{owner: owner, epoch: epoch, modified: kv.ModRevision}
	if epoch != old.epoch || owner.Member != old.owner.Member {
		set.partition(p)
	}
	return nil
}

func (v *View) putWanted(kv ledger.KV, set *changeSet) error {
	p, ok := roster.ParseWant(kv.Key)
	if !ok {
		return fmt.Errorf("ledger: key %s: want %s and a partition below %d", kv.Key, roster.PrefixWant, ledger.Partitions)
	}
	if kv.ModRevision <= v.wanted[p].modified {
		return nil
	}
	owner, err := roster.DecodeOwner(kv.Value)
	if err != nil {
		return fmt.Errorf("ledger: key %s: %w", kv.Key, err)
	}
	v.wanted[p] = ownership{owner: owner, modified: kv.ModRevision}
	set.partition(p)
	return nil
}

func (v *View) putMember(kv ledger.KV, set *changeSet) error {
	if kv.ModRevision <= v.members[kv.Key].modified {
		return nil
	}
	m, err := roster.DecodeMember(kv.Value)
	if err != nil {
		return fmt.Errorf("ledger: key %s: %w", kv.Key, err)
	}
	v.members[kv.Key] = membership{member: m, modified: kv.ModRevision}
	set.members = true
	return nil
}

// drop applies a deletion at revision, unless the view has a newer value.
func (v *View) drop(key string, revision int64, set *changeSet) {
	if uid, ok := strings.CutPrefix(key, ledger.PrefixNode); ok {
		if old, known := v.docs[uid]; known && old.Revision < revision {
			delete(v.docs, uid)
			v.index(old, ledger.NodeDoc{}, set)
			v.renamed(old.NodeName)
		}
		return
	}
	if strings.HasPrefix(key, ledger.PrefixIncarnation) {
		v.dropIncarnation(key, revision, set)
		return
	}
	if p, ok := roster.ParseOwn(key); ok {
		if old, known := v.owners[p]; known && old.modified < revision {
			delete(v.owners, p)
			set.partition(p)
		}
		return
	}
	if p, ok := roster.ParseWant(key); ok {
		if old, known := v.wanted[p]; known && old.modified < revision {
			delete(v.wanted, p)
			set.partition(p)
		}
		return
	}
	if old, known := v.members[key]; known && old.modified < revision {
		delete(v.members, key)
		set.members = true
	}
	if ofTerms(key) {
		v.terms.drop(key, revision, set)
	}
	if ofClaims(key) {
		v.claims.drop(key, revision, set)
	}
	if key == identity.KeyCluster {
		v.cluster = ""
	}
}

// changeSet gathers Changes; a pod or partition may be added more than once.
type changeSet struct {
	docs              []DocChange
	pods              map[string]struct{}
	partitions        map[int32]struct{}
	members, registry bool
	terms             map[registry.TermID]struct{}
	// The names, in the order of the ledger, some more than once.
	budgets, exclusives, plans, names []string
	floor, generation                 bool
}

func (s *changeSet) pod(uid string) {
	if s.pods == nil {
		s.pods = map[string]struct{}{}
	}
	s.pods[uid] = struct{}{}
}

func (s *changeSet) partition(p int32) {
	if s.partitions == nil {
		s.partitions = map[int32]struct{}{}
	}
	s.partitions[p] = struct{}{}
}

func (s *changeSet) term(id registry.TermID) {
	if s.terms == nil {
		s.terms = map[registry.TermID]struct{}{}
	}
	s.terms[id] = struct{}{}
}

func (s *changeSet) changes() Changes {
	return Changes{
		Docs:       s.docs,
		PodUIDs:    slices.Sorted(maps.Keys(s.pods)),
		Partitions: slices.Sorted(maps.Keys(s.partitions)),
		Members:    s.members,
		Registry:   s.registry,
		Terms:      slices.Sorted(maps.Keys(s.terms)),
		Budgets:    slices.Compact(slices.Sorted(slices.Values(s.budgets))),
		Exclusives: slices.Compact(slices.Sorted(slices.Values(s.exclusives))),
		Plans:      slices.Compact(slices.Sorted(slices.Values(s.plans))),
		Names:      slices.Compact(slices.Sorted(slices.Values(s.names))),
		Floor:      s.floor,
		Generation: s.generation,
	}
}
