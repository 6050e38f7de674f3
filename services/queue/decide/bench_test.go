package decide

import (
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/events/work"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/pkg/state/statetest"
	"github.com/berth-scheduler/berth/services/queue/decide/waiting"
)

// crowd is a core with many parked pods, rejected by rules of all sorts.
type crowd struct {
	core     *Core
	now      time.Time
	sequence uint64
	nodes    map[string]*state.Node
	woken    int
}

// These are the numbers of distinct requests, node selectors and applications among the parked pods.
const (
	crowdRequests  = 200
	crowdSelectors = 10_000
	crowdApps      = 1000
)

func newCrowd(tb testing.TB, pods int) *crowd {
	c := &crowd{core: New(testConfig("queue-a")), now: time.Unix(0, 0), nodes: map[string]*state.Node{}}
	c.step(Decided{CaughtUp: true})
	c.step(Lead{Term: 1})
	for i := range 1000 {
		c.node("n"+strconv.Itoa(i), func(*corev1.Node) {})
	}
	changes := state.Changes{}
	for i := range pods {
		changes.Pods = append(changes.Pods, state.PodChange{After: state.NewPod(crowdPod(i))})
	}
	c.apply(changes)
	decisions := make([]events.SequencedDecision, pods)
	for i := range decisions {
		decisions[i] = c.rejected(i, 1)
	}
	c.step(Decided{Decisions: decisions})
	if got := c.core.Pending()[waiting.PoolParked]; got != pods {
		tb.Fatalf("%d pods are parked, want %d", got, pods)
	}
	return c
}

// rejected returns the verdict about the i-th pod.
func (c *crowd) rejected(i int, attempt int32) events.SequencedDecision {
	return events.SequencedDecision{Decision: events.Decision{
		Kind: events.DecisionUnplaceable, Pod: events.PodRef{UID: "p" + strconv.Itoa(i)}, Attempt: attempt, Token: "t",
		FactSequence: c.sequence, Plugins: []string{crowdPlugin(i)}, Message: "0/5000 nodes are available",
	}}
}

func crowdPlugin(i int) string {
	return []string{
		"NodeResourcesFit", "NodeAffinity", "NodeResourcesFit", "NodeAffinity", "TaintToleration",
		"InterPodAffinity", "NodeResourcesFit", "NodeAffinity", "PodTopologySpread", "NodePorts",
	}[i%10]
}

func crowdPod(i int) *corev1.Pod {
	name := "p" + strconv.Itoa(i)
	// It exceeds what any node has, so that no node helps pods that wait for room.
	obj := statetest.Pod("ns"+strconv.Itoa(i%50), name, "cpu", strconv.Itoa(100+i%crowdRequests))
	obj.UID, obj.Spec.SchedulerName = types.UID(name), ourScheduler
	app := &metav1.LabelSelector{MatchLabels: map[string]string{"app": strconv.Itoa(i % crowdApps)}}
	obj.Labels = app.MatchLabels
	switch crowdPlugin(i) {
	case "NodeAffinity":
		obj.Spec.NodeSelector = map[string]string{"pool": strconv.Itoa(i % crowdSelectors)}
	case "NodePorts":
		obj.Spec.Containers[0].Ports = []corev1.ContainerPort{{HostPort: int32(1 + i%1000), Protocol: corev1.ProtocolTCP}}
	case "InterPodAffinity":
		obj.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{TopologyKey: "zone", LabelSelector: app}},
		}}
	case "PodTopologySpread":
		obj.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: "zone", WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: app,
		}}
	}
	return obj
}

func (c *crowd) step(in Input) {
	for _, effect := range c.core.Step(in, c.now) {
		if n, ok := effect.(Counted); ok {
			c.count(n)
		}
	}
}

func (c *crowd) count(n Counted) {
	for k, v := range n.Incoming {
		if k.Event != waiting.EventPodAdd && k.Event != waiting.EventAttemptFailure {
			c.woken += v
		}
	}
}

func (c *crowd) apply(changes state.Changes) {
	c.sequence++
	c.step(FactsApplied{Changes: changes, Position: waiting.Position{Sequence: c.sequence}})
}

func (c *crowd) node(name string, change func(*corev1.Node)) {
	before := c.nodes[name]
	obj := statetest.Node(name, "cpu", "8", "pods", "110")
	obj.Labels["zone"] = "a"
	obj.Spec.Taints = []corev1.Taint{{Key: "t", Effect: corev1.TaintEffectNoSchedule}}
	if before != nil {
		obj = before.Object.DeepCopy()
	}
	change(obj)
	c.nodes[name] = state.NewNode(obj)
	c.apply(state.Changes{Nodes: []state.NodeChange{{Before: before, After: c.nodes[name]}}})
}

