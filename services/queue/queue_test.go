package queue_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/events/eventlog"
	"github.com/berth-scheduler/berth/pkg/events/memlog"
	"github.com/berth-scheduler/berth/pkg/events/work"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/identity"
	"github.com/berth-scheduler/berth/pkg/ledger/mem"
	"github.com/berth-scheduler/berth/pkg/ledger/roster"
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/pkg/state/feed"
	"github.com/berth-scheduler/berth/services/queue"
	"github.com/berth-scheduler/berth/services/queue/internal/apitest"
)

// patience bounds every wait of these tests; nothing they wait for takes long.
const patience = 20 * time.Second

func TestMain(m *testing.M) {
	klog.SetSlogLogger(slog.New(slog.DiscardHandler))
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("k8s.io/klog/v2.(*flushDaemon).run.func1"))
}

func profiles() []placement.ProfileConfig {
	return []placement.ProfileConfig{placement.DefaultProfile(corev1.DefaultSchedulerName)}
}

// world is the environment of a queue, without the queue.
type world struct {
	t      *testing.T
	api    *apitest.Server
	log    *memlog.Log
	ledger *mem.Store
	offers chan work.OfferBatch
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{
		t: t, api: apitest.New("cluster-1"), log: memlog.New(memlog.Options{}), ledger: mem.New(),
		offers: make(chan work.OfferBatch, 100),
	}
	stop, err := w.log.Subscribe(work.SubjectOffers+"s1", func(data []byte) {
		batch, err := work.DecodeOffers(data)
		if err != nil {
			t.Errorf("offers: %v", err)
		}
		w.offers <- batch
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stop()
		w.api.Close()
		w.log.Close()
	})
	return w
}

func (w *world) deps() queue.Deps {
	return queue.Deps{
		Log: w.log, Snapshots: w.log, Facts: feed.New(w.log, w.log), Bus: w.log, Ledger: w.ledger, Elections: w.ledger,
		RestConfig: w.api.Config(), Logger: slog.New(slog.NewTextHandler(w.t.Output(), nil)),
	}
}

// start runs a replica until stop is called or the test ends; stop returns Run's error.
func (w *world) start(id string) (q *queue.Queue, stop func() error) {
	w.t.Helper()
	return w.startWith(queue.Config{ID: id, Profiles: profiles()})
}

func (w *world) startWith(cfg queue.Config) (q *queue.Queue, stop func() error) {
	w.t.Helper()
	return w.startFor(cfg, w.deps())
}

func (w *world) startFor(cfg queue.Config, deps queue.Deps) (q *queue.Queue, stop func() error) {
	w.t.Helper()
	q, err := queue.New(cfg, deps)
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- q.Run(ctx) }()
	stopped := false
	stop = func() error {
		cancel()
		if stopped {
			return nil
		}
		stopped = true
		return <-ended
	}
	w.t.Cleanup(func() {
		if err := stop(); err != nil {
			w.t.Errorf("Run: %v", err)
		}
	})
	return q, stop
}

// takePartitions gives every partition to shard s1.
func (w *world) takePartitions() {
	w.t.Helper()
	ctx := w.t.Context()
	session, err := w.ledger.OpenSession(ctx, 10*time.Second)
	if err != nil {
		w.t.Fatal(err)
	}
	for p := range int32(ledger.Partitions) {
		txn, err := roster.TakePartition(p, roster.Owner{Member: "s1"}, session.Lease())
		if err != nil {
			w.t.Fatal(err)
		}
		if r, err := w.ledger.Commit(ctx, txn); err != nil || !r.Succeeded {
			w.t.Fatalf("take partition %d: %+v, %v", p, r, err)
		}
	}
}

// ask sends a request for work.
func (w *world) ask(window int32) {
	w.t.Helper()
	request := work.EncodeRequest(work.Request{Shard: "s1", Window: window})
	if err := w.log.Publish(work.SubjectWork, request); err != nil {
		w.t.Fatal(err)
	}
}

