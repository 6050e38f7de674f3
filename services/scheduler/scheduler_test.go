package scheduler_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/events/eventlog"
	"github.com/berth-scheduler/berth/pkg/events/memlog"
	"github.com/berth-scheduler/berth/pkg/events/work"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/codec"
	"github.com/berth-scheduler/berth/pkg/ledger/mem"
	"github.com/berth-scheduler/berth/pkg/ledger/roster"
	"github.com/berth-scheduler/berth/pkg/membership"
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/state/feed"
	"github.com/berth-scheduler/berth/services/scheduler"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds every wait; nothing here takes longer than the shards' heartbeat.
const patience = 20 * time.Second

// site is a log, a ledger and shards that run on them; the test plays the queue.
type site struct {
	t     *testing.T
	log   *memlog.Log
	store *mem.Store
	rv    uint64
	seq   uint64
	epoch uint64
	// requests are the shards' heartbeats.
	requests chan work.Request
	mu       struct {
		sync.Mutex
		offered map[string]work.Offer // by token
	}
}

func newSite(t *testing.T) *site {
	s := &site{
		t: t, log: memlog.New(memlog.Options{}), store: mem.New(), requests: make(chan work.Request, 1024),
	}
	s.mu.offered = map[string]work.Offer{}
	t.Cleanup(s.log.Close)
	stop, err := s.log.Subscribe(work.SubjectWork, func(data []byte) {
		r, err := work.DecodeRequest(data)
		if err != nil {
			t.Errorf("work request: %v", err)
			return
		}
		s.requests <- r
		// A shard gives back what it cannot try, above all pods of a partition that is
		// just moving; the queue would offer them again too.
		for _, token := range r.Return {
			s.mu.Lock()
			o, ok := s.mu.offered[token]
			s.mu.Unlock()
			if ok {
				s.send(o)
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	return s
}

// start runs a shard; the function it returns stops it and waits for its end.
func (s *site) start(id string) (stop func() error) {
	s.t.Helper()
	return s.startOn(s.log, id)
}

// startOn is start for a shard that writes its decisions to log.
func (s *site) startOn(log eventlog.Log, id string) (stop func() error) {
	s.t.Helper()
	sched, err := scheduler.New(
		scheduler.Config{ID: id, Profiles: []placement.ProfileConfig{placement.DefaultProfile("default-scheduler")}},
		scheduler.Deps{
			Log: log, Facts: feed.New(s.log, s.log), Bus: s.log, Ledger: s.store,
			Logger: slog.New(slog.DiscardHandler), Clock: clock.RealClock{},
		})
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(s.t.Context())
	var g errgroup.Group
	g.Go(func() error { return sched.Run(ctx) })
	stopped := false
	stop = func() error {
		cancel()
		stopped = true
		return g.Wait()
	}
	s.t.Cleanup(func() {
		if !stopped {
			_ = stop()
		}
	})
	return stop
}

func (s *site) fact(f events.Fact) {
	s.t.Helper()
	s.rv++
	f.ResourceVersion, f.Progress, f.Cause, f.Epoch = s.rv, s.rv, "watch", s.epoch
	s.put(events.EncodeFact(f))
}

// put appends a record to the facts.
func (s *site) put(m eventlog.Message) {
	s.t.Helper()
	message := []eventlog.Message{m}
	last, err := s.log.Append(s.t.Context(), eventlog.Facts, eventlog.Tail{Sequence: s.seq}, message)
	if err != nil {
		s.t.Fatal(err)
	}
	s.seq = last
}

func (s *site) node(name string) {
	s.t.Helper()
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("node-" + name), ResourceVersion: fmt.Sprint(s.rv + 1)},
		Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("8Gi"),
			corev1.ResourcePods: resource.MustParse("110"),
		}},
	}
	raw, err := n.Marshal()
	if err != nil {
		s.t.Fatal(err)
	}
	s.fact(events.Fact{Kind: events.KindNode, Op: events.OpUpsert, UID: string(n.UID), Name: name, Object: raw})
}

