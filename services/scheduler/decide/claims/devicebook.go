package claims

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"

	resourcev1 "k8s.io/api/resource/v1"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/replica"
	"github.com/berth-scheduler/berth/pkg/placement/devices"
	"github.com/berth-scheduler/berth/pkg/state"
)

// deviceBook tracks what facts, reservations and staged pods say about devices, by applying their changes: reading
// all of them for each decision would cost time in proportion to the claims of the cluster. It is empty until the
// first pod names claims.
type deviceBook struct {
	open  bool
	index devices.Index
	// promises are those of reservations; staged are those of staged pods.
	promises map[promiseKey]devicePromise
	staged   map[*Supply][]devicePromise
	// unseen are the claims, by UID, that have been promised devices and for which the facts show none. While the
	// facts do not show the devices yet, the promise may be taken back; after the claim has ended, its devices are
	// free once the reservation is gone. No event reports either.
	unseen map[string]struct{}
	// broken are promises that cannot be read.
	broken map[promiseKey]error
}

// promiseKey is a promise to one claim in the document of a node.
type promiseKey struct {
	node  string
	token ledger.Token
	claim string
}

// devicePromise is promised to a pod together with its place: it may use a claim, which gets the allocation unless
// that is nil.
type devicePromise struct {
	claim, pod string // by UID
	allocation *resourcev1.AllocationResult
	pick       *ledger.DevicePick
}

// close forgets everything.
func (b *deviceBook) close() { *b = deviceBook{} }

// read starts from the current facts and ledger, if the book is not open.
func (b *deviceBook) read(facts *state.Snapshot, view *replica.View) {
	if b.open {
		return
	}
	*b = deviceBook{
		open: true, promises: map[promiseKey]devicePromise{}, staged: map[*Supply][]devicePromise{},
		unseen: map[string]struct{}{}, broken: map[promiseKey]error{},
	}
	// Once per life of the book; changes are applied from then on.
	b.index.Fill(facts)
	for d := range view.Docs() {
		b.followDoc(replica.DocChange{After: d}, facts)
	}
}

// followFacts applies changes of objects.
func (b *deviceBook) followFacts(changes []state.ObjectChange, facts *state.Snapshot) {
	if !b.open {
		return
	}
	for _, c := range changes {
		b.index.Apply(c)
		if o := cmp.Or(c.After, c.Before); c.Kind == events.KindResourceClaim && o != nil {
			b.updateUnseen(o.UID, facts)
		}
	}
}

// followLedger applies changes of documents.
func (b *deviceBook) followLedger(changes replica.Changes, facts *state.Snapshot) {
	if changes.Reset {
		b.close()
	}
	if !b.open {
		return
	}
	for _, d := range changes.Docs {
		b.followDoc(d, facts)
	}
}

// followDoc applies one change of a node's document. Entries are compared by token and claim, since a change of a
// document usually concerns other entries.
func (b *deviceBook) followDoc(d replica.DocChange, facts *state.Snapshot) {
	now, before := promisesIn(d.After), promisesIn(d.Before)
	// New promises come first, so that nothing is free in between.
	for key, entry := range now {
		was, known := b.promises[key]
		if known && bytes.Equal(was.pick.Allocation, entry.pick.Allocation) {
			continue
		}
		p, err := readPromise(entry.podUID, entry.pick)
		delete(b.promises, key)
		delete(b.broken, key)
		if err != nil {
			b.broken[key] = fmt.Errorf("document of node %s: %w", d.After.NodeName, err)
		} else {
			b.promises[key] = p
			b.promise(p, facts)
		}
		if known { // a hold has been promoted, with other devices
			b.withdraw(was, facts)
		}
	}
	for key := range before {
		if _, stays := now[key]; stays {
			continue
		}
		if p, known := b.promises[key]; known {
			b.withdraw(p, facts)
		}
		delete(b.promises, key)
		delete(b.broken, key)
	}
}

// pickOfPod is a pick with its pod.
type pickOfPod struct {
	podUID string
	pick   *ledger.DevicePick
}