// receive waits for n offers, repeating the request as a shard does.
func (w *world) receive(n int) []work.Offer {
	w.t.Helper()
	var got []work.Offer
	deadline := time.After(patience)
	beat := time.NewTicker(100 * time.Millisecond)
	defer beat.Stop()
	w.ask(int32(n))
	for len(got) < n {
		select {
		case b := <-w.offers:
			got = append(got, b.Offers...)
		case <-beat.C:
			w.ask(int32(n))
		case <-deadline:
			w.t.Fatalf("%d offers after %s, want %d", len(got), patience, n)
		}
	}
	return got
}

func (w *world) eventually(what string, is func() bool) {
	w.t.Helper()
	err := wait.PollUntilContextTimeout(w.t.Context(), 5*time.Millisecond, patience, true,
		func(context.Context) (bool, error) { return is(), nil })
	if err != nil {
		w.t.Fatalf("waited %s for: %s", patience, what)
	}
}

func (w *world) pool(q *queue.Queue, uid string) string {
	w.t.Helper()
	pool, _, err := q.Where(w.t.Context(), uid)
	if err != nil {
		w.t.Fatal(err)
	}
	return pool
}

// replay builds the state from the log, starting with its first record.
func (w *world) replay() (*state.Store, []events.SequencedFact) {
	w.t.Helper()
	ctx := context.Background()
	last, err := w.log.Last(ctx, eventlog.Facts)
	if err != nil {
		w.t.Fatal(err)
	}
	store := state.New()
	var all []events.SequencedFact
	if last == 0 {
		return store, nil
	}
	reader, err := w.log.Read(ctx, eventlog.Facts, 1)
	if err != nil {
		w.t.Fatal(err)
	}
	defer reader.Close()
	for store.Position().Sequence < last {
		records, err := reader.Next(ctx)
		if err != nil {
			w.t.Fatal(err)
		}
		for _, r := range records {
			f, err := events.DecodeFact(r)
			if err != nil {
				w.t.Fatal(err)
			}
			all = append(all, f)
			if f.StartsFromScratch() {
				store = state.New()
				store.StartBehind(f.Sequence - 1)
			}
			if _, err := store.Apply([]events.SequencedFact{f}); err != nil {
				w.t.Fatal(err)
			}
		}
	}
	return store, all
}

func pod(name string, priority int32) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name)},
		Spec:       corev1.PodSpec{SchedulerName: corev1.DefaultSchedulerName, Priority: &priority},
	}
}

func node(name string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}}
}

func podNames(offers []work.Offer) []string {
	var out []string
	for _, o := range offers {
		out = append(out, o.Pod.Name)
	}
	return out
}

func TestPodsAreOfferedInOrder(t *testing.T) {
	w := newWorld(t)
	w.api.Set(node("n1"))
	w.takePartitions()
	for i, priority := range []int32{0, 7, 0, 7} {
		w.api.Set(pod(fmt.Sprintf("p%d", i), priority))
	}
	q, _ := w.start("queue-a")
	offers := w.receive(4)
	if got, want := podNames(offers), []string{"p1", "p3", "p0", "p2"}; !slices.Equal(got, want) {
		t.Fatalf("offers %v, want %v", got, want)
	}
	// A pod from the watch is offered without another request, while there is room.
	w.ask(5)
	w.api.Set(pod("late", 0))
	select {
	case b := <-w.offers:
		if got := podNames(b.Offers); !slices.Equal(got, []string{"late"}) {
			t.Fatalf("offers %v", got)
		}
	case <-time.After(patience):
		t.Fatal("the late pod was not offered")
	}
	// Bound pods are no longer the queue's.
	bound := pod("p1", 7)
	bound.Spec.NodeName = "n1"
	w.api.Set(bound)
	w.eventually("p1 has left the queue", func() bool { return w.pool(q, "p1") == "" })
	w.api.Delete(pod("p0", 0))
	w.eventually("p0 has left the queue", func() bool { return w.pool(q, "p0") == "" })
	unplaceable := events.Decision{
		Kind: events.DecisionUnplaceable, Pod: offers[3].Pod, Token: offers[3].Token,
		FactSequence: 1 << 40, LedgerRevision: 1 << 40, Plugins: []string{"NodeName"},
	}
	if _, err := w.log.Append(t.Context(), eventlog.Decisions, eventlog.AnySequence,
		[]eventlog.Message{events.EncodeDecision(unplaceable)}); err != nil {
		t.Fatal(err)
	}
	w.eventually("p2 is parked", func() bool { return w.pool(q, "p2") == "parked" })
}

