package queue_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/utils/clock"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/events/eventlog"
	"github.com/berth-scheduler/berth/pkg/events/memlog"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/history"
	"github.com/berth-scheduler/berth/pkg/ledger/mem"
	"github.com/berth-scheduler/berth/pkg/ledger/replica"
	"github.com/berth-scheduler/berth/pkg/ledger/txns"
	"github.com/berth-scheduler/berth/pkg/state/statetest"
	"github.com/berth-scheduler/berth/services/queue"
)

// fastClock is a clock that shortens long waits: nothing is in flight in these tests that a generation has to wait for.
type fastClock struct{ clock.RealClock }

func (fastClock) NewTimer(d time.Duration) clock.Timer {
	if d > 20*time.Second && d < time.Minute {
		d = 50 * time.Millisecond
	}
	return clock.RealClock{}.NewTimer(d)
}

func (w *world) startFast(id string) (q *queue.Queue, stop func() error) {
	w.t.Helper()
	deps := w.deps()
	deps.Clock = fastClock{}
	return w.startFor(queue.Config{ID: id, Profiles: profiles()}, deps)
}

func (w *world) view() *replica.View {
	w.t.Helper()
	kvs, revision, err := w.ledger.List(context.Background(), "")
	if err != nil {
		w.t.Fatal(err)
	}
	id, err := w.ledger.ID(context.Background())
	if err != nil {
		w.t.Fatal(err)
	}
	v := replica.NewView()
	batch := replica.Batch{Reset: true, KVs: kvs, Store: id, Events: ledger.EventBatch{Revision: revision}}
	if _, err := v.Fold(batch); err != nil {
		w.t.Fatal(err)
	}
	return v
}

// promise puts a reservation into the ledger, in a document with a high-water.
func (w *world) promise(hw uint64) { w.reserve(hw, 1) }

// reserve writes a document with a pod high-water, in which a pod at a resourceVersion has a reservation.
func (w *world) reserve(hw, podRV uint64) {
	w.t.Helper()
	doc := ledger.NodeDoc{NodeUID: "n-uid", NodeName: "n", HW: map[string]uint64{ledger.KindPod: hw}}
	doc, err := txns.Place(doc, ledger.Entry{
		PodUID: "p", Role: ledger.RoleReservation, State: ledger.Committed, PodRV: podRV, Token: 1,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	txn, err := txns.Replace(doc)
	if err != nil {
		w.t.Fatal(err)
	}
	if r, err := w.ledger.Commit(w.t.Context(), txn); err != nil || !r.Succeeded {
		w.t.Fatalf("%+v, %v", r, err)
	}
}

// generation waits until the generation with a number is open.
func (w *world) generation(number uint64) *replica.View {
	w.t.Helper()
	w.eventually("the generation is open", func() bool {
		g := w.view().Generation()
		return g.Number == number && g.Open
	})
	return w.view()
}

// A new installation, and one of an earlier version, get a first generation at once, with everything that is in the
// ledger.
func TestFirstGeneration(t *testing.T) {
	w := newWorld(t)
	w.promise(7)
	w.api.Set(pod("a", 0))
	w.start("queue-a")
	v := w.generation(1)
	if _, _, ok := v.Entry("p"); !ok || !v.IsOpen() {
		t.Errorf("open %t, reservation there %t: want both", v.IsOpen(), ok)
	}
}

// etcd is lost while nothing runs. The next leader begins a generation, in which nothing is decided before there are
// facts from after that.
func TestLostLedgerBeginsTheNextGeneration(t *testing.T) {
	w := newWorld(t)
	w.api.Set(pod("a", 0))
	_, stop := w.start("queue-a")
	w.generation(1)
	w.eventually("facts are told", func() bool {
		last, err := w.log.Last(t.Context(), eventlog.Facts)
		return err == nil && last > 0
	})
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	w.ledger = w.ledger.Restore(mem.Backup{}, false)
	at := w.api.Set(pod("b", 0))
	w.startFast("queue-b")
	v := w.generation(1)
	if hw := v.Floor().HW; hw[ledger.KindPod] < at || hw[ledger.KindNode] < at {
		t.Errorf("the floor is %v, want %d at least", hw, at)
	}
}

// etcd is restored from a backup with a reservation that has since ended.
func TestRestoredLedgerBeginsTheNextGeneration(t *testing.T) {
	for name, another := range map[string]bool{"as itself": false, "as another cluster": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.promise(7)
			w.api.Set(pod("a", 0))
			_, stop := w.start("queue-a")
			w.generation(1)
			backup := w.ledger.Backup()
			w.eventually("the ledger's history is recorded beyond the backup", func() bool {
				w.take(t)
				last, err := w.log.Last(t.Context(), eventlog.Ledger)
				return err == nil && last > 1
			})
			if err := stop(); err != nil {
				t.Fatal(err)
			}
			w.ledger = w.ledger.Restore(backup, another)
			w.startFast("queue-b")
			v := w.generation(2)
			if _, _, ok := v.Entry("p"); ok {
				t.Error("the reservation of the backup stands")
			}
		})
	}
}

