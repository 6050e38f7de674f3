package descheduler

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/component-base/metrics/testutil"
	"k8s.io/utils/clock"

	"github.com/berth-scheduler/berth/pkg/descheduling"
	"github.com/berth-scheduler/berth/pkg/descheduling/plan"
	"github.com/berth-scheduler/berth/pkg/descheduling/policy"
	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/events/eventlog"
	"github.com/berth-scheduler/berth/pkg/events/memlog"
	"github.com/berth-scheduler/berth/pkg/ledger/mem"
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/state/feed"
	"github.com/berth-scheduler/berth/pkg/state/statetest"
	"github.com/berth-scheduler/berth/pkg/telemetry"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const taintPolicy = `{apiVersion: descheduler/v1alpha2, kind: DeschedulerPolicy,
berth: {maxPerOwner: 100%, cooldown: 0s, waitForReady: false}, profiles: [{name: p,
pluginConfig: [{name: RemovePodsViolatingNodeTaints}],
plugins: {deschedule: {enabled: [RemovePodsViolatingNodeTaints]}}}]}`

// world is a log and a ledger that any number of replicas share.
type world struct {
	t      *testing.T
	log    *memlog.Log
	ledger *mem.Store
	facts  statetest.History
	// written is how many of facts are in the log.
	written int
	output  output
	// ledgers holds the ledgers that some replicas have instead of ledger, by id.
	ledgers map[string]Ledger
}

// output collects the log lines of all replicas.
type output struct {
	mu struct {
		sync.Mutex
		text strings.Builder
	}
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.mu.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.mu.text.String()
}

func newWorld(t *testing.T) *world {
	return &world{t: t, log: memlog.New(memlog.Options{}), ledger: mem.New()}
}

// publish appends the facts written since, with a bookmark for every kind that policies read.
func (w *world) publish() {
	w.t.Helper()
	for _, k := range []events.Kind{
		events.KindPod, events.KindNode, events.KindDisruptionBudget, events.KindReplicaSet, events.KindStatefulSet,
	} {
		w.facts.Bookmark(k)
	}
	w.append()
}

func (w *world) append() {
	w.t.Helper()
	var msgs []eventlog.Message
	for _, f := range w.facts.Facts[w.written:] {
		msgs = append(msgs, events.EncodeFact(f.Fact))
	}
	if _, err := w.log.Append(w.t.Context(), eventlog.Facts, eventlog.Tail{Sequence: uint64(w.written)},
		msgs); err != nil {
		w.t.Fatal(err)
	}
	w.written = len(w.facts.Facts)
}

func (w *world) node(name string, taints ...corev1.Taint) {
	n := statetest.Node(name, "cpu", "8", "memory", "16Gi", "pods", "20")
	n.Spec.Taints = taints
	w.facts.Upsert(events.KindNode, n)
}

func (w *world) pod(name, node string, change ...func(*corev1.Pod)) {
	p := statetest.Pod("default", name, "cpu", "1")
	p.Spec.NodeName = node
	p.OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "rs", UID: "uid-rs"}}
	for _, c := range change {
		c(p)
	}
	w.facts.Upsert(events.KindPod, p)
}

var gpuOnly = corev1.Taint{Key: "dedicated", Value: "gpu", Effect: corev1.TaintEffectNoSchedule}

func tolerant(p *corev1.Pod) {
	p.Spec.Tolerations = []corev1.Toleration{{Key: "dedicated", Operator: corev1.TolerationOpExists}}
}

func daemon(p *corev1.Pod) { p.OwnerReferences[0].Kind = "DaemonSet" }

// twoNodes has nodes a and b with three pods on a, one of them tolerant, one of a DaemonSet.
func (w *world) twoNodes() {
	w.node("a")
	w.node("b")
	w.pod("plain", "a")
	w.pod("tolerant", "a", tolerant)
	w.pod("daemon", "a", daemon)
	w.publish()
}

func (w *world) taintA() {
	w.node("a", gpuOnly)
	w.publish()
}

// replica is one running descheduler.
type replica struct {
	*Descheduler
	stop func()
	done chan error
}

