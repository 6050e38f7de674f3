package scale

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/berth-scheduler/berth/pkg/ledger"
)

const (
	// twinBatch, twinLosses and twinOthers are batchPods, MaxLosses and maxAlternatives of the core:
	// services/scheduler/decide.
	twinBatch, twinLosses, twinOthers = 24, 8, 4
	// mostScore is the score that a node cannot exceed: two rules, each at most 100.
	mostScore = 200
)

// twin decides like the core for pods of one template without rules, with a few bytes a node: it chooses among the
// best nodes in its view, has one transaction in flight for each ledger, decides the next batch on top of it, and
// handles a lost race as the core does.
type twin struct {
	world *world
	id    int
	rng   *rand.Rand
	// count is how many pods a node has in this view, with those staged here; staged are only the latter. seen is the
	// revision of the node's document in the view.
	count, staged []uint16
	seen          []int32
	// best are the nodes to choose from, by zone (one of all for plain pods), home nodes first, and score. A node is
	// listed under its score, and may be listed under outdated scores, too.
	best [][2][][]int32
	// homes is the shard to which each node is home.
	homes []int16
	// written are the changes of the last transaction in each ledger to documents.
	written []map[int32]move
	flights []*twinFlight
	number  uint64
	pending []*try
	next    []*try
	// told is how far each ledger's watch has been delivered.
	told []int64
	// returns are offers to be given back with the next heartbeat, as the core does.
	returns []offer
}

type move struct{ from, to int32 }

type twinFlight struct {
	id    uint64
	tries []*try
}

// try is one offer being worked on.
type try struct {
	offer
	// basis is the revision of the node's document that it was decided on, and in flight the revision that the
	// transaction compares.
	node, basis int32
	losses      int
	others      []move // from is the node, to the revision of its document
	// wait is the revision that the watch has to reach before it is tried again.
	wait int64
}

func newTwin(w *world, id int, homes []int16) *twin {
	t := &twin{
		world: w, id: id, homes: homes, rng: rand.New(rand.NewPCG(w.Seed, uint64(id)+2)),
		count: make([]uint16, w.Nodes), staged: make([]uint16, w.Nodes), seen: make([]int32, w.Nodes),
		written: make([]map[int32]move, w.Ledgers), flights: make([]*twinFlight, w.Ledgers), told: make([]int64, w.Ledgers),
	}
	kinds := zones
	if w.Workload == Plain {
		kinds = 1
	}
	t.best = make([][2][][]int32, kinds)
	for i := range t.best {
		t.best[i] = [2][][]int32{make([][]int32, mostScore+1), make([][]int32, mostScore+1)}
	}
	for n := range int32(w.Nodes) {
		t.file(n)
	}
	return t
}

// file puts a node under its score, if it is one to choose from and has room.
func (t *twin) file(n int32) {
	away := 0
	if t.homes[n] != int16(t.id) {
		away = 1
	}
	if away == 1 && t.world.Workload == Plain {
		return
	}
	if score, fits := t.score(n); fits {
		shelf := t.best[t.shelf(n)][away]
		shelf[score] = append(shelf[score], n)
	}
}

func (t *twin) shelf(n int32) int { return int(n) % len(t.best) }

// score is the score that NodeResourcesFit (least allocated) and NodeResourcesBalancedAllocation give one more pod on
// a node; fits reports whether it has capacity for one. Source: upstream's plugins/noderesources, as in
// pkg/placement.
func (t *twin) score(n int32) (score int, fits bool) {
	level, after := t.world.standing(int(n)), int64(t.count[n])+1
	cpu := int64(level*nodeCPU) + after*podCPU
	memory := int64(level*nodeMemory) + after*podMemory
	pods := after
	if t.world.Full > 0 {
		pods++
	}
	if cpu > nodeCPU || memory > nodeMemory || pods > podsPerNode {
		return 0, false
	}
	least := ((nodeCPU-cpu)*100/nodeCPU + (nodeMemory-memory)*100/nodeMemory) / 2
	gained := balance(cpu, memory) - balance(cpu-podCPU, memory-podMemory)
	return int(least) + 50 + (50+gained)/2, true
}

// balance is how evenly a node's processors and memory are used, at most 100.
func balance(cpu, memory int64) int {
	apart := math.Abs(float64(cpu)/nodeCPU-float64(memory)/nodeMemory) / 2
	return int((1 - apart) * 100)
}

// set changes a node's number of pods in the view.
func (t *twin) set(n int32, count uint16) {
	if t.count[n] != count {
		t.count[n] = count
		t.file(n)
	}
}