// take changes the ledger, so that there is something to record.
func (w *world) take(t *testing.T) {
	t.Helper()
	if _, err := w.ledger.Commit(t.Context(), ledger.Txn{Puts: []ledger.Put{{Key: "k"}}}); err != nil {
		t.Fatal(err)
	}
}

// A replica that runs while the store is replaced ends: its knowledge of the ledger is void.
func TestReplicaEndsWhenItsLedgerWasReplaced(t *testing.T) {
	w := newWorld(t)
	q, err := queue.New(queue.Config{ID: "queue-a", Profiles: profiles()}, w.deps())
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- q.Run(t.Context()) }()
	w.generation(1)
	w.ledger.Restore(mem.Backup{}, false)
	var replaced *ledger.StoreReplacedError
	select {
	case err := <-ended:
		if !errors.As(err, &replaced) {
			t.Fatalf("Run: %v, want *ledger.StoreReplacedError", err)
		}
	case <-time.After(patience):
		t.Fatalf("the replica runs on after %s", patience)
	}
}

// leading returns a world with a queue that leads. The facts and a reservation have reached the returned
// resourceVersion.
func leading(t *testing.T) (w *world, late uint64) {
	w = newWorld(t)
	w.api.Set(pod("a", 0))
	for range 50 {
		w.api.Bookmark()
	}
	late = w.api.Set(pod("b", 0))
	w.startFast("queue-a")
	w.generation(1)
	w.eventually("the facts are told", func() bool { return w.progress() >= late })
	bookmark := w.api.Bookmark() // a reflector does not resume a short watch that has received nothing
	w.eventually("the bookmark is published", func() bool { return w.progress() >= bookmark })
	w.promise(late)
	return w, late
}

// Kubernetes is restored from a backup: its resourceVersions go back, and no earlier high-water may keep a node from
// being used.
func TestKubernetesThatWentBack(t *testing.T) {
	w, late := leading(t)
	before := w.epoch()
	w.api.GoBack(late - 40)
	v := w.generation(2)
	if v.Permits(before) {
		t.Errorf("the next generation permits what is decided on facts of epoch %d, which are of before", before)
	}
	if _, _, ok := v.Entry("p"); ok {
		t.Error("a reservation of before stands")
	}
	if hw := v.Floor().HW[ledger.KindPod]; hw != late-40 {
		t.Errorf("the floor is %d, want %d, where Kubernetes is now", hw, late-40)
	}
	again := w.api.Set(pod("c", 0))
	w.eventually("facts are told again", func() bool { return w.progress() >= again && w.progress() < late })
	if v := w.generation(2); v.HighWater(ledger.KindPod) >= late || !v.Permits(w.epoch()) {
		t.Errorf("high-water %d, the one of before was %d; permits facts of epoch %d: %t",
			v.HighWater(ledger.KindPod), late, w.epoch(), v.Permits(w.epoch()))
	}
}

// The same, but the leader that has begun the next generation dies before it has published any facts. When another
// replica leads, Kubernetes has passed its earlier version: only the generation shows that the facts are void.
func TestKubernetesThatWentBackUnderALeaderThatDied(t *testing.T) {
	w := newWorld(t)
	w.api.Set(pod("a", 0))
	_, stop := w.startFast("queue-a")
	v := w.generation(1)
	w.eventually("the facts are told", func() bool { return w.progress() > 0 })
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	before := w.epoch()
	next, txn, err := v.Generation().Next(v.Generation().Store, "Kubernetes went back", w.view().Floor(), before+1)
	if err != nil {
		t.Fatal(err)
	}
	if r, err := w.ledger.Commit(t.Context(), txn); err != nil || !r.Succeeded {
		t.Fatalf("%+v, %v", r, err)
	}
	w.api.Bookmark()
	w.startFast("queue-b")
	v = w.generation(next.Number + 1)
	w.eventually("the facts are told", func() bool { return v.Permits(w.epoch()) })
	_, facts := w.replay()
	restarts := func(f events.SequencedFact) bool { return f.Epoch > before && f.StartsFromScratch() }
	if !slices.ContainsFunc(facts, restarts) {
		t.Error("facts of before were told on")
	}
}

// The same, but when Kubernetes is next read, it has passed its earlier version.
func TestKubernetesThatWentBackAndOn(t *testing.T) {
	w, late := leading(t)
	w.api.Restore(late-40, late+100)
	v := w.generation(2)
	if _, _, ok := v.Entry("p"); ok {
		t.Error("a reservation of before stands")
	}
	again := w.api.Set(pod("c", 0))
	w.eventually("facts are told again", func() bool { return w.progress() >= again })
	w.generation(2) // and it stays at that generation
}