// unrelatedChange applies a change that helps no pod, of the kinds that are frequent in a cluster.
func (c *crowd) unrelatedChange(i int) {
	name := "n" + strconv.Itoa(i%1000)
	switch i % 5 {
	case 0: // a pod of an application that no pod waits for is bound, and its status changes
		obj := statetest.Pod("other", "bound"+strconv.Itoa(i), "cpu", "1")
		obj.Labels = map[string]string{"app": "other"}
		before := state.NewPod(obj)
		obj = obj.DeepCopy()
		obj.Spec.NodeName = name
		after := state.NewPod(obj)
		obj = obj.DeepCopy()
		obj.Status.Phase = corev1.PodRunning
		c.apply(state.Changes{Pods: []state.PodChange{
			{After: before}, {Before: before, After: after}, {Before: after, After: state.NewPod(obj)},
		}})
	case 1:
		c.node(name, func(n *corev1.Node) {
			n.Status.Conditions = []corev1.NodeCondition{{Type: "Ready", Status: corev1.ConditionStatus(fmt.Sprint(i%2 == 0))}}
		})
	case 2:
		c.node(name, func(n *corev1.Node) { n.Labels["pool"] = "nobody" + strconv.Itoa(i%7) })
	case 3:
		c.node(name, func(n *corev1.Node) { n.Annotations = map[string]string{"seen": strconv.Itoa(i)} })
	default:
		room := statetest.List("cpu", strconv.Itoa(1+i%8), "pods", "110")
		c.node(name, func(n *corev1.Node) { n.Status.Allocatable = room })
	}
}

// BenchmarkEvents measures 100,000 parked pods and events of which one in a hundred helps exactly ten of them, which
// are then rejected again. At 1,000 events per second, half a core is 500,000 cpu-ns per event; wake-ns is the step
// that wakes.
func BenchmarkEvents(b *testing.B) {
	const pods, perSelector = 100_000, 100_000 / crowdSelectors
	c := newCrowd(b, pods)
	var helpful, attempts int
	var took time.Duration
	b.ReportAllocs()
	b.ResetTimer()
	cpu := cpuTime(b)
	for i := range b.N {
		c.woken = 0
		if i%100 != 99 {
			if c.unrelatedChange(i); c.woken > 0 {
				b.Fatalf("noise %d woke %d", i%5, c.woken)
			}
			continue
		}
		pool := (10*helpful + 1) % crowdSelectors
		helpful++
		begin := time.Now()
		c.node("n"+strconv.Itoa(i%1000), func(n *corev1.Node) { n.Labels["pool"] = strconv.Itoa(pool) })
		took += time.Since(begin)
		if c.woken != perSelector {
			b.Fatalf("%d pods woke, want %d", c.woken, perSelector)
		}
		attempts++
		var again Decided
		for k := pool; k < pods; k += crowdSelectors {
			again.Decisions = append(again.Decisions, c.rejected(k, int32(attempts)+1))
		}
		c.step(again)
	}
	b.StopTimer()
	b.ReportMetric(float64(cpuTime(b)-cpu)/float64(b.N), "cpu-ns/op")
	if helpful > 0 {
		b.ReportMetric(float64(took.Nanoseconds())/float64(helpful), "wake-ns")
	}
}

// cpuTime returns the CPU time that this process has used so far.
func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkDeletion measures the deletion of a bound pod that wakes 10,000 equal pods which wait for room: one hint,
// and one move for each.
func BenchmarkDeletion(b *testing.B) {
	for range b.N {
		b.StopTimer()
		c := newCrowd(b, 10)
		changes := state.Changes{}
		for i := range 10_000 {
			obj := crowdPod(0)
			obj.UID = types.UID("equal" + strconv.Itoa(i))
			changes.Pods = append(changes.Pods, state.PodChange{After: state.NewPod(obj)})
		}
		c.apply(changes)
		var decided Decided
		for i := range changes.Pods {
			decided.Decisions = append(decided.Decisions, events.SequencedDecision{Decision: events.Decision{
				Kind: events.DecisionUnplaceable, Pod: events.PodRef{UID: "equal" + strconv.Itoa(i)}, Attempt: 1,
				FactSequence: c.sequence, Plugins: []string{"NodeResourcesFit"},
			}})
		}
		c.step(decided)
		c.woken = 0
		gone := state.NewPod(crowdPod(1))
		gone.NodeName = "n1"
		b.StartTimer()
		c.apply(state.Changes{Pods: []state.PodChange{{Before: gone}}})
		if c.woken < 10_000 {
			b.Fatalf("%d woke", c.woken)
		}
	}
}

