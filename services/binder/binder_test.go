package binder

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/clock"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/events/eventlog"
	"github.com/berth-scheduler/berth/pkg/events/memlog"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/codec"
	"github.com/berth-scheduler/berth/pkg/ledger/mem"
	"github.com/berth-scheduler/berth/pkg/ledger/replica"
	"github.com/berth-scheduler/berth/pkg/ledger/roster"
	"github.com/berth-scheduler/berth/pkg/ledger/txns"
	"github.com/berth-scheduler/berth/pkg/seedtest"
	"github.com/berth-scheduler/berth/pkg/state/feed"
	"github.com/berth-scheduler/berth/services/binder/commit"
	"github.com/berth-scheduler/berth/services/binder/decide/effect"
)

// site is a set of binders and their environment, in memory. Tests run it in a synctest bubble, so that its seconds
// cost nothing.
type site struct {
	t      *testing.T
	log    *memlog.Log
	ledger *mem.Store
	server *apiServer
	client *fake.Clientset
	stops  []func()
}

func newSite(t *testing.T, nodes, pods int) *site {
	s := &site{t: t, log: memlog.New(memlog.Options{}), ledger: mem.New()}
	s.server, s.client = newAPIServer(t, s.log)
	for i := range nodes {
		s.server.addNode(fmt.Sprintf("n%d", i))
	}
	for i := range pods {
		s.server.addPod(fmt.Sprintf("p%d", i))
	}
	return s
}

// start runs a binder; the returned function drains it and returns Run's result.
func (s *site) start(id string) (stop func() error) {
	b, err := build(Config{ID: id, Workers: 4}, Deps{
		Log: s.log, Facts: feed.New(s.log, s.log), Ledger: s.ledger, Clock: clock.RealClock{},
		Logger: slog.New(slog.NewTextHandler(s.t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn})),
	}, commit.APIOf(s.client))
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(s.t.Context())
	done := make(chan error, 1)
	go func() { done <- b.Run(ctx) }()
	stop = sync.OnceValue(func() error { cancel(); return <-done })
	s.stops = append(s.stops, func() {
		if err := stop(); err != nil {
			s.t.Errorf("binder %s: %v", id, err)
		}
	})
	return stop
}

// end drains every binder.
func (s *site) end() {
	for _, stop := range s.stops {
		stop()
	}
	s.log.Close()
}

// reserve commits an entry for the pod, as a shard would, and publishes its hint.
func (s *site) reserve(pod *corev1.Pod, node string, token ledger.Token) {
	s.t.Helper()
	rv := uint64(0)
	if _, err := fmt.Sscan(pod.ResourceVersion, &rv); err != nil {
		s.t.Fatal(err)
	}
	entry := ledger.Entry{
		PodUID: string(pod.UID), Namespace: pod.Namespace, Name: pod.Name, Role: ledger.RoleReservation,
		State: ledger.Committed, PodRV: rv, Token: token, SchedulerName: "berth", Shard: "scheduler-0",
	}
	for {
		doc, err := txns.Place(s.doc(node), entry)
		if err != nil {
			s.t.Fatal(err)
		}
		txn, err := txns.Replace(doc)
		if err != nil {
			s.t.Fatal(err)
		}
		res, err := s.ledger.Commit(s.t.Context(), txn)
		if err != nil {
			s.t.Fatal(err)
		}
		if res.Succeeded {
			s.decide(events.Decision{Kind: events.DecisionPlaced, Pod: podRef(pod), Token: token.String(),
				NodeUID: node + "-uid", NodeName: node, LedgerRevision: res.Revision, Attempt: 1})
			return
		}
	}
}

func podRef(p *corev1.Pod) events.PodRef {
	return events.PodRef{UID: string(p.UID), Namespace: p.Namespace, Name: p.Name}
}

func (s *site) doc(node string) ledger.NodeDoc {
	s.t.Helper()
	d := ledger.NodeDoc{NodeUID: node + "-uid", NodeName: node}
	kvs, _, err := s.ledger.List(s.t.Context(), ledger.KeyNode(d.NodeUID))
	if err != nil {
		s.t.Fatal(err)
	}
	for _, kv := range kvs {
		if kv.Key != ledger.KeyNode(d.NodeUID) {
			continue
		}
		if d, err = codec.DecodeNodeDoc(kv); err != nil {
			s.t.Fatal(err)
		}
	}
	return d
}