// step implements decider.
func (t *twin) step(in input, _ time.Duration) (output, error) {
	var out output
	for store, list := range in.ledgers {
		if err := t.hear(store, list); err != nil {
			return out, err
		}
	}
	for _, a := range in.answers {
		if err := t.land(a, &out); err != nil {
			return out, err
		}
	}
	for _, o := range in.offers {
		t.pending = append(t.pending, &try{offer: o, node: -1})
	}
	t.decide(&out)
	for store := range t.flights {
		t.submit(store, &out)
	}
	if in.beat {
		out.returned, t.returns = t.returns, nil
	}
	out.more = len(t.next) < twinBatch && slices.ContainsFunc(t.pending, t.ready)
	return out, nil
}

// hear applies revisions that a ledger's watch delivers.
func (t *twin) hear(store int, list []revision) error {
	for _, r := range list {
		t.told[store] = r.events.Revision
		for _, e := range r.events.Events {
			if err := t.learn(e.KV); err != nil {
				return err
			}
		}
	}
	return nil
}

// learn applies a document to the view.
func (t *twin) learn(kv ledger.KV) error {
	n, count, err := readDoc(kv)
	if err != nil {
		return err
	}
	if int32(kv.ModRevision) > t.seen[n] {
		t.seen[n] = int32(kv.ModRevision)
		t.set(n, count+t.staged[n])
	}
	return nil
}

// keyDoc and readDoc are a twin's document: how many pods are on the node.
func keyDoc(n int32) string { return ledger.KeyNode(strconv.Itoa(int(n))) }

func readDoc(kv ledger.KV) (n int32, count uint16, err error) {
	number, err := strconv.ParseInt(strings.TrimPrefix(kv.Key, ledger.PrefixNode), 10, 32)
	if err != nil || len(kv.Value) != 2 {
		return 0, 0, fmt.Errorf("document %s of %d bytes: want a node's number and 2 bytes: %w", kv.Key, len(kv.Value), err)
	}
	return int32(number), binary.BigEndian.Uint16(kv.Value), nil
}

// ready reports whether the watch has delivered the change to which a try has lost.
func (t *twin) ready(a *try) bool {
	return a.node < 0 || a.wait <= t.told[t.world.storeOf(int(a.node))]
}

// decide finds nodes until the next batch is full.
func (t *twin) decide(out *output) {
	var later []*try
	for i, a := range t.pending {
		if len(t.next) >= twinBatch || out.tried >= twinBatch {
			later = append(later, t.pending[i:]...)
			break
		}
		if !t.ready(a) {
			later = append(later, a)
			continue
		}
		out.tried++
		if !t.place(a) {
			out.failed = append(out.failed, a.offer)
		}
	}
	t.pending = later
}

// place chooses a node, and a few others for the case that it is lost.
func (t *twin) place(a *try) bool {
	shelf := 0
	if t.world.Workload == Leaning {
		shelf = int(a.pod) % zones
	}
	n, ok := t.pick(shelf, nil)
	if !ok {
		return false
	}
	taken := []int32{n}
	a.others = a.others[:0]
	for len(a.others) < twinOthers {
		other, ok := t.pick(shelf, taken)
		if !ok {
			break
		}
		taken = append(taken, other)
		a.others = append(a.others, move{from: other, to: t.seen[other]})
	}
	t.stage(a, n, t.seen[n])
	return true
}

// pick draws one of the best nodes that are not taken, and removes outdated listings on the way.
func (t *twin) pick(shelf int, taken []int32) (int32, bool) {
	for score := mostScore; score >= 0; score-- {
		for away := range t.best[shelf] {
			if n, ok := t.draw(&t.best[shelf][away][score], score, taken); ok {
				return n, true
			}
		}
	}
	return 0, false
}

// draw draws one node of a score.
func (t *twin) draw(list *[]int32, score int, taken []int32) (int32, bool) {
	const patience = 4 // draws of taken ones before the next list is looked at
	for missed := 0; len(*list) > 0 && missed < patience; {
		i := t.rng.IntN(len(*list))
		n := (*list)[i]
		if now, fits := t.score(n); !fits || now != score {
			(*list)[i] = (*list)[len(*list)-1]
			*list = (*list)[:len(*list)-1]
			continue
		}
		if slices.Contains(taken, n) {
			missed++
			continue
		}
		return n, true
	}
	return 0, false
}

func (t *twin) stage(a *try, n, basis int32) {
	a.node, a.basis = n, basis
	t.staged[n]++
	t.set(n, t.count[n]+1)
	t.next = append(t.next, a)
}

