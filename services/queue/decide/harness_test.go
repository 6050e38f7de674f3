package decide

import (
	"maps"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/events/work"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/placement/rule"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/pkg/state/statetest"
	"github.com/berth-scheduler/berth/services/queue/decide/balance"
	"github.com/berth-scheduler/berth/services/queue/decide/quota"
	"github.com/berth-scheduler/berth/services/queue/decide/waiting"
)

const (
	ourScheduler = "default-scheduler"
	lease        = 10 * time.Second
	condition    = 5 * time.Second
	flushAfter   = 5 * time.Minute
	deliveries   = 4
)

// failer is what harness needs of *testing.T and *rapid.T.
type failer interface {
	Helper()
	Fatalf(format string, args ...any)
}

// harness drives a core the way the service does, and checks it after every step against the harness's own view of
// the cluster.
type harness struct {
	t    failer
	core *Core
	now  time.Time
	positions
	shown
	owners [ledger.Partitions]string
	// offers holds the offers that were received and not yet answered, by token.
	offers map[string]work.Offer
	shards map[string]string
	bound  []PodBound
	// records holds the queue's own decisions.
	records []events.Decision
	counts  Counted
	// after is called at the end of each step with its moves.
	after func([]balance.Move)
	tick  time.Time
	// last holds the offers of the last step, in order.
	last []work.Offer
}

// shown is the content of the facts.
type shown struct {
	pods  map[string]*state.Pod
	nodes map[string]*state.Node
	// objects holds the other objects, nil for none.
	objects rule.Objects
}

// positions are the positions of the cluster, the log and the ledger.
type positions struct {
	version, progress, sequence, epoch uint64
	revision                           int64
}

func newHarness(t failer) *harness {
	return &harness{
		t: t, now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
		core:   New(testConfig("queue-a")),
		shown:  shown{pods: map[string]*state.Pod{}, nodes: map[string]*state.Node{}},
		offers: map[string]work.Offer{}, shards: map[string]string{},
		counts: Counted{Incoming: map[Incoming]int{}},
	}
}

// testProfile is upstream's default profile, which evaluates everything.
var testProfile = func() *placement.Profile {
	config := placement.DefaultProfile(ourScheduler)
	p, err := placement.NewProfile(config)
	if err != nil {
		panic(err)
	}
	return p
}()

func testConfig(queue string) Config {
	return Config{
		Queue: queue, Profiles: map[string]*placement.Profile{ourScheduler: testProfile},
		InitialBackoff: time.Second, MaxBackoff: 10 * time.Second,
		Lease: lease, DeliveryLimit: deliveries, ShardTimeout: lease, ConditionWait: condition,
		FlushAfter: flushAfter, MaxOffers: 4, TokenSeed: 7,
	}
}

func (h *harness) step(in Input) {
	h.t.Helper()
	h.last = nil
	var moves []balance.Move
	for _, effect := range h.core.Step(in, h.now) {
		switch e := effect.(type) {
		case SendOffers:
			h.received(e)
		case Record:
			h.records = append(h.records, e.Decision)
		case MovePartitions:
			moves = append(moves, e.Moves...)
		case PodBound:
			h.bound = append(h.bound, e)
		case Counted:
			h.counts.Offered += e.Offered
			h.counts.Expired += e.Expired
			h.counts.Returned += e.Returned
			h.counts.Flushed += e.Flushed
			h.counts.Caught += e.Caught
			h.counts.Quarantined += e.Quarantined
			for k, n := range e.Incoming {
				h.counts.Incoming[k] += n
			}
		case NextTick:
			h.tick = e.At
		}
	}
	if err := h.core.Check(maps.Values(h.pods)); err != nil {
		h.t.Fatalf("after %T: %v\n%s", in, err, h.core.Describe())
	}
	for _, e := range h.core.backlog.pods {
		if due := dueAt(e); due != 0 && h.core.clock.timeOf(due).Before(h.tick) {
			h.t.Fatalf("after %T: %s is due in %s at %s, the next tick is at %s",
				in, e.Pod.UID, e.Pool(), h.core.clock.timeOf(due), h.tick)
		}
	}
	if h.after != nil {
		h.after(moves)
	}
}

// dueAt returns when time alone moves a pod; 0 for never.
func dueAt(e *waiting.Entry) waiting.Moment {
	switch e.Pool() {
	case waiting.PoolBackoff:
		return e.Ready()
	case waiting.PoolOffered:
		return e.Attempt.Deadline
	case waiting.PoolParked:
		if e.Verdict.Kind != events.DecisionQuarantined {
			return e.FlushAt
		}
	}
	return 0
}

// received checks what must hold for any batch of offers.
func (h *harness) received(e SendOffers) {
	h.t.Helper()
	if len(e.Batch.Offers) == 0 || len(e.Batch.Offers) > 4 {
		h.t.Fatalf("a message of %d offers, want 1 to 4", len(e.Batch.Offers))
	}
	for _, o := range e.Batch.Offers {
		pod := h.pods[o.Pod.UID]
		switch {
		case pod == nil || pod.NodeName != "" || pod.Gated:
			h.t.Fatalf("offered %s, which waits for nothing", o.Pod.UID)
		case h.owners[o.Partition] != e.Shard:
			h.t.Fatalf("offered partition %d to %s, it belongs to %q", o.Partition, e.Shard, h.owners[o.Partition])
		}
		if before := h.lastTo(e.Shard); before != nil && before.Priority < pod.Priority {
			h.t.Fatalf("offered %s after %s, of lower priority", o.Pod.UID, before.UID)
		}
		if _, twice := h.shards[o.Token]; twice {
			h.t.Fatalf("token %s given twice", o.Token)
		}
		h.offers[o.Token], h.shards[o.Token] = o, e.Shard
		h.last = append(h.last, o)
	}
}

