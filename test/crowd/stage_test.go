package crowd

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/events/eventlog"
	"github.com/berth-scheduler/berth/pkg/events/memlog"
	"github.com/berth-scheduler/berth/pkg/events/work"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/replica"
)

const (
	// beat is how often the stage offers and binds; offerAgain is when an offer without an answer is repeated,
	// offersAtOnce how many one shard gets in a beat.
	beat         = 20 * time.Millisecond
	offerAgain   = 2 * time.Second
	offersAtOnce = 96
	// slowestBind is how long a bind takes at most, in beats; the actual duration is random.
	slowestBind = 10
	rackKey     = "example.com/rack"
	namespace   = "d"
	// podCPU and nodeCPU in milli-CPU: some nodes get full.
	podCPU, nodeCPU = 100, 800
)

// stage is everything around the shards: the API server and its log of facts, the queue that
// offers pods, the binders that bind what the ledger promises.
type stage struct {
	t      *testing.T
	log    *memlog.Log
	oracle *oracle
	rng    *rand.Rand
	view   *replica.View

	writer
	pods map[string]*corev1.Pod
	// order is the pods' order of arrival, shuffled.
	order   []string
	offered map[string]time.Time
	tokens  uint64
	// promised pods are bound after so many beats.
	promised map[string]int
	bound    map[string]bool
	all      bool
	began    time.Time
	took     time.Duration
}

// writer writes the log of facts.
type writer struct {
	rv, sequence uint64
	pending      []eventlog.Message
}

func newStage(t *testing.T, log *memlog.Log, o *oracle, rng *rand.Rand) *stage {
	s := &stage{
		t: t, log: log, oracle: o, rng: rng, view: replica.NewView(), pods: map[string]*corev1.Pod{},
		offered: map[string]time.Time{}, promised: map[string]int{}, bound: map[string]bool{},
	}
	o.bound = func(uid string) bool { return s.bound[uid] }
	return s
}

// build writes the facts of a cluster, and of all its pods.
func (s *stage) build(c size) {
	s.fact(events.KindNamespace, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace, UID: "ns"}})
	for i := range c.racks * c.nodesPerRack {
		s.node(fmt.Sprintf("n%04d", i), fmt.Sprintf("rack-%02d", i%c.racks))
	}
	for g := range c.spread {
		s.group(spread, g, c.spreadPods)
	}
	for g := range c.apart {
		s.group(apart, g, c.apartPods)
	}
	for g := range c.pairs {
		s.group(hermit, g, c.hermits)
		s.group(guest, g, c.guest)
	}
	s.group(plain, 0, c.plain)
	s.flush()
	s.order = slices.Sorted(maps.Keys(s.pods))
	s.rng.Shuffle(len(s.order), func(i, j int) { s.order[i], s.order[j] = s.order[j], s.order[i] })
}

func (s *stage) node(name, rack string) {
	uid := "node-" + name
	s.oracle.rack[uid], s.oracle.room[uid] = rack, nodeCPU
	s.fact(events.KindNode, &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, UID: types.UID(uid), Labels: map[string]string{corev1.LabelHostname: name, rackKey: rack},
		},
		Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{
			corev1.ResourceCPU:    *resource.NewMilliQuantity(nodeCPU, resource.DecimalSI),
			corev1.ResourceMemory: resource.MustParse("64Gi"), corev1.ResourcePods: resource.MustParse("110"),
		}},
	})
}

func (s *stage) group(k kind, number, pods int) {
	group := fmt.Sprintf("%s-%d", k, number)
	if k == hermit || k == guest {
		group = fmt.Sprintf("pair-%d", number)
	}
	same := func(kinds ...kind) *metav1.LabelSelector {
		l := &metav1.LabelSelector{MatchLabels: map[string]string{"group": group}}
		for _, k := range kinds {
			l.MatchLabels["kind"] = string(k)
		}
		return l
	}
	for i := range pods {
		name := fmt.Sprintf("%s-%s-%d", group, k, i)
		p := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: namespace, Name: name, UID: types.UID("pod-" + name),
				Labels: map[string]string{"group": group, "kind": string(k)},
			},
			Spec: corev1.PodSpec{SchedulerName: corev1.DefaultSchedulerName, Containers: []corev1.Container{{
				Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
					corev1.ResourceCPU: *resource.NewMilliQuantity(podCPU, resource.DecimalSI),
				}},
			}}},
		}
		switch k {
		case spread:
			p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
				MaxSkew: maxSkew, TopologyKey: rackKey, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: same(),
			}}
		case apart:
			p.Spec.Affinity = apartFrom(same())
		case hermit:
			p.Spec.Affinity = apartFrom(same(guest))
		case guest, plain:
		}
		s.oracle.pods[string(p.UID)] = member{kind: k, group: group, cpu: podCPU}
		s.pods[string(p.UID)] = p
		s.fact(events.KindPod, p)
	}
}