// promisesIn returns the promises about claims in a document, nil for none, as in most.
func promisesIn(d ledger.NodeDoc) (list map[promiseKey]pickOfPod) {
	for i := range d.Entries {
		e := &d.Entries[i]
		for j := range e.Devices {
			if list == nil {
				list = map[promiseKey]pickOfPod{}
			}
			pick := &e.Devices[j]
			list[promiseKey{d.NodeUID, e.Token, claimOf(e.PodUID, pick)}] = pickOfPod{e.PodUID, pick}
		}
	}
	return list
}

// claimOf returns the UID of a claim, or a stand-in for it until the claim has been created.
func claimOf(podUID string, pick *ledger.DevicePick) string {
	if pick.Unmade() {
		return "made for " + podUID
	}
	return pick.ClaimUID
}

// readPromise decodes a pick. A pick without an allocation lets the pod use a claim that has its devices already.
func readPromise(podUID string, pick *ledger.DevicePick) (devicePromise, error) {
	p := devicePromise{claim: claimOf(podUID, pick), pod: podUID, pick: pick}
	if len(pick.Allocation) == 0 {
		return p, nil
	}
	p.allocation = &resourcev1.AllocationResult{}
	if err := p.allocation.Unmarshal(pick.Allocation); err != nil {
		return p, fmt.Errorf("allocation of claim %s: %w", pick.Claim, err)
	}
	return p, nil
}

// stage makes exactly these staged pods count, in addition to the reservations. Pods that were staged before, with
// the same picks, are not read again. New ones count before old ones are withdrawn, so that nothing is free in
// between.
func (b *deviceBook) stage(list []Staged, facts *state.Snapshot) error {
	old := b.staged
	b.staged = make(map[*Supply][]devicePromise, len(list))
	for _, s := range list {
		picks := s.Supply.Devices
		if len(picks) == 0 {
			continue
		}
		if was := old[s.Supply]; len(was) > 0 && was[0].pick == &picks[0] {
			b.staged[s.Supply] = was
			delete(old, s.Supply)
			continue
		}
		for i := range picks {
			p, err := readPromise(s.Pod.UID, &picks[i])
			if err != nil {
				return err
			}
			b.staged[s.Supply] = append(b.staged[s.Supply], p)
			b.promise(p, facts)
		}
	}
	for _, list := range old {
		for _, p := range list {
			b.withdraw(p, facts)
		}
	}
	return nil
}

// promise adds a promise to the index.
func (b *deviceBook) promise(p devicePromise, facts *state.Snapshot) {
	b.index.Promise(p.claim, p.pod, p.allocation)
	b.updateUnseen(p.claim, facts)
}

// withdraw removes a promise from the index.
func (b *deviceBook) withdraw(p devicePromise, facts *state.Snapshot) {
	b.index.Withdraw(p.claim, p.pod, p.allocation)
	b.updateUnseen(p.claim, facts)
}

// updateUnseen updates whether a claim is unseen.
func (b *deviceBook) updateUnseen(claim string, facts *state.Snapshot) {
	delete(b.unseen, claim)
	if !b.index.Allocating(claim) {
		return
	}
	if o, ok := facts.Object(events.KindResourceClaim, claim); ok {
		if c, ok := o.API.(*resourcev1.ResourceClaim); ok && c.Status.Allocation != nil {
			return
		}
	}
	b.unseen[claim] = struct{}{}
}

// problem returns why no decision about devices can be made; nil if decisions can be made. While any promise cannot
// be read, any device might be promised, so that no pod with claims is placed. Of several problems the first by key
// is returned.
func (b *deviceBook) problem() error {
	if len(b.broken) == 0 {
		return nil
	}
	keys := slices.SortedFunc(maps.Keys(b.broken), func(x, y promiseKey) int {
		return cmp.Or(cmp.Compare(x.node, y.node), cmp.Compare(x.token, y.token), cmp.Compare(x.claim, y.claim))
	})
	return b.broken[keys[0]]
}