// million is how many pods BenchmarkMillionPending keeps pending.
const million = 1_000_000

// BenchmarkMillionPending measures what a replica needs for a million pending pods of 1,000 templates, half of them
// parked: state and core, without the garbage of creating them. rebuild-s is the time from the state to the pools.
func BenchmarkMillionPending(b *testing.B) {
	for range b.N {
		b.StopTimer()
		store := millionPods(b)
		before := alive()
		b.StartTimer()
		begin, cpu := time.Now(), cpuTime(b)
		core := New(testConfig("queue-a"))
		s := store.Snapshot()
		core.Step(FactsReset{
			Pods: slices.Collect(s.Pods()), Objects: s, Position: waiting.Position{Sequence: million},
		}, time.Unix(0, 0))
		rebuilt, cpu := time.Since(begin), cpuTime(b)-cpu
		b.StopTimer()
		var decided Decided
		i := 0
		for uid := range core.backlog.pods {
			if i++; i%2 == 0 {
				decided.Decisions = append(decided.Decisions, events.SequencedDecision{Decision: events.Decision{
					Kind: events.DecisionUnplaceable, Pod: events.PodRef{UID: uid}, Attempt: 1, FactSequence: million,
					Plugins: []string{"NodeResourcesFit", "TaintToleration"}, Message: "0/5000 nodes are available",
				}})
			}
		}
		core.Step(decided, time.Unix(1, 0))
		decided = Decided{}
		if n := core.Pending()[waiting.PoolParked]; n != million/2 {
			b.Fatalf("%d parked", n)
		}
		b.ReportMetric(float64(before)/million, "state-B/pod")
		b.ReportMetric(float64(alive()-before)/million, "core-B/pod")
		b.ReportMetric(rebuilt.Seconds(), "rebuild-s")
		b.ReportMetric(cpu.Seconds(), "rebuild-cpu-s")
		data, _ := core.Remember()
		b.ReportMetric(float64(len(data))/million, "memory-B/pod")
		runtime.KeepAlive(store)
	}
}

// millionPods returns their state.
func millionPods(b *testing.B) *state.Store {
	store, history := state.New(), &statetest.History{}
	batch := make([]events.SequencedFact, 0, 1000)
	for i := range million {
		history.Facts = history.Facts[:0]
		obj := crowdPod(i % 1000)
		obj.Name = fmt.Sprintf("web-%d-7d9c5b8f6d-%05x", i%1000, i)
		obj.UID = types.UID(fmt.Sprintf("%08x-7f3c-4c1d-9a41-5be0%08x", i, i))
		obj.CreationTimestamp = metav1.Unix(int64(i), 0)
		history.Upsert(events.KindPod, obj)
		f := history.Facts[0]
		f.Sequence = uint64(i) + 1
		if batch = append(batch, f); len(batch) < cap(batch) {
			continue
		}
		if _, err := store.Apply(batch); err != nil {
			b.Fatal(err)
		}
		batch = batch[:0]
	}
	return store
}

// alive returns how much of the heap is live.
func alive() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// BenchmarkCycle measures pods that are created, offered, reserved, bound and handed over while older ones are
// deleted, 1,000 per second, next to many pods that fit nowhere. Each deletion leaves room that could be theirs, so
// they are tried again and again. An attempt takes 20 ms until its answer is known. retries/op is how many attempts
// they get for each pod that is placed, wait-ms how long that pod waits for its offer, and cpu-ns/op what it costs
// the queue.
func BenchmarkCycle(b *testing.B) {
	for _, waiting := range []int{0, 10_000} {
		b.Run(strconv.Itoa(waiting), func(b *testing.B) {
			c := &cycle{crowd: newCrowd(b, 0), made: map[string]time.Time{}}
			c.begin(b, waiting)
			b.ReportAllocs()
			b.ResetTimer()
			cpu := cpuTime(b)
			for i := range b.N {
				c.pod(i)
			}
			b.ReportMetric(float64(cpuTime(b)-cpu)/float64(b.N), "cpu-ns/op")
			b.ReportMetric(float64(c.retries)/float64(b.N), "retries/op")
			b.ReportMetric(float64(c.waited.Milliseconds())/float64(b.N), "wait-ms")
		})
	}
}

