package places

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/events/work"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/mem"
	"github.com/berth-scheduler/berth/pkg/ledger/replica"
	"github.com/berth-scheduler/berth/pkg/ledger/roster"
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/state/follow"
)

// The delays of the outside world, of the order that etcd and NATS have in one data centre.
const (
	// hop is one message: an offer, an event of a watch, a request to the ledger, its answer.
	hop = 500 * time.Microsecond
	// commitTime is how long the ledger is busy with one transaction; transactions are serial.
	commitTime = 400 * time.Microsecond
	// bindTime is the time from a reservation to the fact that shows the pod bound.
	bindTime = 4 * time.Millisecond
	// stepTime and decisionTime are how long a shard is busy with a step, and with each decision in it.
	stepTime     = 50 * time.Microsecond
	decisionTime = 60 * time.Microsecond
	// beatInterval is the heartbeat of a shard.
	beatInterval = time.Second
	// window is how many offers a shard holds, as in production.
	window = 96
	// runBound is the virtual time after which a run has failed.
	runBound = 10 * time.Minute
)

// Config describes a run.
type Config struct {
	// Shards is how many shards decide, at least 1.
	Shards int
	// Profile is that of all pods.
	Profile placement.ProfileConfig
	// Nodes are the nodes of the cluster, Pods the pods in the order of their creation. Names and UIDs are unique.
	// Standing run on nodes from the beginning.
	Nodes          []*corev1.Node
	Pods, Standing []*corev1.Pod
	// Every is the mean interval between the creations of two pods, which is distributed exponentially; 0 creates each
	// pod when the one before is bound.
	Every time.Duration
	// Seed draws the intervals.
	Seed uint64
}

// Placement is a pod with its node.
type Placement struct {
	Pod  *corev1.Pod
	Node string
	// Home: the shard looked at its home nodes only.
	Home bool
	// revision and order sort placements: by transaction, and within one by decision.
	revision int64
	order    uint64
}

// Result is the outcome of a run.
type Result struct {
	// Placed are the placements in the order in which they were made.
	Placed []Placement
	// Lost counts the races that pods lost, by reason; Returned how often a pod was given back to the queue.
	Lost     map[string]int
	Returned int
	// Took is the virtual time from the first pod to the last bind.
	Took time.Duration
}

// World is the outside of the shards. It is for one goroutine.
type World struct {
	clock
	cfg   Config
	rng   *rand.Rand
	store *mem.Store
	// free is when the ledger has finished the transactions that it has received.
	free   time.Time
	shards []*shard
	// facts are the log of facts, rv the last resourceVersion.
	facts []events.SequencedFact
	rv    uint64
	pods  map[string]*corev1.Pod
	// waiting are the pods that are not offered, by shard, in their order; tokens numbers offers.
	waiting [][]string
	tokens  uint64
	tried   map[string]int32
	// created and bound count pods.
	created, bound int
	result         Result
	fault          error
}

// Run plays a run until all pods are bound.
func Run(ctx context.Context, cfg Config) (Result, error) {
	w := &World{
		clock: clock{now: time.Unix(1_000_000, 0)}, cfg: cfg, rng: rand.New(rand.NewPCG(cfg.Seed, 0)),
		store: mem.New(), pods: map[string]*corev1.Pod{},
		waiting: make([][]string, cfg.Shards), tried: map[string]int32{}, result: Result{Lost: map[string]int{}},
	}
	if err := w.begin(ctx); err != nil {
		return Result{}, err
	}
	start := w.now
	w.create()
	for w.bound < len(cfg.Pods) && w.fault == nil {
		if !w.next(start.Add(runBound)) {
			return Result{}, fmt.Errorf("places: %d of %d pods bound after %v", w.bound, len(cfg.Pods), w.now.Sub(start))
		}
	}
	w.result.Took = w.now.Sub(start)
	slices.SortStableFunc(w.result.Placed, func(a, b Placement) int {
		if a.revision != b.revision {
			return int(a.revision - b.revision)
		}
		return int(a.order) - int(b.order)
	})
	return w.result, w.fault
}

// begin starts the shards, with all nodes known and all partitions owned.
func (w *World) begin(ctx context.Context) error {
	profile, err := placement.NewProfile(w.cfg.Profile)
	if err != nil {
		return err
	}
	for i := range w.cfg.Shards {
		w.shards = append(w.shards, newShard(w, i, profile))
	}
	session, err := w.store.OpenSession(ctx, time.Hour)
	if err != nil {
		return err
	}
	for p := range int32(ledger.Partitions) {
		owner := roster.Owner{Member: w.shards[int(p)%len(w.shards)].id}
		txn, err := roster.TakePartition(p, owner, session.Lease())
		if err != nil {
			return err
		}
		w.commit(ctx, txn)
	}
	for _, n := range w.cfg.Nodes {
		w.rv++
		n := n.DeepCopy()
		n.ResourceVersion = strconv.FormatUint(w.rv, 10)
		w.publish(events.KindNode, n)
	}
	for _, p := range w.cfg.Standing {
		w.publishPod(p.DeepCopy())
	}
	ready := w.now.Add(beatInterval)
	for w.fault == nil && w.next(ready) {
	}
	return w.fault
}