func apartFrom(selector *metav1.LabelSelector) *corev1.Affinity {
	return &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{
			{TopologyKey: rackKey, LabelSelector: selector},
		},
	}}
}

// fact stores an object as the API server does, and keeps its fact for the log.
func (s *stage) fact(k events.Kind, o interface {
	metav1.Object
	Marshal() ([]byte, error)
}) {
	s.t.Helper()
	s.rv++
	o.SetResourceVersion(fmt.Sprint(s.rv))
	raw, err := o.Marshal()
	if err != nil {
		s.t.Fatal(err)
	}
	s.pending = append(s.pending, events.EncodeFact(events.Fact{
		Kind: k, Op: events.OpUpsert, UID: string(o.GetUID()), Namespace: o.GetNamespace(), Name: o.GetName(),
		ResourceVersion: s.rv, Progress: s.rv, Cause: "watch", Object: raw,
	}))
	if len(s.pending) == eventlog.MaxBatch {
		s.flush()
	}
}

// flush writes the facts that wait.
func (s *stage) flush() {
	s.t.Helper()
	if len(s.pending) == 0 {
		return
	}
	last, err := s.log.Append(s.t.Context(), eventlog.Facts, eventlog.Tail{Sequence: s.sequence}, s.pending)
	if err != nil {
		s.t.Fatal(err)
	}
	s.sequence, s.pending = last, nil
}

// run plays until every pod is bound, or ctx ends.
func (s *stage) run(ctx context.Context, batches <-chan replica.Batch) {
	tick := time.NewTicker(beat)
	defer tick.Stop()
	for len(s.bound) < len(s.pods) {
		select {
		case <-ctx.Done():
			return
		case b := <-batches:
			s.ledger(b)
		case <-tick.C:
			s.bind()
			s.offer(time.Now())
		}
	}
	s.took = time.Since(s.began)
}

func (s *stage) ledger(b replica.Batch) {
	s.t.Helper()
	if b.Reset && len(b.KVs) > 0 && s.view.Revision() > 0 {
		s.t.Fatal("the watch of the ledger broke off: revisions were missed")
	}
	if _, err := s.view.Fold(b); err != nil {
		s.t.Fatal(err)
	}
	for uid := range s.oracle.see(b.Events) {
		s.promised[uid] = s.rng.IntN(slowestBind)
	}
}

// bind binds pods that were promised long enough ago.
func (s *stage) bind() {
	for _, uid := range slices.Sorted(maps.Keys(s.promised)) {
		if s.promised[uid]--; s.promised[uid] >= 0 {
			continue
		}
		delete(s.promised, uid)
		doc, _, ok := s.view.Entry(uid)
		if !ok || s.bound[uid] {
			continue
		}
		p := s.pods[uid]
		p.Spec.NodeName = doc.NodeName
		s.bound[uid] = true
		s.fact(events.KindPod, p)
	}
	s.flush()
}

// shared reports whether the shards have shared the partitions among them, so that all begin at
// the same time.
func (s *stage) shared() bool {
	if s.all {
		return true
	}
	held := map[string]int{}
	for _, owner := range s.view.Roster().Owners() {
		held[owner.Member]++
	}
	s.all = len(held) == shards && slices.Min(slices.Collect(maps.Values(held))) > ledger.Partitions/shards/2
	s.began = time.Now()
	return s.all
}

// offer gives each shard pods of its partitions that have no place yet.
func (s *stage) offer(now time.Time) {
	if !s.shared() {
		return
	}
	batches := map[string][]work.Offer{}
	for _, uid := range s.order {
		if _, placed := s.oracle.placed[uid]; placed || now.Sub(s.offered[uid]) < offerAgain {
			continue
		}
		partition := ledger.PartitionOf(uid)
		owner, _, held := s.view.Roster().Owner(partition)
		if !held || len(batches[owner.Member]) == offersAtOnce {
			continue
		}
		s.offered[uid] = now
		s.tokens++
		batches[owner.Member] = append(batches[owner.Member], work.Offer{
			Pod:       events.PodRef{UID: uid, Namespace: namespace, Name: s.pods[uid].Name},
			Partition: partition, Token: ledger.Token(s.tokens).String(), Attempt: 1,
			FactSequence: s.sequence, LeaseMillis: int32(offerAgain.Milliseconds()),
		})
	}
	for shard, offers := range batches {
		data := work.EncodeOffers(work.OfferBatch{Queue: "stage", Term: 1, Offers: offers})
		if err := s.log.Publish(work.SubjectOffers+shard, data); err != nil {
			s.t.Error(err)
		}
	}
}

func (s *stage) report(t *testing.T) {
	t.Helper()
	if len(s.bound) < len(s.pods) {
		t.Errorf("%d of %d pods bound", len(s.bound), len(s.pods))
	}
	t.Logf("%d pods bound in %s", len(s.bound), s.took.Round(time.Millisecond))
}