func (w *world) start(id string, change ...func(*Config)) *replica {
	w.t.Helper()
	p, err := policy.Parse("test", []byte(taintPolicy))
	if err != nil {
		w.t.Fatal(err)
	}
	cfg := Config{ID: id, Policy: p, Interval: time.Minute}
	for _, c := range change {
		c(&cfg)
	}
	var store Ledger = w.ledger
	if own := w.ledgers[id]; own != nil {
		store = own
	}
	d, err := New(cfg, Deps{
		Log: w.log, Facts: feed.New(w.log, w.log), Ledger: store, Clock: clock.RealClock{},
		Logger: slog.New(slog.NewTextHandler(&w.output, nil)),
	})
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(w.t.Context())
	r := &replica{Descheduler: d, done: make(chan error, 1)}
	r.stop = func() { cancel(); synctest.Wait() }
	go func() { r.done <- d.Run(ctx) }()
	synctest.Wait()
	return r
}

// asks lists the requests in the log, as "name#attempt by actor".
func (w *world) asks() []string {
	w.t.Helper()
	var out []string
	for _, d := range w.decisions() {
		if d.Kind == events.DecisionEvict {
			out = append(out, fmt.Sprintf("%s#%d by %s", d.Pod.Name, d.Attempt, d.Actor))
		}
	}
	return out
}

func (w *world) decisions() []events.SequencedDecision { return w.decisionsFrom(1) }

func (w *world) decisionsFrom(first uint64) []events.SequencedDecision {
	w.t.Helper()
	last, err := w.log.Last(w.t.Context(), eventlog.Decisions)
	if err != nil || last == 0 {
		return nil
	}
	reader, err := w.log.Read(w.t.Context(), eventlog.Decisions, first)
	if err != nil {
		w.t.Fatal(err)
	}
	defer reader.Close()
	var out []events.SequencedDecision
	for uint64(len(out)) < last+1-first {
		records, err := reader.Next(w.t.Context())
		if err != nil {
			w.t.Fatal(err)
		}
		for _, r := range records {
			d, err := events.DecodeDecision(r)
			if err != nil {
				w.t.Fatal(err)
			}
			out = append(out, d)
		}
	}
	return out
}

// answer writes an outcome of the newest request, as a binder does.
func (w *world) answer(kind events.DecisionKind) {
	w.t.Helper()
	all := w.decisions()
	d := all[len(all)-1].Decision
	d.Kind, d.Message = kind, ""
	msgs := []eventlog.Message{events.EncodeDecision(d)}
	if _, err := w.log.Append(w.t.Context(), eventlog.Decisions, eventlog.AnySequence, msgs); err != nil {
		w.t.Fatal(err)
	}
	synctest.Wait()
}

// after advances the time.
func after(d time.Duration) {
	<-time.After(d) // the bubble's time
	synctest.Wait()
}

func (w *world) wantAsks(want ...string) {
	w.t.Helper()
	if diff := cmp.Diff(want, w.asks()); diff != "" {
		w.t.Fatalf("asks (-want +got):\n%s\nlog:\n%s", diff, w.output.String())
	}
}

// TestTaintAdded covers the scenario from a taint to the pod's end.
func TestTaintAdded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.twoNodes()
		r := w.start("d1")
		defer r.stop()
		if err := r.Ready(); err != nil || !r.Leading() {
			t.Fatalf("ready: %v, leading: %t", err, r.Leading())
		}
		after(time.Minute)
		w.wantAsks() // no taint, no requests

		w.taintA()
		after(time.Minute)
		w.wantAsks("plain#1 by d1")
		if want := `"kept.owned by a DaemonSet"=1`; !strings.Contains(w.output.String(), want) {
			t.Errorf("no %s in the log:\n%s", want, w.output.String())
		}
		after(3 * time.Minute) // in progress: there is no answer
		w.wantAsks("plain#1 by d1")

		w.answer(events.DecisionEvicted)
		w.facts.Delete(events.KindPod, "uid-plain")
		w.publish()
		after(time.Hour)
		w.wantAsks("plain#1 by d1")
	})
}

