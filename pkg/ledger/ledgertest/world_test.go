package ledgertest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/mem"
)

// rules are the parts of the protocol that an ablation can take away.
type rules struct {
	noHighWater    bool // shards use nodes their facts are too old for
	noPrecondition bool // binds do not carry the pod's resourceVersion
	noFencePatch   bool // a fence does not change the pod
}

const (
	worldNodes    = 2
	worldPods     = 5
	worldShards   = 3
	worldCapacity = 2
	// worldPartitions is how few partitions all pods belong to, so that every shard that
	// owns one has something to do.
	worldPartitions = 3
)

// podUID is the n-th pod's, in the n-th of worldPartitions.
func podUID(n int) string {
	for salt := 0; ; salt++ {
		uid := fmt.Sprintf("pod-%d-%d", n, salt)
		if ledger.PartitionOf(uid) == int32(n%worldPartitions) {
			return uid
		}
	}
}

// apiPod is one pod as the API server has it.
type apiPod struct {
	uid     string
	rv      uint64
	node    string
	deleted bool
}

// bindRequest is a bind on its way: it may arrive at any time, any number of times.
type bindRequest struct {
	node, uid string
	rv        uint64
	token     ledger.Token
	revision  int64
}

// patched is the answer of a fence's write.
type patched struct {
	node, uid string
	token     ledger.Token
	rv        uint64
}

// unresolved is a T1 whose answer was lost.
type unresolved struct {
	batch ledger.PlaceBatch
	txn   ledger.Txn
}

// member is a simulated shard: two views that lag behind each in their own way.
type member struct {
	id       string
	session  ledger.Session
	view     *ledger.View
	folded   int // batches of world.log
	pods     map[string]apiPod
	progress uint64
	pending  []unresolved
}

func (m *member) PodFact(uid string) (uint64, bool, bool) {
	p, ok := m.pods[uid]
	return p.rv, p.node != "", ok
}

func (m *member) PodProgress() uint64 { return m.progress }

// world is the API server, the ledger and everything in flight between them.
type world struct {
	rules  rules
	choose func(what string, n int) int

	store *mem.Store
	watch ledger.Watch
	log   []ledger.ViewBatch
	truth *ledger.View

	history []apiPod // every version of every pod, at index rv-1
	pods    map[string]apiPod

	members []*member
	token   ledger.Token
	hints   []bindRequest
	sent    []bindRequest
	fences  []patched
	counts  map[string]int
}

func newWorld(ctx context.Context, r rules, choose func(string, int) int) (*world, error) {
	w := &world{
		rules: r, choose: choose, store: mem.New(), truth: ledger.NewView(),
		pods: map[string]apiPod{}, counts: map[string]int{},
	}
	w.log = []ledger.ViewBatch{{Reset: true, Events: ledger.EventBatch{Revision: 1}}}
	if _, err := w.truth.Fold(w.log[0]); err != nil {
		return nil, err
	}
	w.watch = w.store.Watch(ctx, "", 2)
	for i := range worldShards {
		m := &member{id: fmt.Sprintf("s%d", i), view: ledger.NewView(), pods: map[string]apiPod{}}
		var err error
		if m.session, err = w.store.OpenSession(ctx, sessionTTL); err != nil {
			return nil, err
		}
		w.members = append(w.members, m)
	}
	return w, nil
}

// commit runs a transaction and checks what it changed.
func (w *world) commit(ctx context.Context, t ledger.Txn) (ledger.TxnResult, error) {
	r, err := w.store.Commit(ctx, t)
	return r, errors.Join(err, w.sync(ctx))
}

// sync waits until the watch has told everything the ledger did, and checks it.
func (w *world) sync(ctx context.Context) error {
	_, revision, err := w.store.List(ctx, ledger.PrefixNode)
	if err != nil {
		return err
	}
	for w.truth.Revision() < revision {
		b := ledger.ViewBatch{Events: <-w.watch.Batches()}
		changes, err := w.truth.Fold(b)
		if err != nil {
			return err
		}
		w.log = append(w.log, b)
		for _, c := range changes.Docs {
			for _, v := range append(ledger.CheckSuccessor(c.Before, c.After), ledger.CheckDoc(c.After)...) {
				return v
			}
		}
	}
	return w.check()
}