func TestTheLogRepresentsTheCluster(t *testing.T) {
	w := newWorld(t)
	w.api.Set(node("n1"))
	w.api.Set(pod("a", 0))
	_, stop := w.start("queue-a")
	w.eventually("the first epoch has ended", func() bool { return w.progress() > 0 })
	last := w.api.Set(pod("b", 0))
	w.eventually("b is a fact", func() bool { return w.progress() >= last })
	deleted := w.api.Delete(pod("a", 0))
	w.eventually("a is gone", func() bool { return w.progress() >= deleted })
	mark := w.api.Bookmark()
	w.eventually("the bookmark is a fact", func() bool { return w.progress() >= mark })
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	sequence, data, ok, err := w.log.Latest(t.Context(), eventlog.Facts)
	if err != nil || !ok {
		t.Fatalf("no last snapshot: %v", err)
	}
	store, facts := w.replay()
	if sequence != store.Position().Sequence {
		t.Fatalf("the last snapshot stands for %d, the log ends at %d", sequence, store.Position().Sequence)
	}
	if replayed, _, err := store.Marshal(); err != nil || !slices.Equal(replayed, data) {
		t.Fatalf("I4: the last snapshot is not what the log says (%v)", err)
	}
	// While no queue watches, b changes, c is created and n1 is deleted. The next leader publishes only that.
	changed := pod("b", 0)
	changed.Labels = map[string]string{"k": "v"}
	w.api.Set(changed)
	w.api.Set(pod("c", 0))
	w.api.Delete(node("n1"))
	before, first := len(facts), w.epoch()
	w.start("queue-b")
	w.eventually("the second epoch has ended", func() bool { return w.epoch() > first && w.progress() > 0 })
	_, facts = w.replay()
	var logged []string
	for _, f := range facts[before:] {
		if f.Op == events.OpUpsert || f.Op == events.OpDelete {
			logged = append(logged, f.Op.String()+" "+f.Name)
		}
		if f.Epoch != w.epoch() {
			t.Fatalf("fact %d is of epoch %d", f.Sequence, f.Epoch)
		}
	}
	slices.Sort(logged)
	if want := []string{"delete n1", "upsert b", "upsert c"}; !slices.Equal(logged, want) {
		t.Fatalf("the new leader said %v, want %v", logged, want)
	}
}

func (w *world) progress() uint64 {
	store, _ := w.replay()
	p, _ := store.Position().Progress(events.KindPod)
	return p
}

func (w *world) epoch() uint64 {
	store, _ := w.replay()
	return store.Position().Epoch
}

func TestAStandbyTakesOver(t *testing.T) {
	w := newWorld(t)
	w.takePartitions()
	w.api.Set(pod("a", 0))
	_, stopFirst := w.start("queue-a")
	first := w.receive(1)[0]
	w.start("queue-b")
	if err := stopFirst(); err != nil {
		t.Fatal(err)
	}
	var batch work.OfferBatch
	w.eventually("queue-b offers a again", func() bool {
		w.ask(1)
		select {
		case batch = <-w.offers:
			return batch.Queue == "queue-b"
		default:
			return false
		}
	})
	if len(batch.Offers) != 1 || batch.Offers[0].Pod.Name != "a" || batch.Offers[0].Token == first.Token {
		t.Fatalf("offers %+v after %+v", batch, first)
	}
}

