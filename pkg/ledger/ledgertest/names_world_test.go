package ledgertest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/identity"
	"github.com/berth-scheduler/berth/pkg/ledger/invariant"
	"github.com/berth-scheduler/berth/pkg/ledger/mem"
	"github.com/berth-scheduler/berth/pkg/ledger/replica"
)

// namesRules are the parts of the protocol about names, epochs and generations that an ablation can remove.
type namesRules struct {
	// uncompared is the prefix of keys whose compares are left out.
	uncompared string
	// noFloor: first documents start from nothing.
	noFloor bool
	// noEpoch: a staged decision is sent in the current epoch, without a check for a reservation.
	noEpoch bool
	// noGrace: a generation is opened while binds of the previous one are in flight.
	noGrace bool
}

const (
	namesCount    = 2
	namesPods     = 7
	namesMembers  = 3
	namesCapacity = 2
	// largeLater is how many bytes of later-version fields a large reservation has: one fits in a document.
	largeLater = 40 << 10
)

// nodeFact is a node as the API server has it: the node that a name stands for.
type nodeFact struct {
	uid string
	rv  uint64
}

// namesChange is one version of a pod or, with a name, of a node.
type namesChange struct {
	pod  apiPod
	name string
	node nodeFact
}

// staged is a decision that waits: for the previous transaction, or for a plugin.
type staged struct {
	uid, node, name string
	rv, nodeRV      uint64
	version         ledger.Version
	epoch           int64
	large           bool
}

// namesMember is a shard whose inputs lag independently: the facts about pods, those about nodes, and the ledger.
type namesMember struct {
	id             string
	session        ledger.Session
	view           *replica.View
	folded         int
	pods           map[string]apiPod
	nodes          map[string]nodeFact
	progress, seen uint64 // of pods and of nodes
	staged         []staged
}

// PodFact implements txns.PodFacts.
func (m *namesMember) PodFact(uid string) (uint64, bool, bool) {
	p, ok := m.pods[uid]
	return p.rv, p.node != "", ok
}

// PodProgress implements txns.PodFacts.
func (m *namesMember) PodProgress() uint64 { return m.progress }

// namesWorld contains nodes that are deleted and register again, partitions that change owners, documents that are
// collected, and a ledger that is restored.
type namesWorld struct {
	rules  namesRules
	choose func(what string, n int) int

	store  *mem.Store
	stop   context.CancelFunc
	watch  ledger.Watch
	log    []replica.Batch
	truth  *replica.View
	backup mem.Backup
	namesCluster
	sent    []bindRequest
	fences  []patched
	members []*namesMember
	token   ledger.Token
	counts  map[string]int
}

// namesCluster is the content of the API server.
type namesCluster struct {
	history []namesChange // at index rv-1
	pods    map[string]apiPod
	nodes   map[string]nodeFact
	named   int // nodes so far
}

func newNamesWorld(ctx context.Context, r namesRules, choose func(string, int) int) (*namesWorld, error) {
	w := &namesWorld{
		rules: r, choose: choose, store: mem.New(), counts: map[string]int{},
		namesCluster: namesCluster{pods: map[string]apiPod{}, nodes: map[string]nodeFact{}},
	}
	for i := range namesCount {
		w.register(nodeUID(i))
	}
	for i := range namesMembers {
		w.members = append(w.members, &namesMember{id: fmt.Sprintf("s%d", i)})
	}
	return w, w.begin(ctx)
}

// begin starts every member on the ledger as it is, with the content of the API server.
func (w *namesWorld) begin(ctx context.Context) error {
	if w.stop != nil {
		w.stop()
	}
	watching, stop := context.WithCancel(ctx)
	w.stop = stop
	kvs, revision, err := w.store.List(ctx, "")
	if err != nil {
		return err
	}
	w.truth = replica.NewView()
	w.log = []replica.Batch{{Reset: true, KVs: kvs, Events: ledger.EventBatch{Revision: revision}}}
	if _, err := w.truth.Fold(w.log[0]); err != nil {
		return err
	}
	w.watch = w.store.Watch(watching, "", revision+1)
	for _, m := range w.members {
		m.view, m.folded, m.staged = replica.NewView(), 0, nil
		m.pods, m.nodes = map[string]apiPod{}, map[string]nodeFact{}
		m.progress, m.seen = 0, 0
		m.learnPods(w, len(w.history))
		m.learnNodes(w, len(w.history))
		if m.session, err = w.store.OpenSession(ctx, sessionTTL); err != nil {
			return err
		}
	}
	return nil
}

func (w *namesWorld) register(name string) {
	w.named++
	w.nodes[name] = nodeFact{uid: fmt.Sprintf("%s-%d", name, w.named), rv: uint64(len(w.history) + 1)}
	w.history = append(w.history, namesChange{name: name, node: w.nodes[name]})
}

func (w *namesWorld) change(p apiPod) apiPod {
	p.rv = uint64(len(w.history) + 1)
	w.history = append(w.history, namesChange{pod: p})
	if p.deleted {
		delete(w.pods, p.uid)
	} else {
		w.pods[p.uid] = p
	}
	return p
}