// check is S1, in its strict form, and S3.
func (w *world) check() error {
	for _, v := range ledger.CheckUnique(w.truth.Docs()) {
		return v
	}
	used := map[string][]string{}
	for uid, p := range w.pods {
		if p.node != "" {
			used[p.node] = append(used[p.node], uid)
			continue
		}
		if d, e, ok := w.truth.Entry(uid); ok && e.State != ledger.Held {
			used[d.NodeUID] = append(used[d.NodeUID], uid)
		}
	}
	for n, uids := range used {
		if len(uids) > worldCapacity {
			slices.Sort(uids)
			return fmt.Errorf("S1: node %s with room for %d has %v", n, worldCapacity, uids)
		}
	}
	return nil
}

// change is a write of the API server.
func (w *world) change(p apiPod) apiPod {
	p.rv = uint64(len(w.history) + 1)
	w.history = append(w.history, p)
	if p.deleted {
		delete(w.pods, p.uid)
	} else {
		w.pods[p.uid] = p
	}
	return p
}

func pick[T any](w *world, what string, from []T) (T, bool) {
	var none T
	if len(from) == 0 {
		return none, false
	}
	return from[w.choose(what, len(from))], true
}

func (w *world) pod() (apiPod, bool) {
	uid, ok := pick(w, "pod", slices.Sorted(maps.Keys(w.pods)))
	return w.pods[uid], ok
}

// steps is everything that can happen next. Each returns a violation, or nil.
func (w *world) steps() []func(context.Context) error {
	return []func(context.Context) error{
		w.createPod, w.createPod, w.touchPod, w.deletePod, w.take, w.expire,
		w.learnFacts, w.learnFacts, w.learnFacts, w.learnLedger, w.learnLedger, w.learnLedger,
		w.place, w.place, w.place, w.place, w.resolve, w.checkHint, w.checkHint, w.bind, w.bind, w.bind,
		w.handOver, w.handOver, w.handOver, w.fenceMark, w.fencePatch, w.fenceRelease,
	}
}

func (w *world) createPod(context.Context) error {
	if len(w.pods) < worldPods {
		w.change(apiPod{uid: podUID(len(w.history))})
	}
	return nil
}

func (w *world) touchPod(context.Context) error {
	if p, ok := w.pod(); ok && w.choose("touch", 4) == 0 {
		w.change(p)
	}
	return nil
}

func (w *world) deletePod(context.Context) error {
	if p, ok := w.pod(); ok && w.choose("delete", 3) == 0 {
		p.deleted = true
		w.change(p)
	}
	return nil
}

func (w *world) member() *member { return w.members[w.choose("member", len(w.members))] }

func (w *world) learnFacts(context.Context) error {
	m := w.member()
	for n := w.choose("facts", len(w.history)-int(m.progress)+1); n > 0; n-- {
		p := w.history[m.progress]
		m.progress = p.rv
		if p.deleted {
			delete(m.pods, p.uid)
		} else {
			m.pods[p.uid] = p
		}
	}
	return nil
}

func (w *world) learnLedger(context.Context) error {
	m := w.member()
	for n := w.choose("ledger", len(w.log)-m.folded+1); n > 0; n-- {
		if _, err := m.view.Fold(w.log[m.folded]); err != nil {
			return err
		}
		m.folded++
	}
	return nil
}

func (w *world) take(ctx context.Context) error {
	m := w.member()
	p := int32(w.choose("partition", worldPartitions))
	txn, err := ledger.TakePartition(p, ledger.Owner{Member: m.id}, m.session.Lease())
	if err != nil {
		return err
	}
	_, err = w.commit(ctx, txn)
	return err
}

// expire takes a member's lease away; it does not notice before its next decision fails.
func (w *world) expire(ctx context.Context) error {
	m := w.member()
	if w.choose("expire", 4) != 0 {
		return nil
	}
	w.store.Expire(m.session.Lease())
	var err error
	if m.session, err = w.store.OpenSession(ctx, sessionTTL); err != nil {
		return err
	}
	return w.sync(ctx)
}