func TestALostTailIsRepaired(t *testing.T) {
	w := newWorld(t)
	w.start("queue-a")
	w.eventually("the first epoch has ended", func() bool { return w.progress() > 0 })
	kept, err := w.log.Last(t.Context(), eventlog.Facts)
	if err != nil {
		t.Fatal(err)
	}
	lost := w.api.Set(pod("lost", 0))
	w.eventually("the pod is a fact", func() bool { return w.progress() >= lost })
	w.log.LoseTail(eventlog.Facts, kept)
	// The writer's next fact reveals the loss.
	last := w.api.Set(pod("next", 0))
	w.eventually("the repair has ended", func() bool { return w.epoch() >= 2 && w.progress() >= last })
	store, _ := w.replay()
	for _, name := range []string{"lost", "next"} {
		if _, ok := store.Snapshot().Pod(name); !ok {
			t.Errorf("pod %s is not in the repaired log", name)
		}
	}
}

func TestAForeignLedgerIsRefused(t *testing.T) {
	w := newWorld(t)
	if _, err := identity.BindCluster(t.Context(), w.ledger, "cluster-2"); err != nil {
		t.Fatal(err)
	}
	q, err := queue.New(queue.Config{ID: "queue-a", Profiles: profiles()}, w.deps())
	if err != nil {
		t.Fatal(err)
	}
	var mismatch *identity.ClusterMismatchError
	if err := q.Run(t.Context()); !errors.As(err, &mismatch) {
		t.Fatalf("Run: %v", err)
	}
	if last, _ := w.log.Last(t.Context(), eventlog.Facts); last != 0 {
		t.Fatalf("the log has %d facts of the wrong cluster", last)
	}
}

func TestAnAPIServerThatDoesNotAnswerIsReported(t *testing.T) {
	w := newWorld(t)
	deps := w.deps()
	deps.RestConfig = &rest.Config{Host: "http://127.0.0.1:1"}
	q, err := queue.New(queue.Config{
		ID: "queue-a", Profiles: profiles(), StartTimeout: 50 * time.Millisecond,
	}, deps)
	if err != nil {
		t.Fatal(err)
	}
	if err := q.Run(t.Context()); err == nil {
		t.Fatal("Run returned no error")
	} else {
		t.Log(err)
	}
}

func TestAnOutageIsRiddenOut(t *testing.T) {
	w := newWorld(t)
	w.start("queue-a")
	w.eventually("the first epoch has ended", func() bool { return w.progress() > 0 })
	first := w.epoch()
	w.api.Down(true)
	last := w.api.Set(pod("a", 0))
	w.api.Compact()
	w.api.Down(false)
	w.eventually("the pod is a fact", func() bool { return w.progress() >= last })
	if w.epoch() != first {
		t.Fatalf("epoch %d: an outage of the API is no reason to repair the log", w.epoch())
	}
}

func TestConfigIsChecked(t *testing.T) {
	good := queue.Config{ID: "q", Profiles: profiles()}
	for _, test := range []struct {
		name   string
		change func(*queue.Config)
	}{
		{"no id", func(c *queue.Config) { c.ID = "" }},
		{"no profiles", func(c *queue.Config) { c.Profiles = nil }},
		{"an empty name", func(c *queue.Config) { c.Profiles = []placement.ProfileConfig{{}} }},
		{"a name twice", func(c *queue.Config) { c.Profiles = append(profiles(), profiles()...) }},
		{"impatience", func(c *queue.Config) { c.DeliveryLimit = 1 }},
		{"negative backoff", func(c *queue.Config) { c.PodInitialBackoff = -1 }},
		{"initial above maximum", func(c *queue.Config) { c.PodInitialBackoff = time.Minute }},
		{"short session", func(c *queue.Config) { c.SessionTTL = time.Second }},
		{"broken seconds", func(c *queue.Config) { c.SessionTTL = 2500 * time.Millisecond }},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := good
			test.change(&c)
			if err := c.Validate(); err == nil {
				t.Fatal("accepted")
			}
		})
	}
	if err := good.Validate(); err != nil {
		t.Fatal(err)
	}
	if _, err := queue.New(good, queue.Deps{}); err == nil {
		t.Fatal("New accepted empty Deps")
	}
}