// lastTo returns the pod offered last to a shard in this step.
func (h *harness) lastTo(shard string) *state.Pod {
	for _, o := range slices.Backward(h.last) {
		if h.shards[o.Token] == shard {
			return h.pods[o.Pod.UID]
		}
	}
	return nil
}

func (h *harness) at() waiting.Position {
	return waiting.Position{Sequence: h.sequence, Epoch: h.epoch, PodProgress: h.progress, ProgressKnown: true}
}

func (h *harness) facts(c state.Changes) {
	h.t.Helper()
	h.sequence++
	h.step(FactsApplied{Changes: c, Objects: h.objects, Position: h.at()})
}

func (h *harness) nextVersion() uint64 {
	h.version++
	h.progress = h.version
	return h.version
}

// put sets a pod to what change makes of it.
func (h *harness) put(name string, change func(*corev1.Pod)) {
	h.t.Helper()
	before := h.pods[name]
	obj := newPod(name)
	if before != nil {
		obj = before.Object().DeepCopy()
	}
	change(obj)
	obj.ResourceVersion = strconv.FormatUint(h.nextVersion(), 10)
	after := state.NewPod(obj)
	h.pods[name] = after
	h.facts(state.Changes{Pods: []state.PodChange{{Before: before, After: after}}})
}

func newPod(name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns", UID: types.UID(name)},
		Spec: corev1.PodSpec{SchedulerName: ourScheduler, Containers: []corev1.Container{{
			Name: "c", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
				corev1.ResourceCPU: resource.MustParse("1"),
			}},
		}}},
	}
}

func (h *harness) add(name string, priority int32) {
	h.t.Helper()
	h.put(name, func(p *corev1.Pod) { p.Spec.Priority = &priority })
}

func (h *harness) bind(name string) {
	h.t.Helper()
	h.put(name, func(p *corev1.Pod) { p.Spec.NodeName = "n" })
}

func (h *harness) remove(name string) {
	h.t.Helper()
	before := h.pods[name]
	delete(h.pods, name)
	h.facts(state.Changes{Pods: []state.PodChange{{Before: before, DeletedRV: h.nextVersion()}}})
}

func (h *harness) node(name string, change func(*corev1.Node)) {
	h.t.Helper()
	before := h.nodes[name]
	obj := statetest.Node(name, "cpu", "8", "memory", "8Gi", "pods", "110")
	obj.UID = types.UID(name)
	if before != nil {
		obj = before.Object.DeepCopy()
	}
	change(obj)
	after := state.NewNode(obj)
	h.nodes[name] = after
	h.facts(state.Changes{Nodes: []state.NodeChange{{Before: before, After: after}}})
}

func (h *harness) own(owners [ledger.Partitions]string) {
	h.t.Helper()
	h.revision++
	h.owners = owners
	h.step(LedgerMoved{Revision: h.revision, Owners: &owners})
}

// ownAll gives every partition to one shard.
func (h *harness) ownAll(shard string) {
	h.t.Helper()
	var owners [ledger.Partitions]string
	for p := range owners {
		owners[p] = shard
	}
	h.own(owners)
}

func (h *harness) hold(holds ...Hold) {
	h.t.Helper()
	h.revision++
	h.step(LedgerMoved{Revision: h.revision, Holds: holds})
}

func (h *harness) ask(shard string, window int32) {
	h.t.Helper()
	h.step(WorkRequested{Request: work.Request{Shard: shard, Window: window}})
}

// lead makes the core lead, with one shard that owns everything. It skips the wait for decisions that the log may
// have lost.
func (h *harness) lead() {
	h.t.Helper()
	h.step(Decided{CaughtUp: true})
	h.step(Lead{Term: 1})
	h.core.budgets.EndWait(h.now.Add(quota.SettleTime))
	h.ownAll("s1")
}

func (h *harness) sleep(d time.Duration) {
	h.t.Helper()
	h.now = h.now.Add(d)
	h.step(Tick{})
}

// answer answers an offer.
func (h *harness) answer(o work.Offer, kind events.DecisionKind, change func(*events.Decision)) events.Decision {
	h.t.Helper()
	d := events.Decision{
		Kind: kind, Pod: o.Pod, Token: o.Token, Attempt: o.Attempt,
		FactSequence: h.sequence, LedgerRevision: h.revision,
	}
	if change != nil {
		change(&d)
	}
	h.applyDecision(d)
	return d
}

func (h *harness) applyDecision(d events.Decision) {
	h.t.Helper()
	h.step(Decided{Decisions: []events.SequencedDecision{{Sequence: 1, Decision: d}}})
}

// offerOf returns the newest offer of a pod.
func (h *harness) offerOf(name string) work.Offer {
	h.t.Helper()
	var newest work.Offer
	for _, o := range h.offers {
		if o.Pod.UID == name && o.Attempt > newest.Attempt {
			newest = o
		}
	}
	if newest.Token == "" {
		h.t.Fatalf("pod %s was never offered\n%s", name, h.core.Describe())
	}
	return newest
}

func (h *harness) want(name string, want waiting.Pool) {
	h.t.Helper()
	if got, why := h.core.Where(name); got != want {
		h.t.Fatalf("pod %s is in %q (%s), want %q", name, got, why, want)
	}
}

func offered(h *harness) []string {
	var out []string
	for _, o := range h.last {
		out = append(out, o.Pod.Name)
	}
	return out
}

func plugins(names ...string) func(*events.Decision) {
	return func(d *events.Decision) { d.Plugins, d.Message = names, "0/1 nodes are available" }
}