// TestRefusedCoolsDown: a refused eviction is requested again, later, as another attempt.
func TestRefusedCoolsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.twoNodes()
		w.taintA()
		r := w.start("d1")
		defer r.stop()
		w.wantAsks("plain#1 by d1")
		w.answer(events.DecisionEvictRefused)
		after(plan.Cooldown - time.Second)
		w.wantAsks("plain#1 by d1")
		after(time.Minute + time.Second)
		w.wantAsks("plain#1 by d1", "plain#2 by d1")
		// The second gets no answer: it is lost, and requested once more.
		after(plan.InFlight - 2*time.Minute)
		w.wantAsks("plain#1 by d1", "plain#2 by d1")
		after(2 * time.Minute)
		w.wantAsks("plain#1 by d1", "plain#2 by d1", "plain#3 by d1")
	})
}

// TestOnlyTheLeaderAsks also checks that a new leader knows what the old one requested.
func TestOnlyTheLeaderAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.twoNodes()
		first, second := w.start("d1"), w.start("d2")
		defer second.stop()
		w.taintA()
		after(time.Minute)
		w.wantAsks("plain#1 by d1")
		if !first.Leading() || second.Leading() {
			t.Fatalf("leading: first %t, second %t", first.Leading(), second.Leading())
		}

		// The lease of the first replica expires. It notices and stops; later it campaigns again.
		if !w.ledger.Expire(1) {
			t.Fatal("the first replica's lease is not 1")
		}
		synctest.Wait()
		if first.Leading() || !second.Leading() {
			t.Fatalf("after the loss, leading: first %t, second %t", first.Leading(), second.Leading())
		}
		w.pod("late", "a")
		w.publish()
		after(2 * time.Minute)
		w.wantAsks("plain#1 by d1", "late#1 by d2")

		// The second ends; the first leads again and requests nothing again.
		second.stop()
		after(10 * time.Second)
		if !first.Leading() {
			t.Fatal("the first does not lead again")
		}
		after(2 * time.Minute)
		w.wantAsks("plain#1 by d1", "late#1 by d2")
		first.stop()
	})
}

// TestRestart: a replica that restarts requests nothing again.
func TestRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.twoNodes()
		w.taintA()
		w.start("d1").stop()
		w.wantAsks("plain#1 by d1")
		for range 3 {
			w.answer(events.DecisionPlaced) // decisions of other services
		}
		r := w.start("d2")
		after(2 * time.Minute)
		r.stop()
		w.wantAsks("plain#1 by d1")
	})
}

// TestTrimmedDecisions: a replica that starts behind the retention edge begins at the oldest kept record.
func TestTrimmedDecisions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.twoNodes()
		w.taintA()
		w.start("d1").stop()
		w.pod("late", "a")
		w.publish()
		w.start("d2").stop() // requests late at sequence 2
		w.answer(events.DecisionPlaced)
		w.log.Trim(eventlog.Decisions, 2)
		r := w.start("d3")
		after(time.Minute)
		r.stop()
		var last []string
		for _, d := range w.decisionsFrom(2) {
			last = append(last, fmt.Sprintf("%s %s#%d by %s", d.Kind, d.Pod.Name, d.Attempt, d.Actor))
		}
		want := []string{"evict late#1 by d2", "placed late#1 by d2", "evict plain#1 by d3"}
		if diff := cmp.Diff(want, last); diff != "" {
			t.Errorf("(-want +got):\n%s\nlog:\n%s", diff, w.output.String())
		}
	})
}

// TestLostDecisions: reading continues, and what was known stays known.
func TestLostDecisions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.twoNodes()
		w.taintA()
		r := w.start("d1")
		defer r.stop()
		w.wantAsks("plain#1 by d1")
		w.answer(events.DecisionPlaced)
		w.answer(events.DecisionPlaced)
		w.log.LoseTail(eventlog.Decisions, 0)
		w.pod("late", "a")
		w.publish()
		after(2 * time.Minute)
		w.wantAsks("late#1 by d1")
	})
}

// TestLostAnswer: the request is written again under the same token.
func TestLostAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.twoNodes()
		w.taintA()
		w.log.LoseNextAnswer(eventlog.Decisions)
		r := w.start("d1")
		defer r.stop()
		after(3 * time.Minute)
		w.wantAsks("plain#1 by d1", "plain#1 by d1")
		if all := w.decisions(); all[0].Token != all[1].Token || all[0].Token == "" {
			t.Errorf("tokens %s and %s, want the same", all[0].Token, all[1].Token)
		}
	})
}