// reject appends the rejection of an offer's pod to the log, as a shard does that is ahead of all others.
func (w *world) reject(o work.Offer, plugin string) {
	w.t.Helper()
	last, err := w.log.Last(w.t.Context(), eventlog.Facts)
	if err != nil {
		w.t.Fatal(err)
	}
	w.appendDecision(events.Decision{
		Kind: events.DecisionUnplaceable, Pod: o.Pod, Token: o.Token, Attempt: o.Attempt,
		FactSequence: last, LedgerRevision: 1 << 20, Plugins: []string{plugin}, Message: "0/1 nodes are available",
	})
}

func (w *world) appendDecision(d events.Decision) {
	w.t.Helper()
	_, err := w.log.Append(w.t.Context(), eventlog.Decisions, eventlog.AnySequence,
		[]eventlog.Message{events.EncodeDecision(d)})
	if err != nil {
		w.t.Fatal(err)
	}
}

// TestARestartForgetsNothing covers attempts, what parked pods wait for, and that nothing has happened since; then an
// event wakes the pods that it helps.
func TestARestartForgetsNothing(t *testing.T) {
	w := newWorld(t)
	w.takePartitions()
	w.api.Set(node("n1"))
	w.api.Set(pod("parked", 0))
	w.api.Set(pod("failed", 0))
	q, stop := w.start("queue-a")
	for _, o := range w.receive(2) {
		if o.Pod.Name == "parked" {
			w.reject(o, "NodeUnschedulable")
		} else {
			w.appendDecision(events.Decision{Kind: events.DecisionFailed, Pod: o.Pod, Token: o.Token, Attempt: o.Attempt})
		}
		w.appendDecision(events.Decision{Kind: events.DecisionCondition, Pod: o.Pod, Token: o.Token, PodResourceVersion: 1})
	}
	w.eventually("both answers are taken in", func() bool {
		return w.pool(q, "parked") == "parked" && w.pool(q, "failed") == "backoff"
	})
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	q, _ = w.start("queue-b")
	o := w.receive(1)[0]
	if o.Pod.Name != "failed" || o.Attempt != 2 {
		t.Fatalf("offer %+v, want the second attempt at failed", o)
	}
	if pool, why, err := q.Where(t.Context(), "parked"); err != nil || pool != "parked" ||
		!strings.Contains(why, "NodeUnschedulable") {
		t.Fatalf("the parked pod is in %q: %s, %v", pool, why, err)
	}
	for pod, want := range map[string]string{
		"default/parked": "default/parked: parked: rejected by NodeUnschedulable: ", "parked": "parked: parked: rejected by",
		"default/none": "default/none: pod not found", "none": "none: in no pool: not queued",
		"": "held back by NodeUnschedulable of profile default-scheduler: 1\n",
	} {
		if text, err := q.Explain(t.Context(), pod); err != nil || !strings.Contains(text, want) {
			t.Errorf("explaining %q: %q, %v, want %q", pod, text, err, want)
		}
	}
	w.api.Delete(pod("failed", 0))
	w.api.Set(node("n2"))
	if o := w.receive(1)[0]; o.Pod.Name != "parked" || o.Attempt != 2 {
		t.Fatalf("offer %+v, want the second attempt at parked", o)
	}
}

// TestAPodWithoutAnAnswer checks that the pod is quarantined, and that the log records it.
func TestAPodWithoutAnAnswer(t *testing.T) {
	w := newWorld(t)
	w.takePartitions()
	w.api.Set(pod("poison", 0))
	cfg := queue.Config{ID: "queue-a", Profiles: profiles(), OfferLease: 20 * time.Millisecond, DeliveryLimit: 3}
	q, _ := w.startWith(cfg)
	w.eventually("the pod is in quarantine", func() bool {
		w.ask(1)
		return w.pool(q, "poison") == "parked"
	})
	w.eventually("the log tells", func() bool {
		last, err := w.log.Last(t.Context(), eventlog.Decisions)
		return err == nil && last == 1
	})
	reader, err := w.log.Read(t.Context(), eventlog.Decisions, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	records, err := reader.Next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	d, err := events.DecodeDecision(records[0])
	if err != nil || d.Kind != events.DecisionQuarantined || d.Actor != "queue-a" || d.Attempt != 3 {
		t.Fatalf("%+v, %v", d, err)
	}
}