// The same, but the log has lost its facts as well: what the ledger rests on, or what was reserved, shows the
// restore.
func TestKubernetesThatWentBackWithoutFacts(t *testing.T) {
	for name, prepare := range map[string]func(w *world, late uint64){
		"high-water":  func(w *world, late uint64) { w.promise(late) },
		"reservation": func(w *world, late uint64) { w.reserve(1, late) },
	} {
		t.Run(name, func(t *testing.T) { wentBackWithoutFacts(t, prepare) })
	}
}

func wentBackWithoutFacts(t *testing.T, prepare func(w *world, late uint64)) {
	w := newWorld(t)
	w.api.Set(pod("a", 0))
	for range 50 {
		w.api.Bookmark()
	}
	late := w.api.Set(pod("b", 0))
	_, stop := w.startFast("queue-a")
	w.generation(1)
	prepare(w, late)
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	w.log.Close()
	w.log = memlog.New(memlog.Options{})
	w.api.GoBack(late - 40)
	w.startFast("queue-b")
	if v := w.generation(2); v.HighWater(ledger.KindPod) >= late {
		t.Errorf("a high-water of before is left: %d", v.HighWater(ledger.KindPod))
	}
}

// Kubernetes is restored while no queue leads, and the next leader cannot use all facts of the log.
func TestKubernetesThatWentBackWithoutASnapshotOfTheFacts(t *testing.T) {
	for name, last := range map[string]func(epoch uint64) eventlog.Message{
		"a fact cannot be read": func(uint64) eventlog.Message { return statetest.PoisonFacts(1)[0].Message },
		"an epoch has not ended": func(epoch uint64) eventlog.Message {
			return events.EncodeFact(events.Fact{Op: events.OpEpochBegin, Epoch: epoch + 1, Progress: epoch})
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, late, stop := startLate(t)
			if err := stop(); err != nil {
				t.Fatal(err)
			}
			w.put(eventlog.Facts, last(w.epoch()))
			w.api.GoBack(late - 40)
			w.startFast("queue-b")
			w.generation(2)
		})
	}
}

// Kubernetes is restored after the leader has compared resourceVersions, and before it lists any objects.
func TestKubernetesThatGoesBackAsARoundBegins(t *testing.T) {
	w, late, stop := startLate(t)
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	deps := w.deps()
	deps.Clock = fastClock{}
	var once sync.Once
	deps.RestConfig.Wrap(func(to http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			answer, err := to.RoundTrip(r)
			if strings.HasSuffix(r.URL.Path, "/resourceclaims") && r.URL.Query().Get("limit") == "1" { // the last one
				once.Do(func() { w.api.GoBack(late - 40) })
			}
			return answer, err
		})
	})
	w.startFor(queue.Config{ID: "queue-b", Profiles: profiles()}, deps)
	w.generation(2)
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// startLate starts a queue that leads, and waits until its log of facts has reached resourceVersion late. No object has
// that resourceVersion, and the ledger has no high-water.
func startLate(t *testing.T) (w *world, late uint64, stop func() error) {
	w = newWorld(t)
	w.api.Set(pod("a", 0))
	for range 50 {
		late = w.api.Bookmark()
	}
	_, stop = w.startFast("queue-a")
	w.generation(1)
	w.eventually("the log of facts reaches the resourceVersion", func() bool { return w.progress() >= late })
	return w, late, stop
}

// etcd is restored from a backup while nothing runs, and another tenant then advances it beyond its earlier revision.
func TestRestoredLedgerThatAdvancedBeginsTheNextGeneration(t *testing.T) {
	w := newWorld(t)
	w.api.Set(pod("a", 0))
	_, stop := w.start("queue-a")
	w.generation(1)
	w.take(t)
	backup := w.ledger.Backup()
	w.take(t)
	w.eventually("the ledger's history is recorded", func() bool {
		ending, err := history.Recorded(t.Context(), w.log)
		return err == nil && ending.Last.Key == "k"
	})
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	w.ledger = w.ledger.Restore(backup, false)
	for range 50 {
		other := ledger.Txn{Puts: []ledger.Put{{Key: "another-tenant"}}}
		if _, err := w.ledger.Commit(t.Context(), other); err != nil {
			t.Fatal(err)
		}
	}
	w.startFast("queue-b")
	w.generation(2)
}

// A member closes the ledger under a leader that has noticed nothing itself: the leader begins the next generation,
// and nothing stays closed.
func TestDoubtBeginsTheNextGeneration(t *testing.T) {
	w := newWorld(t)
	w.api.Set(pod("a", 0))
	w.startFast("queue-a")
	v := w.generation(1)
	w.promise(7)
	cause, err := v.Generation().Doubt("a member noticed")
	if err != nil {
		t.Fatal(err)
	}
	if r, err := w.ledger.Commit(t.Context(), cause); err != nil || !r.Succeeded {
		t.Fatalf("%+v, %v", r, err)
	}
	if _, _, ok := w.generation(2).Entry("p"); ok {
		t.Error("a reservation of before stands")
	}
}