func (s *site) pod(name, cpu string) events.PodRef {
	s.t.Helper()
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "d", Name: name, UID: types.UID("pod-" + name), ResourceVersion: fmt.Sprint(s.rv + 1),
		},
		Spec: corev1.PodSpec{SchedulerName: "default-scheduler", Containers: []corev1.Container{{
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
				corev1.ResourceCPU: resource.MustParse(cpu),
			}},
		}}},
	}
	raw, err := p.Marshal()
	if err != nil {
		s.t.Fatal(err)
	}
	ref := events.PodRef{UID: string(p.UID), Namespace: "d", Name: name}
	s.fact(events.Fact{
		Kind: events.KindPod, Op: events.OpUpsert, UID: ref.UID, Namespace: ref.Namespace, Name: name, Object: raw,
	})
	return ref
}

// ready waits until every shard asks for work.
func (s *site) ready(shards ...string) {
	s.t.Helper()
	asking := map[string]bool{}
	for len(asking) < len(shards) {
		if r := s.request(); r.Window > 0 && slices.Contains(shards, r.Shard) {
			asking[r.Shard] = true
		}
	}
}

func (s *site) request() work.Request {
	s.t.Helper()
	select {
	case r := <-s.requests:
		return r
	case <-time.After(patience):
		s.t.Fatalf("no shard asked for work in %s", patience)
		return work.Request{}
	}
}

// offer sends each pod to the shard that should hold its partition.
func (s *site) offer(shards []string, pods ...events.PodRef) {
	s.t.Helper()
	s.settled(shards)
	for _, pod := range pods {
		o := work.Offer{
			Pod: pod, Partition: ledger.PartitionOf(pod.UID),
			Attempt: 1, FactSequence: s.seq, LeaseMillis: 10_000,
		}
		s.mu.Lock()
		o.Token = ledger.Token(len(s.mu.offered) + 1).String()
		s.mu.offered[o.Token] = o
		s.mu.Unlock()
		s.send(o)
	}
}

func (s *site) send(o work.Offer) {
	kvs, _, err := s.store.List(context.Background(), roster.KeyOwn(o.Partition))
	if err != nil || len(kvs) != 1 {
		s.t.Errorf("owner of partition %d: %v, %v", o.Partition, kvs, err)
		return
	}
	owner, err := roster.DecodeOwner(kvs[0].Value)
	if err != nil {
		s.t.Error(err)
		return
	}
	batch := work.OfferBatch{Queue: "queue", Term: 1, Offers: []work.Offer{o}}
	if err := s.log.Publish(work.SubjectOffers+owner.Member, work.EncodeOffers(batch)); err != nil {
		s.t.Error(err)
	}
}

// settled waits until the shards hold all partitions, each the ones that it should.
func (s *site) settled(shards []string) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	want := membership.Assign(shards, ledger.Partitions)
	held := map[string]string{}
	right := func() bool {
		for member, partitions := range want {
			for _, p := range partitions {
				if held[roster.KeyOwn(p)] != member {
					return false
				}
			}
		}
		return true
	}
	watch := s.store.Watch(ctx, roster.PrefixOwn, 1)
	for batch := range watch.Batches() {
		for _, e := range batch.Events {
			owner, err := roster.DecodeOwner(e.Value)
			if e.Deleted || err != nil {
				owner = roster.Owner{}
			}
			held[e.Key] = owner.Member
		}
		if right() {
			return
		}
	}
	s.t.Fatalf("the partitions did not settle on %v in %s", shards, patience)
}

// decisions waits until the log holds n decisions.
func (s *site) decisions(n int) []events.Decision {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	r, err := s.log.Read(ctx, eventlog.Decisions, 1)
	if err != nil {
		s.t.Fatal(err)
	}
	defer r.Close()
	var found []events.Decision
	for len(found) < n {
		records, err := r.Next(ctx)
		if err != nil {
			s.t.Fatalf("%d of %d decisions: %v", len(found), n, err)
		}
		for _, rec := range records {
			d, err := events.DecodeDecision(rec)
			if err != nil {
				s.t.Fatal(err)
			}
			if d.Kind != events.DecisionLost { // a lost race is no answer
				found = append(found, d.Decision)
			}
		}
	}
	return found
}