// commit runs a transaction and checks what it changed.
func (w *namesWorld) commit(ctx context.Context, t ledger.Txn) (ledger.TxnResult, error) {
	if p := w.rules.uncompared; p != "" {
		t.Compares = slices.DeleteFunc(slices.Clone(t.Compares), func(c ledger.Compare) bool { return hasPrefix(c.Key, p) })
	}
	r, err := w.store.Commit(ctx, t)
	return r, errors.Join(err, w.sync(ctx))
}

func hasPrefix(key, prefix string) bool {
	return len(key) >= len(prefix) && key[:len(prefix)] == prefix
}

// sync applies the changes of the ledger, and checks them.
func (w *namesWorld) sync(ctx context.Context) error {
	_, revision, err := w.store.List(ctx, identity.KeyCluster)
	if err != nil {
		return err
	}
	for w.truth.Revision() < revision {
		before := stored(w.truth)
		b := replica.Batch{Events: <-w.watch.Batches()}
		if _, err := w.truth.Fold(b); err != nil {
			return err
		}
		w.log = append(w.log, b)
		if err := w.succeeds(before); err != nil {
			return err
		}
	}
	return w.check()
}

// stored returns the documents of a view, by node UID.
func stored(v *replica.View) map[string]ledger.NodeDoc {
	out := map[string]ledger.NodeDoc{}
	for d := range v.Docs() {
		out[d.NodeUID] = d
	}
	return out
}

// succeeds compares documents with the previous ones: S4, S12 and S16, and that nothing a later version wrote was
// dropped. A closed generation is cleared.
func (w *namesWorld) succeeds(before map[string]ledger.NodeDoc) error {
	now := stored(w.truth)
	for _, uid := range slices.Sorted(maps.Keys(before)) {
		old := before[uid]
		after, there := now[uid]
		if !there {
			if err := w.gone(old); err != nil {
				return err
			}
			continue
		}
		if old.Revision == after.Revision {
			continue
		}
		if v := invariant.CheckSuccessor(old, after); len(v) > 0 {
			return v[0]
		}
		if len(old.Later) > 0 && old.Later != after.Later {
			return fmt.Errorf("later: document %s had fields of a later version", uid)
		}
		for _, e := range old.Entries {
			kept, ok := after.Find(e.PodUID)
			if ok && kept.Token == e.Token && len(e.Later) > 0 && kept.Later != e.Later {
				return fmt.Errorf("later: the reservation of pod %s had fields of a later version", e.PodUID)
			}
		}
	}
	return nil
}

// gone is S12 for a document that was collected.
func (w *namesWorld) gone(d ledger.NodeDoc) error {
	if !w.truth.IsOpen() {
		return nil
	}
	if len(d.Entries) > 0 {
		return fmt.Errorf("S12: document %s was collected with %d entries", d.NodeUID, len(d.Entries))
	}
	for kind, rv := range d.HW {
		if w.truth.Floor().HW[kind] < rv {
			return fmt.Errorf("S12: document %s was collected, and its high-water of %ss is not in the floor", d.NodeUID, kind)
		}
	}
	return nil
}

// check is S1 by name, and S3, counting each document by itself. While the ledger is closed none of its promises is
// valid.
func (w *namesWorld) check() error {
	used, at := map[string][]string{}, map[string]string{}
	for _, p := range w.pods {
		if p.node != "" {
			used[p.node] = append(used[p.node], p.uid)
		}
	}
	for d := range w.truth.Docs() {
		for _, e := range d.Entries {
			if e.Role != ledger.RoleReservation {
				continue
			}
			if other, twice := at[e.PodUID]; twice && w.truth.IsOpen() {
				return fmt.Errorf("S3: pod %s is reserved on %s and on %s", e.PodUID, other, d.NodeUID)
			}
			at[e.PodUID] = d.NodeUID
			if p, alive := w.pods[e.PodUID]; alive && p.node == "" && w.truth.IsOpen() {
				used[d.NodeName] = append(used[d.NodeName], e.PodUID+" in "+d.NodeUID)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(used)) {
		if len(used[name]) > namesCapacity {
			slices.Sort(used[name])
			return fmt.Errorf("S1: the name %s with room for %d has %v", name, namesCapacity, used[name])
		}
	}
	return nil
}

func (m *namesMember) learnPods(w *namesWorld, n int) {
	for ; n > 0; n-- {
		c := w.history[m.progress]
		m.progress++
		switch {
		case c.name != "":
		case c.pod.deleted:
			delete(m.pods, c.pod.uid)
		default:
			m.pods[c.pod.uid] = c.pod
		}
	}
}

func (m *namesMember) learnNodes(w *namesWorld, n int) {
	for ; n > 0; n-- {
		if c := w.history[m.seen]; c.name != "" {
			m.nodes[c.name] = c.node
		}
		m.seen++
	}
}

func (m *namesMember) learnLedger(w *namesWorld, n int) error {
	for ; n > 0; n-- {
		if _, err := m.view.Fold(w.log[m.folded]); err != nil {
			return err
		}
		m.folded++
	}
	return nil
}