func (s *site) decide(d events.Decision) {
	s.t.Helper()
	_, err := s.log.Append(s.t.Context(), eventlog.Decisions, eventlog.AnySequence,
		[]eventlog.Message{events.EncodeDecision(d)})
	if err != nil {
		s.t.Fatal(err)
	}
}

// decisions returns the decisions of a kind in the log, by pod name; the last one counts.
func (s *site) decisions(kind events.DecisionKind) map[string]events.Decision {
	s.t.Helper()
	out := map[string]events.Decision{}
	last, err := s.log.Last(s.t.Context(), eventlog.Decisions)
	if err != nil || last == 0 {
		return out
	}
	reader, err := s.log.Read(s.t.Context(), eventlog.Decisions, 1)
	if err != nil {
		s.t.Fatal(err)
	}
	defer reader.Close()
	for at := uint64(0); at < last; {
		records, err := reader.Next(s.t.Context())
		if err != nil {
			s.t.Fatal(err)
		}
		for _, r := range records {
			at = r.Sequence
			d, err := events.DecodeDecision(r)
			if err != nil {
				s.t.Fatal(err)
			}
			if d.Kind == kind {
				out[d.Pod.Name] = d.Decision
			}
		}
	}
	return out
}

// notes returns the notes of the Kubernetes events with a reason.
func (s *site) notes(reason string) []string {
	var out []string
	for _, a := range s.client.Actions() {
		c, ok := a.(clienttesting.CreateActionImpl)
		if !ok {
			continue
		}
		if e, ok := c.Object.(*eventsv1.Event); ok && e.Reason == reason {
			if e.ReportingController != "berth" || e.Regarding.Name == "" {
				s.t.Errorf("event %+v, want reportingController berth about a pod", e)
			}
			out = append(out, e.Note)
		}
	}
	return out
}

// settle advances the bubble's time by d and lets everything that is due happen.
func settle(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func TestTwoBindersBindEveryPodOnceAndCleanUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const nodes, pods = 10, 200
		s := newSite(t, nodes, pods)
		defer s.end()
		s.start("binder-0")
		s.start("binder-1")
		for i := range pods {
			s.reserve(s.server.pod(fmt.Sprintf("p%d", i)), fmt.Sprintf("n%d", i%nodes), ledger.Token(i+1))
		}
		settle(3 * time.Second)
		bound := s.server.bound()
		decided := s.decisions(events.DecisionBound)
		for i := range pods {
			name, node := fmt.Sprintf("p%d", i), fmt.Sprintf("n%d", i%nodes)
			if bound[name] != node || decided[name].NodeName != node {
				t.Fatalf("%s: bound to %q, told %+v, want %s", name, bound[name], decided[name], node)
			}
			if got := s.server.pod(name).Annotations[effect.AnnotationAttempt]; got != ledger.Token(i+1).String() {
				t.Fatalf("%s carries attempt %q", name, got)
			}
		}
		if n := len(s.notes("Scheduled")); n != pods {
			t.Fatalf("%d Scheduled events, want %d", n, pods)
		}
		settle(10 * time.Second)
		for i := range nodes {
			if d := s.doc(fmt.Sprintf("n%d", i)); len(d.Entries) != 0 || d.HW[ledger.KindPod] == 0 {
				t.Fatalf("document of n%d after the sweep: %d entries, high-water %v", i, len(d.Entries), d.HW)
			}
		}
	})
}

