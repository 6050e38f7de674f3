package scale

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/membership"
)

const (
	// window is how many offers a shard holds, as services/scheduler has it by default.
	window = 96
	// batchFacts is how many changes a queue reads of its watch at once.
	batchFacts = 64
	// heartbeat is how often a shard reports the offers that it returns.
	heartbeat = time.Second
	// backoff is how long a pod waits whose attempt has failed, mostAttempts how often it is tried.
	backoff, mostAttempts = time.Second, 10
	// mostVirtual bounds a run in its own time.
	mostVirtual = time.Hour
	// Widths are how many processors a process keeps busy at most. A queue reads its watch, writes to the log and
	// decides in goroutines of their own, of which the busiest has 27% of its profile (of bench path). etcd reaches
	// 30,000 reservations/s, of 125 µs each by costs.yaml: on four processors. Binders and NATS do much at the same
	// time, too.
	queueWidth, binderWidth, etcdWidth, natsWidth, sinkWidth = 3, 4, 4, 4, 2
)

// world is everything there is in one run.
type world struct {
	clock
	// ctx is for the in-memory ledger, which never waits.
	ctx context.Context //nolint:containedctx // the ledger's interface asks for one, nothing here ever waits
	Scenario
	costs Costs
	rng   *rand.Rand
	// fleet makes nodes and pods; see engine.
	fleet *fleet
	// facts are those of pods as the log has them, by version, for the real cores.
	facts map[uint64]events.Fact
	members
	progress
	tally
	broken error
}

// members are the processes.
type members struct {
	machine machine
	shards  []*shard
	leaders []*leader
	stores  []*store
	binders []*process
	api     *process
}

// progress is where the pods are.
type progress struct {
	pods []pod
	// version is the API server's: of the last change of a pod.
	version uint64
	// open is how many pods are neither bound nor refused.
	open int
}

// pod is one of the pods to be placed.
type pod struct {
	shard    int32
	node     int32
	attempts int32
	reserved bool
	bound    bool
}

// Run plays a scenario. It is for one goroutine, and takes as much memory as the shards' pictures do.
func Run(s Scenario, costs Costs) (Result, error) {
	if err := s.Validate(); err != nil {
		return Result{}, err
	}
	w := &world{
		Scenario: s, costs: costs, ctx: context.Background(), rng: rand.New(rand.NewPCG(s.Seed, 1)),
		facts: map[uint64]events.Fact{},
	}
	if err := w.build(); err != nil {
		return Result{}, fmt.Errorf("scale: %s: %w", s, err)
	}
	w.arrive()
	for w.open > 0 && w.broken == nil {
		if w.now > mostVirtual {
			w.breaks(fmt.Errorf("%d pods are still open after %s", w.open, mostVirtual))
		}
		if !w.next() {
			w.breaks(fmt.Errorf("%d pods are open and nothing is left to do", w.open))
		}
	}
	if w.broken != nil {
		return Result{}, fmt.Errorf("scale: %s: after %s: %w", s, w.now, w.broken)
	}
	return w.result()
}

func (w *world) breaks(err error) {
	if w.broken == nil {
		w.broken = err
	}
}

func (w *world) build() error {
	w.machine = machine{clock: &w.clock, free: -1}
	if w.Cores > 0 {
		w.machine.free = w.Cores
	}
	for i := range w.Ledgers {
		w.stores = append(w.stores, newStore(w, i))
	}
	for i := range w.Logs {
		w.leaders = append(w.leaders, newLeader(w, i))
	}
	for i := range w.Binders {
		w.binders = append(w.binders, w.machine.process(fmt.Sprintf("binder-%d", i), binderWidth))
	}
	w.api = w.machine.process("API server", sinkWidth)
	if w.BindsPerSecond > 0 { // it runs on other machines, and one server models it well enough
		w.api = (&machine{clock: &w.clock, free: -1}).process("API server", 1)
	}
	w.fleet = newFleet(w.Scenario)
	owners := w.owners()
	w.pods, w.open = make([]pod, w.Pods), w.Pods
	for i := range w.pods {
		w.pods[i] = pod{shard: owners[ledger.PartitionOf(podUID(w.Seed, i))], node: -1}
	}
	return w.hire(owners)
}

// hire starts the shards.
func (w *world) hire(owners []int32) error {
	for i := range w.Shards {
		w.shards = append(w.shards, &shard{
			world: w, id: i, proc: w.machine.process(memberName(i), 1),
			facts: make([]cursor, w.Logs), ledgers: make([]cursor, w.Ledgers),
		})
	}
	if !w.Engine {
		homes := w.homes()
		for i, s := range w.shards {
			s.decider = newTwin(w, i, homes)
			s.beatLater()
		}
		return nil
	}
	start, err := w.fleet.beginning(w.stores[0].mem, owners)
	if err != nil {
		return err
	}
	w.version = start.version
	for i, s := range w.shards {
		if s.decider, err = newEngine(w, i, start); err != nil {
			return err
		}
		s.beatLater()
	}
	return nil
}