// create creates the next pod, and plans the one after it.
func (w *World) create() {
	if w.created == len(w.cfg.Pods) {
		return
	}
	p := w.cfg.Pods[w.created].DeepCopy()
	w.created++
	w.pods[string(p.UID)] = p
	w.publishPod(p)
	w.queue(string(p.UID))
	if w.cfg.Every > 0 {
		w.after(time.Duration(w.rng.ExpFloat64()*float64(w.cfg.Every)), w.create)
	}
}

// queue lets a pod wait for the shard of its partition.
func (w *World) queue(uid string) {
	i := int(ledger.PartitionOf(uid)) % len(w.shards)
	w.waiting[i] = append(w.waiting[i], uid)
	w.offer(w.shards[i])
}

// offer offers as many waiting pods to a shard as its window takes.
func (w *World) offer(s *shard) {
	var batch []work.Offer
	for len(w.waiting[s.index]) > 0 && len(s.offered) < window {
		uid := w.waiting[s.index][0]
		w.waiting[s.index] = w.waiting[s.index][1:]
		w.tokens++
		w.tried[uid]++
		token := ledger.Token(w.tokens).String()
		s.offered[token] = uid
		p := w.pods[uid]
		batch = append(batch, work.Offer{
			Pod:       events.PodRef{UID: uid, Namespace: p.Namespace, Name: p.Name},
			Partition: ledger.PartitionOf(uid), Token: token, Attempt: w.tried[uid], FactSequence: uint64(len(w.facts)),
		})
	}
	if len(batch) > 0 {
		w.after(hop, func() {
			s.inbox.Offers = append(s.inbox.Offers, work.OfferBatch{Term: 1, Offers: batch})
			s.wake()
		})
	}
}

// bind binds a pod as a binder does, some time after its reservation.
func (w *World) bind(uid, node string) {
	w.after(bindTime, func() {
		p := w.pods[uid]
		if p.Spec.NodeName != "" {
			w.fault = fmt.Errorf("places: %s is bound to %s, and again to %s", p.Name, p.Spec.NodeName, node)
			return
		}
		p.Spec.NodeName = node
		w.publishPod(p)
		w.bound++
		if w.cfg.Every == 0 {
			w.after(hop, w.create)
		}
	})
}

// commit runs a transaction, and delivers its events to all shards.
func (w *World) commit(ctx context.Context, txn ledger.Txn) ledger.TxnResult {
	res, err := w.store.Commit(ctx, txn)
	if err != nil {
		w.fault = err
		return res
	}
	if !res.Succeeded {
		return res
	}
	batch := ledger.EventBatch{Revision: res.Revision}
	for _, kv := range txn.Committed(res) {
		batch.Events = append(batch.Events, ledger.Event{KV: kv})
	}
	for _, key := range txn.Deletes {
		gone := ledger.KV{Key: key, ModRevision: res.Revision}
		batch.Events = append(batch.Events, ledger.Event{KV: gone, Deleted: true})
	}
	w.after(hop, func() {
		for _, s := range w.shards {
			s.inbox.Ledger = append(s.inbox.Ledger, replica.Batch{Events: batch})
			s.wake()
		}
	})
	return res
}

// publishPod publishes a new version of a pod.
func (w *World) publishPod(p *corev1.Pod) {
	w.rv++
	p.ResourceVersion = strconv.FormatUint(w.rv, 10)
	w.publish(events.KindPod, p)
}

// object is a node or a pod.
type object interface {
	GetUID() types.UID
	GetName() string
	GetNamespace() string
	Marshal() ([]byte, error)
}

// publish appends a fact to the log, and delivers it to all shards.
func (w *World) publish(kind events.Kind, o object) {
	raw, err := o.Marshal()
	if err != nil {
		w.fault = err
		return
	}
	f := events.SequencedFact{Sequence: uint64(len(w.facts) + 1), Fact: events.Fact{
		Kind: kind, Op: events.OpUpsert, UID: string(o.GetUID()), Namespace: o.GetNamespace(), Name: o.GetName(),
		Object: raw, ResourceVersion: w.rv, Progress: w.rv,
	}}
	w.facts = append(w.facts, f)
	w.after(hop, func() {
		for _, s := range w.shards {
			s.receive(follow.Batch{Facts: []events.SequencedFact{f}})
		}
	})
}