// TestWaitsForProgress: without bookmarks it is not known what is missing, and nothing is decided.
func TestWaitsForProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.node("a", gpuOnly)
		w.node("b")
		w.pod("plain", "a")
		w.append()
		r := w.start("d1")
		defer r.stop()
		after(10 * time.Minute)
		w.wantAsks()
		if r.Ready() == nil {
			t.Error("ready without progress")
		}
		w.publish()
		after(time.Minute)
		w.wantAsks("plain#1 by d1")
	})
}

// TestOnce: one cycle, then the end, and the leadership is free.
func TestOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.twoNodes()
		w.taintA()
		for _, id := range []string{"d1", "d2"} {
			r := w.start(id, func(c *Config) { c.Interval = 0 })
			select {
			case err := <-r.done:
				if err != nil {
					t.Error(err)
				}
			default:
				t.Fatalf("%s is still running", id)
			}
		}
		w.wantAsks("plain#1 by d1")
	})
}

// TestOnceWaits: a single cycle next to a running descheduler logs for which leader it waits.
func TestOnceWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.twoNodes()
		w.taintA()
		leader := w.start("d1")
		once := w.start("d2", func(c *Config) { c.Interval = 0 })
		after(time.Minute)
		want := "another descheduler is running; waiting until it stops\" leader=d1"
		if !strings.Contains(w.output.String(), want) {
			t.Errorf("no %s in the log:\n%s", want, w.output.String())
		}
		leader.stop()
		if err := <-once.done; err != nil {
			t.Error(err)
		}
		w.wantAsks("plain#1 by d1")
	})
}

// TestDryRun: it shows, requests nothing, and needs no ledger.
func TestDryRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.twoNodes()
		w.taintA()
		w.start("d1", func(c *Config) { c.Interval, c.DryRun = 0, true })
		w.wantAsks()
		if want := `msg="would evict" pod=default/plain node=a`; !strings.Contains(w.output.String(), want) {
			t.Errorf("no %s in the log:\n%s", want, w.output.String())
		}
	})
}

// TestMetrics: the outcome of this process's request is counted, once.
func TestMetrics(t *testing.T) {
	telemetry.Register()
	// A series exists from its first count on.
	telemetry.PodEvicted(telemetry.Eviction{
		Result: "success", Strategy: "RemovePodsViolatingNodeTaints", Profile: "p", Namespace: "default", Node: "metered",
	})
	before := evictionsCounted(t)
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.node("metered", gpuOnly)
		w.node("b")
		w.pod("plain", "metered")
		w.publish()
		r := w.start("d1")
		defer r.stop()
		w.answer(events.DecisionEvicted)
		w.answer(events.DecisionEvicted) // redelivered
	})
	if got := evictionsCounted(t); got != before+1 {
		t.Errorf("counted %v evictions, want %v", got, before+1)
	}
}

// evictionsCounted reads the counter of the node "metered".
func evictionsCounted(t *testing.T) float64 {
	t.Helper()
	byResult, err := testutil.GetCounterValuesFromGatherer(
		legacyregistry.DefaultGatherer, "descheduler_pods_evicted_total", map[string]string{
			"strategy": "RemovePodsViolatingNodeTaints", "profile": "p", "namespace": "default", "node": "metered",
		}, "result")
	if err != nil {
		t.Fatal(err)
	}
	return byResult["success"]
}

func TestNewRefuses(t *testing.T) {
	_, err := New(Config{Interval: -time.Second}, Deps{})
	const want = `descheduler: ID: empty: want a member id
descheduler: Deps.Log: nil: want an implementation
descheduler: Deps.Facts: nil: want an implementation
descheduler: Deps.Ledger: nil: want an implementation
descheduler: Deps.Logger: nil: want an implementation
descheduler: Deps.Clock: nil: want an implementation`
	if err == nil || err.Error() != want {
		t.Errorf("got:\n%v\nwant:\n%s", err, want)
	}
	if _, err := placementBy([]placement.ProfileConfig{{SchedulerName: "a"}, {SchedulerName: "a"}}); err == nil {
		t.Error("two profiles of one name were accepted")
	}
}