func memberName(i int) string { return fmt.Sprintf("scheduler-%02d", i) }

// owners returns the shard that holds each partition of pods.
func (w *world) owners() []int32 {
	owners := make([]int32, ledger.Partitions)
	if w.Even {
		for p := range owners {
			owners[p] = int32(p % w.Shards)
		}
		return owners
	}
	names := make([]string, w.Shards)
	for i := range names {
		names[i] = memberName(i)
	}
	for i, name := range names {
		for _, p := range membership.Desired(names, nil, name) {
			owners[p] = int32(i)
		}
	}
	return owners
}

// homes returns the shard to which each node is home: with ranges, one of its range's.
func (w *world) homes() []int16 {
	groups := make([][]string, w.groups())
	number := map[string]int16{}
	for i := range w.Shards {
		name := memberName(i)
		groups[i%len(groups)] = append(groups[i%len(groups)], name)
		number[name] = int16(i)
	}
	homes := make([]int16, w.Nodes)
	for n := range homes {
		homes[n] = number[membership.Home(groups[w.rangeOf(n, len(groups))], nodeUID(n))]
	}
	return homes
}

// rangeOf is the range of a node among so many.
func (w *world) rangeOf(node, ranges int) int { return node * ranges / w.Nodes }

// storeOf is the ledger that has a node.
func (w *world) storeOf(node int) int { return w.rangeOf(node, w.Ledgers) }

// logOf is the stream with the facts about the pods of a shard.
func (w *world) logOf(shard int) int { return shard % w.groups() % w.Logs }

// reads reports whether a shard follows a range.
func (w *world) reads(shard, part int) bool { return !w.OwnRange || shard%w.groups() == part }

// readers is how many shards follow a range.
func (w *world) readers(part int) (n int) {
	for i := range w.Shards {
		if w.reads(i, part) {
			n++
		}
	}
	return n
}

// hop is one way through the network, and being scheduled at its end.
func (w *world) hop() time.Duration { return w.jitter(delayHop) }

// jitter is a delay between three quarters and five quarters of the measured one.
func (w *world) jitter(name string) time.Duration {
	return time.Duration((0.75 + 0.5*w.rng.Float64()) * float64(w.costs.of(name, 1)))
}

// arrive has all pods created.
func (w *world) arrive() {
	for i := range w.pods {
		w.version++
		w.leaders[w.logOf(int(w.pods[i].shard))].hear(fact{pod: int32(i), node: -1, version: w.version})
	}
}

// reserved is called by a store after a transaction with these places has been carried out. The binders' watch shows
// it to them; each binds the pods of its partitions.
func (w *world) reserved(places []place) {
	for _, p := range places {
		pod := &w.pods[p.pod]
		if pod.reserved {
			w.breaks(fmt.Errorf("pod %d has a second reservation, on node %d and on node %d", p.pod, pod.node, p.node))
			return
		}
		pod.reserved, pod.node = true, p.node
	}
	w.after(w.hop(), func() {
		for _, p := range places {
			b := w.binders[int(p.pod)%len(w.binders)]
			b.do(w.costs.of(costBinder, 1), func() { w.bind(p) })
		}
	})
}

// bind sends a pod to the API server.
func (w *world) bind(p place) {
	var cost time.Duration
	switch {
	case w.BindsPerSecond > 0:
		cost = time.Duration(float64(time.Second) / w.BindsPerSecond)
	case w.Cores > 0:
		cost = w.costs.of(costSink, 1)
	}
	w.after(w.hop(), func() {
		w.api.do(cost, func() {
			w.pods[p.pod].bound = true
			w.open--
			w.tallyBind(w.now, w.Pods)
			w.version++
			told := fact{pod: p.pod, node: p.node, version: w.version}
			l := w.leaders[w.logOf(int(w.pods[p.pod].shard))]
			l.bindings = append(l.bindings, w.now)
			// A watch keeps the order, so this path takes the same time for all facts.
			w.after(w.costs.of(delayHop, 1), func() { l.hear(told) })
		})
	})
}

// refuse ends a pod that finds no place.
func (w *world) refuse(i int32) {
	w.open--
	w.refused++
	w.pods[i].attempts = mostAttempts
}

// everything lists all processes, to find the busiest.
func (w *world) everything() []*process {
	all := slices.Clone(w.binders)
	for _, s := range w.stores {
		all = append(all, s.proc)
	}
	for _, l := range w.leaders {
		all = append(all, l.queue, l.nats)
	}
	for _, s := range w.shards {
		all = append(all, s.proc)
	}
	return append(all, w.api)
}