// attemptTakes is the time from an offer to its answer.
const attemptTakes = 20 * time.Millisecond

// cycle is one working shard next to a crowd.
type cycle struct {
	*crowd
	revision int64
	offers   []dueOffer
	old      []*state.Pod
	made     map[string]time.Time
	retries  int
	waited   time.Duration
}

type dueOffer struct {
	work.Offer
	due time.Time
}

func (c *cycle) step(in Input) {
	for _, effect := range c.core.Step(in, c.now) {
		send, ok := effect.(SendOffers)
		if !ok {
			continue
		}
		for _, o := range send.Batch.Offers {
			c.offers = append(c.offers, dueOffer{o, c.now.Add(attemptTakes)})
			if made, ok := c.made[o.Pod.UID]; ok {
				c.waited += c.now.Sub(made)
				delete(c.made, o.Pod.UID)
			}
		}
	}
}

func (c *cycle) facts(changes ...state.PodChange) {
	c.sequence++
	c.step(FactsApplied{Changes: state.Changes{Pods: changes}, Position: waiting.Position{
		Sequence: c.sequence, PodProgress: c.sequence, ProgressKnown: true,
	}})
}

// begin parks the pods that wait, which differ only in their names.
func (c *cycle) begin(b *testing.B, parked int) {
	var owners [ledger.Partitions]string
	for p := range owners {
		owners[p] = "s1"
	}
	c.revision = 1
	c.step(LedgerMoved{Revision: c.revision, Owners: &owners})
	for i := range parked {
		obj := crowdPod(0)
		obj.UID = types.UID("waiting" + strconv.Itoa(i))
		c.facts(state.PodChange{After: state.NewPod(obj)})
	}
	for range parked {
		c.pass()
	}
	if c.retries < parked || c.core.Pending()[waiting.PoolParked] != parked {
		b.Fatalf("%d tries, %v", c.retries, c.core.Pending())
	}
	c.retries = 0
}

// pass advances the time by a millisecond, and answers the offers that are due.
func (c *cycle) pass() {
	c.now = c.now.Add(time.Millisecond)
	c.step(WorkRequested{Request: work.Request{Shard: "s1", Window: 96}})
	var decided Decided
	for len(c.offers) > 0 && !c.offers[0].due.After(c.now) {
		o := c.offers[0].Offer
		c.offers = c.offers[1:]
		if !strings.HasPrefix(o.Pod.UID, "waiting") {
			c.place(o)
			continue
		}
		c.retries++
		decided.Decisions = append(decided.Decisions, events.SequencedDecision{Decision: events.Decision{
			Kind: events.DecisionUnplaceable, Pod: o.Pod, Token: o.Token, Attempt: o.Attempt,
			FactSequence: c.sequence, LedgerRevision: c.revision, Plugins: []string{"NodeResourcesFit"},
		}}, events.SequencedDecision{Decision: events.Decision{
			Kind: events.DecisionCondition, Pod: o.Pod, Token: o.Token,
		}})
	}
	c.step(decided)
}

func (c *cycle) place(o work.Offer) {
	c.revision++
	c.step(LedgerMoved{Revision: c.revision, Holds: []Hold{{PodUID: o.Pod.UID, Live: true}}})
	c.step(Decided{Decisions: []events.SequencedDecision{{Decision: events.Decision{
		Kind: events.DecisionPlaced, Pod: o.Pod, Token: o.Token, Attempt: o.Attempt, LedgerRevision: c.revision,
	}}}})
	before := c.core.backlog.pods[o.Pod.UID].Pod
	after := *before
	after.NodeName = "n1"
	after.ResourceVersion++
	c.facts(state.PodChange{Before: before, After: &after})
	c.revision++
	c.step(LedgerMoved{Revision: c.revision, Holds: []Hold{{PodUID: o.Pod.UID, HW: 1, Bound: true}}})
	c.old = append(c.old, &after)
}

// pod creates a pod and deletes the oldest one.
func (c *cycle) pod(i int) {
	obj := statetest.Pod("apps", "web"+strconv.Itoa(i), "cpu", "1")
	obj.Spec.SchedulerName = ourScheduler
	obj.ResourceVersion = "1"
	c.made[string(obj.UID)] = c.now
	c.facts(state.PodChange{After: state.NewPod(obj)})
	c.pass()
	if len(c.old) > 100 {
		gone := c.old[0]
		c.old = c.old[1:]
		c.facts(state.PodChange{Before: gone, DeletedRV: 1})
	}
}