// TestDryRunIsThePlan: a dry run requests nothing; the real run that follows requests exactly what it showed, in that
// order and with those landing places.
func TestDryRunIsThePlan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.node("a", gpuOnly)
		w.node("b")
		w.node("c")
		for i := range 5 {
			w.pod(fmt.Sprint("p", i), "a")
		}
		w.pod("daemon", "a", daemon)
		w.publish()
		var shown, made []plan.Report
		dry := w.start("dry", func(c *Config) {
			c.DryRun, c.Interval, c.Report = true, 0, func(r plan.Report) { shown = append(shown, r) }
		})
		if err := <-dry.done; err != nil {
			t.Fatal(err)
		}
		dry.stop()
		w.wantAsks()
		real := w.start("real", func(c *Config) {
			c.Interval, c.Report = 0, func(r plan.Report) { made = append(made, r) }
		})
		if err := <-real.done; err != nil {
			t.Fatal(err)
		}
		real.stop()
		if diff := cmp.Diff(shown, made); diff != "" || len(shown) != 1 {
			t.Fatalf("%d reports; dry run and real run differ (-dry +real):\n%s", len(shown), diff)
		}
		var asked, wanted []string
		for _, d := range w.decisions() {
			asked = append(asked, fmt.Sprintf("default/%s from %s to %s", d.Pod.Name, d.NodeName, d.Landing))
		}
		for _, m := range shown[0].Evict {
			wanted = append(wanted, fmt.Sprintf("%s from %s to %s", m.Pod, m.Node, m.Landing))
		}
		if diff := cmp.Diff(wanted, asked); diff != "" || len(wanted) != 5 {
			t.Errorf("shown and asked differ (-shown +asked):\n%s", diff)
		}
		kept := shown[0].Kept
		if len(kept) != 1 || kept[0].Pod != "default/daemon" || kept[0].Because != descheduling.DaemonSet {
			t.Errorf("kept %+v, want the pod of the DaemonSet", kept)
		}
	})
}

// TestPausesSurvive: a replica that starts knows how long ago an owner's pods were evicted, and leaves the owner
// alone for the rest of its pause, no longer.
func TestPausesSurvive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.twoNodes()
		w.taintA()
		paused := func(c *Config) {
			p, err := policy.Parse("test", []byte(strings.Replace(taintPolicy, "cooldown: 0s", "cooldown: 30m", 1)))
			if err != nil {
				t.Fatal(err)
			}
			c.Policy = p
		}
		first := w.start("d1", paused)
		w.wantAsks("plain#1 by d1")
		w.answer(events.DecisionEvicted)
		w.facts.Delete(events.KindPod, "uid-plain")
		w.pod("next", "a")
		w.publish()
		after(15 * time.Minute)
		first.stop()
		second := w.start("d2", paused)
		defer second.stop()
		after(14 * time.Minute)
		w.wantAsks("plain#1 by d1")
		after(2 * time.Minute)
		w.wantAsks("plain#1 by d1", "next#1 by d2")
	})
}

// TestReload: a new policy is in force from the next cycle on; one with mistakes never is.
func TestReload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.twoNodes()
		w.taintA()
		type answer struct {
			policy *policy.Policy
			err    error
		}
		answers := make(chan answer, 1)
		r := w.start("d1", func(c *Config) {
			p, err := policy.Parse("idle", []byte("{apiVersion: descheduler/v1alpha2, kind: DeschedulerPolicy}"))
			if err != nil {
				t.Fatal(err)
			}
			c.Policy = p
			c.Reload = func() (*policy.Policy, error) {
				select {
				case a := <-answers:
					return a.policy, a.err
				default:
					return nil, nil
				}
			}
		})
		defer r.stop()
		_, mistaken := policy.Parse("broken", []byte("{apiVersion: descheduler/v1alpha2, kind: Policy}"))
		answers <- answer{err: mistaken}
		after(time.Minute)
		w.wantAsks()
		if !strings.Contains(w.output.String(), "keeping the previous one") {
			t.Errorf("nothing is said about the mistake:\n%s", w.output.String())
		}
		good, err := policy.Parse("good", []byte(taintPolicy))
		if err != nil {
			t.Fatal(err)
		}
		answers <- answer{policy: good}
		after(time.Minute)
		w.wantAsks("plain#1 by d1")
	})
}