func (t *twin) unstage(a *try) {
	t.staged[a.node]--
	t.set(a.node, t.count[a.node]-1)
}

// submit sends the staged pods for a ledger if nothing is in flight there. Those whose document has changed since the
// decision, other than by this shard's own last transaction, are decided again.
func (t *twin) submit(store int, out *output) {
	if t.flights[store] != nil {
		return
	}
	f := &twinFlight{}
	var rest []*try
	for _, a := range t.next {
		switch {
		case t.world.storeOf(int(a.node)) != store:
			rest = append(rest, a)
		case a.basis != t.seen[a.node] && t.written[store][a.node] != (move{a.basis, t.seen[a.node]}):
			t.unstage(a)
			a.wait = 0
			t.pending = append([]*try{a}, t.pending...)
		default:
			a.basis = t.seen[a.node]
			f.tries = append(f.tries, a)
		}
	}
	t.next = rest
	if len(f.tries) == 0 {
		return
	}
	t.number++
	f.id, t.flights[store] = t.number, f
	out.commits = append(out.commits, decided{id: f.id, commit: t.commit(store, f)})
}

// commit compares the documents of all nodes in a flight, and writes their new contents.
func (t *twin) commit(store int, f *twinFlight) commit {
	c := commit{store: store}
	more := map[int32]uint16{}
	var order []int32
	for _, a := range f.tries {
		if more[a.node] == 0 {
			order = append(order, a.node)
		}
		more[a.node]++
		c.places = append(c.places, place{a.pod, a.node})
	}
	for _, n := range order {
		key := keyDoc(n)
		count := t.count[n] - t.staged[n] + more[n]
		c.txn.Compares = append(c.txn.Compares,
			ledger.Compare{Key: key, Target: ledger.ModRevision, Revision: int64(t.seen[n])})
		c.txn.Puts = append(c.txn.Puts, ledger.Put{Key: key, Value: binary.BigEndian.AppendUint16(nil, count)})
	}
	return c
}

// land handles the answer to a flight.
func (t *twin) land(a answer, out *output) error {
	f := t.flights[a.store]
	if f == nil || f.id != a.id {
		return fmt.Errorf("twin %d: answer %d belongs to nothing in flight", t.id, a.id)
	}
	t.flights[a.store] = nil
	if a.result.Succeeded {
		t.landed(a.store, f, int32(a.result.Revision), out)
		return nil
	}
	moved := map[int32]int64{}
	for _, kv := range a.result.Current {
		n, _, err := readDoc(kv)
		if err != nil {
			return err
		}
		moved[n] = kv.ModRevision
		if err := t.learn(kv); err != nil {
			return err
		}
	}
	t.lost(f, moved)
	return nil
}

// landed applies the staged pods to the view. Where the watch was faster than the answer, the view contains them
// already, and they must not count twice.
func (t *twin) landed(store int, f *twinFlight, revision int32, out *output) {
	t.written[store] = map[int32]move{}
	for _, a := range f.tries {
		t.written[store][a.node] = move{a.basis, revision}
		t.staged[a.node]--
		if t.seen[a.node] >= revision {
			t.set(a.node, t.count[a.node]-1)
		}
		out.placed = append(out.placed, a.pod)
	}
	for _, a := range f.tries {
		t.seen[a.node] = max(t.seen[a.node], revision)
	}
}

// lost sorts the tries of a refused flight. A try that has lost its node moves to the next-best one if nothing has
// changed there, or is decided again. The others are sent again at once, before the staged ones.
func (t *twin) lost(f *twinFlight, moved map[int32]int64) {
	var winners []*try
	staged := t.next
	t.next = nil
	for _, a := range f.tries {
		if int64(a.basis) == moved[a.node] {
			winners = append(winners, a)
			continue
		}
		t.unstage(a)
		a.losses++
		if a.losses >= twinLosses {
			t.returns = append(t.returns, a.offer)
			continue
		}
		if !t.nextBest(a) {
			a.wait = moved[a.node]
			t.pending = append([]*try{a}, t.pending...)
		}
	}
	t.next = append(winners, append(t.next, staged...)...)
}

func (t *twin) nextBest(a *try) bool {
	for len(a.others) > 0 {
		o := a.others[0]
		a.others = a.others[1:]
		if _, fits := t.score(o.from); fits && t.seen[o.from] == o.to && t.staged[o.from] == 0 {
			t.stage(a, o.from, o.to)
			return true
		}
	}
	return false
}