// Two shards place every pod offered to them, each under the reservation it announces, and
// share the partitions.
func TestTwoShardsPlaceWhatTheyAreOffered(t *testing.T) {
	s := newSite(t)
	for i := range 6 {
		s.node(fmt.Sprintf("n%d", i))
	}
	var pods []events.PodRef
	for i := range 40 {
		pods = append(pods, s.pod(fmt.Sprintf("p%d", i), "500m"))
	}
	shards := []string{"scheduler-0", "scheduler-1"}
	s.start(shards[0])
	s.start(shards[1])
	s.ready(shards...)
	s.offer(shards, pods...)
	actors := map[string]int{}
	for _, d := range s.decisions(len(pods)) {
		if d.Kind != events.DecisionPlaced {
			t.Fatalf("%s: %s %s, want placed", d.Pod.Name, d.Kind, d.Message)
		}
		actors[d.Actor]++
		s.mustReserve(d)
	}
	if len(actors) != 2 {
		t.Errorf("placed by %v: want both shards at work", actors)
	}
}

// mustReserve checks that the ledger has the reservation of a decision.
func (s *site) mustReserve(d events.Decision) {
	s.t.Helper()
	kvs, _, err := s.store.List(s.t.Context(), ledger.KeyNode(d.NodeUID))
	if err != nil || len(kvs) != 1 {
		s.t.Fatalf("document of %s: %d, %v", d.NodeName, len(kvs), err)
	}
	doc, err := codec.DecodeNodeDoc(kvs[0])
	if err != nil {
		s.t.Fatal(err)
	}
	e, ok := doc.Find(d.Pod.UID)
	if !ok || e.Token.String() != d.Token || e.State != ledger.Committed {
		s.t.Fatalf("%s: reservation %+v (found %v), want it committed with token %s", d.Pod.Name, e, ok, d.Token)
	}
}

// A stopping shard gives back what it has not placed, and leaves only its reservations in the ledger.
func TestAStoppedShardLeaves(t *testing.T) {
	s := newSite(t)
	s.node("n0")
	pod := s.pod("p0", "100m")
	stop := s.start("scheduler-0")
	s.ready("scheduler-0")
	s.offer([]string{"scheduler-0"}, pod)
	s.decisions(1)
	if err := stop(); err != nil {
		t.Fatalf("stop: %v", err)
	}
	for _, prefix := range []string{roster.PrefixOwn, roster.PrefixMember} {
		kvs, _, err := s.store.List(t.Context(), prefix)
		if err != nil || len(kvs) != 0 {
			t.Errorf("%d keys under %s after the stop, %v: want none", len(kvs), prefix, err)
		}
	}
	kvs, _, err := s.store.List(t.Context(), ledger.PrefixNode)
	if err != nil || len(kvs) != 1 {
		t.Errorf("%d documents, %v: want the reservation to stay", len(kvs), err)
	}
}

func TestNewRefusesWhatCannotWork(t *testing.T) {
	profile := placement.DefaultProfile("a")
	unknown := placement.ProfileConfig{SchedulerName: "a", Plugins: []placement.PluginConfig{{Name: "x"}}}
	tests := map[string]scheduler.Config{
		"ID":              {Profiles: []placement.ProfileConfig{profile}},
		"Profiles: empty": {ID: "s"},
		`"a" given twice`: {ID: "s", Profiles: []placement.ProfileConfig{profile, profile}},
		"Window: -1":      {ID: "s", Window: -1, Profiles: []placement.ProfileConfig{profile}},
		"Window: 100000":  {ID: "s", Window: 100_000, Profiles: []placement.ProfileConfig{profile}},
		`profile "a"`:     {ID: "s", Profiles: []placement.ProfileConfig{unknown}},
	}
	for want, cfg := range tests {
		if _, err := scheduler.New(cfg, scheduler.Deps{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v: want an error with %q", cfg, err, want)
		}
	}
}