// TestFaultsOnTheWay covers calls that fail, succeed without an answer, or meet a pod that has changed. In the end
// every pod is bound where it was reserved or its reservation is released, and no reservation is left.
func TestFaultsOnTheWay(t *testing.T) {
	seed := seedtest.First(t, 0)
	synctest.Test(t, func(t *testing.T) {
		const nodes, pods = 5, 60
		s := newSite(t, nodes, pods)
		defer s.end()
		var mu sync.Mutex
		r := rand.New(rand.NewPCG(seed, 3))
		s.server.before = func(verb, _ string, pod string) (bool, error) {
			mu.Lock()
			defer mu.Unlock()
			switch r.IntN(10) {
			case 0:
				return false, context.DeadlineExceeded
			case 1:
				return true, context.DeadlineExceeded
			case 2:
				return false, apierrors.NewTooManyRequests("slow down", 1)
			case 3:
				return r.IntN(2) == 0, apierrors.NewInternalError(errors.New("etcd timeout"))
			case 4:
				if verb == "create" {
					s.server.touch(pod)
				}
			}
			return true, nil
		}
		s.start("binder-0")
		s.start("binder-1")
		settle(time.Second)
		for i := range pods {
			s.reserve(s.server.pod(fmt.Sprintf("p%d", i)), fmt.Sprintf("n%d", i%nodes), ledger.Token(i+1))
		}
		for range 60 {
			s.ledger.LoseAnswers(1)
			settle(time.Second)
		}
		s.ledger.LoseAnswers(0)
		settle(time.Minute)
		bound, released := s.server.bound(), s.decisions(events.DecisionReleased)
		for i := range pods {
			name, node := fmt.Sprintf("p%d", i), fmt.Sprintf("n%d", i%nodes)
			if _, back := released[name]; bound[name] != node && (!back || bound[name] != "") {
				t.Errorf("%s: bound to %q, released %v", name, bound[name], back)
			}
		}
		for i := range nodes {
			if d := s.doc(fmt.Sprintf("n%d", i)); len(d.Entries) != 0 {
				t.Errorf("L2: document of n%d still has %d entries", i, len(d.Entries))
			}
		}
	})
}

func TestPartitionsOfABinderThatLeavesAreTakenOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, 1, 40)
		defer s.end()
		stop := s.start("binder-0")
		s.start("binder-1")
		settle(time.Second)
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		settle(time.Second)
		for i := range 40 {
			s.reserve(s.server.pod(fmt.Sprintf("p%d", i)), "n0", ledger.Token(i+1))
		}
		settle(time.Second)
		if n := len(s.server.bound()); n != 40 {
			t.Fatalf("%d pods bound by the binder that stayed, want 40", n)
		}
	})
}

func TestDrainWaitsForBindsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, 1, 1)
		defer s.end()
		entered, proceed := make(chan struct{}), make(chan struct{})
		s.server.before = func(string, string, string) (bool, error) {
			close(entered)
			<-proceed
			return true, nil
		}
		stop := s.start("binder-0")
		s.reserve(s.server.pod("p0"), "n0", 1)
		<-entered
		go func() {
			time.Sleep(5 * time.Second)
			close(proceed)
		}()
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		if s.server.bound()["p0"] != "n0" || s.decisions(events.DecisionBound)["p0"].NodeName != "n0" {
			t.Fatal("the bind under way was not finished and told")
		}
		if kvs, _, err := s.ledger.List(t.Context(), roster.PrefixMember); err != nil || len(kvs) != 0 {
			t.Fatalf("member keys left: %v, %v", kvs, err)
		}
	})
}

func TestUnplaceablePodGetsConditionAndEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, 1, 1)
		defer s.end()
		s.start("binder-0")
		settle(time.Second)
		message := "0/1 nodes are available: 1 node(s) are 100% full %d %s." + strings.Repeat(" é", 600)
		s.decide(events.Decision{Kind: events.DecisionUnplaceable, Pod: podRef(s.server.pod("p0")),
			SchedulerName: "berth", Token: ledger.Token(1).String(), Message: message})
		settle(2 * time.Second)
		p := s.server.pod("p0")
		if len(p.Status.Conditions) != 1 || p.Status.Conditions[0].Message != message ||
			p.Status.Conditions[0].Reason != corev1.PodReasonUnschedulable || p.Status.Conditions[0].ObservedGeneration != 1 {
			t.Fatalf("conditions %+v", p.Status.Conditions)
		}
		if d := s.decisions(events.DecisionCondition)["p0"]; fmt.Sprint(d.PodResourceVersion) != p.ResourceVersion {
			t.Fatalf("told %+v, the pod is at %s", d, p.ResourceVersion)
		}
		notes := s.notes("FailedScheduling")
		if len(notes) != 1 || !strings.HasPrefix(notes[0], "0/1 nodes are available: 1 node(s) are 100% full %d %s.") ||
			!strings.HasSuffix(notes[0], " ...") || len(notes[0]) > 1024 ||
			!strings.HasPrefix(message, strings.TrimSuffix(notes[0], " ...")) {
			t.Fatalf("notes %q", notes)
		}
	})
}

func TestEvictionThatABudgetRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, 1, 2)
		defer s.end()
		s.server.before = func(_, subresource, pod string) (bool, error) {
			if subresource == "eviction" && pod == "p0" {
				return false, apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", 10)
			}
			return true, nil
		}
		s.server.addBudget("pdb")
		s.server.run("p0", "n0")
		s.server.run("p1", "n0")
		s.start("binder-0")
		settle(time.Second)
		for i, name := range []string{"p0", "p1"} {
			s.decide(events.Decision{Kind: events.DecisionEvict, Pod: podRef(s.server.pod(name)),
				Token: ledger.Token(i + 1).String(), Strategy: "LowNodeUtilization"})
		}
		settle(time.Minute)
		if d := s.decisions(events.DecisionEvictRefused)["p0"]; !strings.Contains(d.Message, "disruption budget") {
			t.Fatalf("p0: told %+v", d)
		}
		d := s.decisions(events.DecisionEvicted)["p1"]
		if d.Strategy != "LowNodeUtilization" || s.server.pod("p1").DeletionTimestamp == nil {
			t.Fatalf("p1: told %+v", d)
		}
		if n := s.server.calls("create/eviction"); n != 2 {
			t.Fatalf("%d eviction calls reached the server for p1, want the dry run and the eviction", n)
		}
	})
}

func TestNewNamesWhatIsWrong(t *testing.T) {
	log, store := memlog.New(memlog.Options{}), mem.New()
	good := Deps{Log: log, Facts: feed.New(log, log), Ledger: store, RestConfig: &rest.Config{Host: "http://127.0.0.1:1"},
		Logger: slog.Default(), Clock: clock.RealClock{}}
	if _, err := New(Config{ID: "binder-0"}, good); err != nil {
		t.Fatal(err)
	}
	for want, tc := range map[string]struct {
		cfg  Config
		deps func(d *Deps)
	}{
		"ID: empty":       {Config{}, nil},
		"Workers: 251":    {Config{ID: "b", Workers: 251}, nil},
		"KeepPlace: 11m":  {Config{ID: "b", KeepPlace: 11 * time.Minute}, nil},
		"CollectAfter: 1": {Config{ID: "b", CollectAfter: time.Microsecond}, nil},
		"QPS: -1":         {Config{ID: "b", QPS: -1}, nil},
		"Burst: 0":        {Config{ID: "b", QPS: 5}, nil},
		"RestConfig":      {Config{ID: "b"}, func(d *Deps) { d.RestConfig = nil }},
		"Deps.Ledger":     {Config{ID: "b"}, func(d *Deps) { d.Ledger = nil }},
		"client for http": {Config{ID: "b"}, func(d *Deps) { d.RestConfig = &rest.Config{Host: "http://["} }},
	} {
		d := good
		if tc.deps != nil {
			tc.deps(&d)
		}
		if _, err := New(tc.cfg, d); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("New: %v, want an error with %q", err, want)
		}
	}
}

// A binder whose view of the ledger cannot be advanced does not continue with a gap in it.
func TestBinderThatCannotFollowTheLedgerEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, 1, 0)
		defer s.end()
		b, err := build(Config{ID: "binder-0", Workers: 4}, Deps{
			Log: s.log, Facts: feed.New(s.log, s.log), Ledger: s.ledger, Clock: clock.RealClock{},
			Logger: slog.New(slog.DiscardHandler),
		}, commit.APIOf(s.client))
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() { done <- b.Run(t.Context()) }()
		settle(time.Second)
		b.inputs <- effect.LedgerChanged{Batch: replica.Batch{Reset: true}}
		var replaced *ledger.StoreReplacedError
		if err := <-done; !errors.As(err, &replaced) {
			t.Errorf("Run: %v, want *ledger.StoreReplacedError", err)
		}
	})
}
