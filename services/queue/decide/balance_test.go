package decide

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/berth-scheduler/berth/pkg/events/work"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/seedtest"
	"github.com/berth-scheduler/berth/services/queue/decide/balance"
)

var balanceSeed = flag.Uint64("balance-seed", 0, "replay the balance walk with this seed; 0: TEST_SEED")

// shardFleet is a queue and shards that work at their own pace, take over partitions as requested, and place every pod
// they are offered.
type shardFleet struct {
	*harness
	*rand.Rand
	shards []*worker
	made   int
	wanted [ledger.Partitions]string
	// released holds the partitions that are being handed over: released and not yet taken.
	released map[int32]string
	moves    []balance.Move
	placed   map[string]int
}

// worker is one shard. If it works, it answers pace of its offers per second.
type worker struct {
	id     string
	pace   int
	hangs  bool
	inHand []work.Offer
	placed int
	asked  time.Time
}

const fleetWindow = 4

func newShardFleet(t failer, seed uint64, paces ...int) *shardFleet {
	p := &shardFleet{
		harness: newHarness(t), Rand: rand.New(rand.NewPCG(seed, 1)),
		released: map[int32]string{}, placed: map[string]int{},
	}
	p.after = p.carry
	p.step(Decided{CaughtUp: true})
	p.step(Lead{Term: 1})
	var ids []string
	for i, pace := range paces {
		w := &worker{id: fmt.Sprintf("s%d", i), pace: pace}
		p.shards = append(p.shards, w)
		ids = append(ids, w.id)
	}
	p.revision++
	for part := range p.owners {
		p.owners[part] = p.home(int32(part))
	}
	owners := p.owners
	p.step(LedgerMoved{Reset: true, Revision: p.revision, Owners: &owners, Requested: &p.wanted, Shards: ids})
	return p
}

// home returns the shard to which the hash assigns a partition.
func (p *shardFleet) home(part int32) string { return p.shards[int(part)%len(p.shards)].id }

// carry delivers offers to the shards and moves to the ledger.
func (p *shardFleet) carry(moves []balance.Move) {
	p.t.Helper()
	for _, o := range p.last {
		w := p.worker(p.harness.shards[o.Token])
		// A pod that the shard already works on continues under the new token.
		w.inHand = slices.DeleteFunc(w.inHand, func(known work.Offer) bool { return known.Pod == o.Pod })
		w.inHand = append(w.inHand, o)
	}
	if len(moves) == 0 {
		return
	}
	p.check(moves)
	p.moves = append(p.moves, moves...)
	for _, m := range moves {
		p.wanted[m.Partition] = m.To
	}
	wanted := p.wanted
	p.revision++
	p.step(LedgerMoved{Revision: p.revision, Requested: &wanted})
}

// check verifies the documented properties of every move.
func (p *shardFleet) check(moves []balance.Move) {
	p.t.Helper()
	if len(moves) > balance.MaxMoves {
		p.t.Fatalf("%d moves at once", len(moves))
	}
	for _, m := range moves {
		switch {
		case m.From != p.owners[m.Partition]:
			p.t.Fatalf("%+v: held by %q", m, p.owners[m.Partition])
		case m.To == "" && p.wanted[m.Partition] == "":
			p.t.Fatalf("%+v takes back what was not wanted", m)
		case m.To != "" && (m.To == m.From || m.Pods == 0 || p.now.Sub(p.worker(m.To).asked) > lease/2):
			p.t.Fatalf("%+v helps nobody", m)
		}
	}
}

func (p *shardFleet) worker(id string) *worker {
	return p.shards[slices.IndexFunc(p.shards, func(w *worker) bool { return w.id == id })]
}

// pod creates a pod in one of a shard's partitions by hash.
func (p *shardFleet) pod(shard string) {
	p.t.Helper()
	for {
		p.made++
		name := fmt.Sprintf("p%06d", p.made)
		if p.home(ledger.PartitionOf(name)) == shard {
			p.add(name, 0)
			return
		}
	}
}

// second advances the time by one second: partitions change hands, shards work and request more.
func (p *shardFleet) second() {
	p.t.Helper()
	p.now = p.now.Add(time.Second)
	p.handOver()
	for _, w := range p.shards {
		if w.hangs {
			continue
		}
		p.work(w)
	}
	p.step(Tick{})
}

// handOver makes holders release partitions that are requested elsewhere, and the others take them a second later.
func (p *shardFleet) handOver() {
	p.t.Helper()
	owners := p.owners
	for part, to := range p.released {
		owners[part] = to
	}
	clear(p.released)
	for part, wanted := range p.wanted {
		to := wanted
		if to == "" {
			to = p.home(int32(part))
		}
		if owners[part] != to {
			owners[part] = ""
			p.released[int32(part)] = to
		}
	}
	if owners == p.owners {
		return
	}
	p.owners = owners
	// A shard drops the offers of partitions that it no longer owns.
	for _, w := range p.shards {
		w.inHand = slices.DeleteFunc(w.inHand, func(o work.Offer) bool { return owners[o.Partition] != w.id })
	}
	p.revision++
	p.step(LedgerMoved{Revision: p.revision, Owners: &owners})
}

// work answers offers, one by one, and requests more.
func (p *shardFleet) work(w *worker) {
	p.t.Helper()
	ask := func() {
		w.asked = p.now
		r := work.Request{Shard: w.id, Window: fleetWindow}
		for _, o := range w.inHand {
			r.Renew = append(r.Renew, o.Token)
		}
		p.step(WorkRequested{Request: r})
	}
	ask()
	for range w.pace {
		if len(w.inHand) == 0 {
			return
		}
		o := w.inHand[0]
		w.inHand = w.inHand[1:]
		w.placed++
		p.placed[o.Pod.UID]++
		p.bind(o.Pod.Name)
		ask()
	}
}

// settled checks that every pod was placed exactly once.
func (p *shardFleet) settled() {
	p.t.Helper()
	for uid, pod := range p.pods {
		if pod.NodeName == "" || p.placed[uid] != 1 {
			_, why := p.core.Where(uid)
			p.t.Fatalf("pod %s was placed %d times (%s)\n%s", uid, p.placed[uid], why, p.core.Describe())
		}
	}
}

// drain runs until nothing is pending, and returns how long that took.
func (p *shardFleet) drain(most time.Duration) time.Duration {
	p.t.Helper()
	begin := p.now
	for p.core.backlog.pools.ActiveCount+p.core.backlog.pools.Offered.Len() > 0 {
		if p.second(); p.now.Sub(begin) > most {
			p.t.Fatalf("pods are left after %s\n%s", most, p.core.Describe())
		}
	}
	p.settled()
	return p.now.Sub(begin)
}

func TestAnIdleShardGetsWork(t *testing.T) {
	const pods, pace = 600, 4
	p := newShardFleet(t, 1, pace, pace)
	for range pods {
		p.pod("s0")
	}
	took := p.drain(pods / pace * time.Second)
	t.Logf("%d pods of one shard's partitions took %s: %d and %d placed, %d moves", pods, took,
		p.shards[0].placed, p.shards[1].placed, len(p.moves))
	if alone := pods / pace * time.Second; took > alone*7/10 {
		t.Errorf("took %s, one shard alone takes %s", took, alone)
	}
	if p.shards[1].placed < pods*3/10 {
		t.Errorf("the idle shard has placed %d of %d pods", p.shards[1].placed, pods)
	}
	for _, m := range p.moves {
		if m.From != "s0" || m.To != "s1" || m.Reason != balance.ReasonBacklog {
			t.Errorf("move %+v", m)
		}
	}
	if text := p.core.Describe(); !strings.Contains(text, "wanted with s1: partitions ") {
		t.Errorf("nothing tells of what is wanted:\n%s", text)
	}

	// Nothing happens until it has been calm for long; then the hash decides about everything again.
	moved := len(p.moves)
	for range int(balance.EvenAfter/time.Second) - 60 {
		p.second()
	}
	if len(p.moves) != moved {
		t.Errorf("moved in calm: %+v", p.moves[moved:])
	}
	for range 600 {
		p.second()
	}
	if p.wanted != [ledger.Partitions]string{} {
		t.Errorf("still wanted: %v", p.wanted)
	}
	for part, owner := range p.owners {
		if owner != p.home(int32(part)) {
			t.Errorf("partition %d is held by %s", part, owner)
		}
	}
}

// A single partition with everything in it would only carry the backlog around.
func TestOneFullPartitionStays(t *testing.T) {
	p := newShardFleet(t, 1, 2, 2)
	for n := 0; n < 200; {
		if p.made++; ledger.PartitionOf(fmt.Sprintf("p%06d", p.made)) == 6 {
			p.add(fmt.Sprintf("p%06d", p.made), 0)
			n++
		}
	}
	p.drain(5 * time.Minute)
	if len(p.moves) != 0 {
		t.Errorf("moved %+v", p.moves)
	}
}

func TestAHangingShardLosesItsPods(t *testing.T) {
	p := newShardFleet(t, 1, 2, 2, 2)
	p.second()
	p.shards[2].hangs = true
	for range 30 {
		p.pod("s2")
	}
	p.drain(2 * time.Minute)
	reasons := map[balance.Reason]int{}
	for _, m := range p.moves {
		if reasons[m.Reason]++; m.From != "s2" {
			t.Errorf("move %+v", m)
		}
	}
	if reasons[balance.ReasonSilent] == 0 {
		t.Errorf("moved for %v, want the rest because the shard is silent", reasons)
	}
	if p.shards[0].placed == 0 || p.shards[1].placed == 0 {
		t.Errorf("placed %d and %d: one was left out", p.shards[0].placed, p.shards[1].placed)
	}
}

func TestWhoIsGoneIsNotWanted(t *testing.T) {
	p := newShardFleet(t, 1, 1, 1)
	p.wanted[5], p.wanted[9] = "s7", "s0"
	wanted := p.wanted
	p.step(LedgerMoved{Revision: p.revision, Requested: &wanted})
	p.step(LedgerMoved{Revision: p.revision, Shards: []string{"s0", "s1"}})
	for range int(balance.GoneAfter/time.Second) - 1 {
		p.now = p.now.Add(time.Second)
		p.step(Tick{})
	}
	if len(p.moves) != 0 {
		t.Fatalf("moved %+v before a minute was over", p.moves)
	}
	for range 5 {
		p.now = p.now.Add(time.Second)
		p.step(Tick{})
	}
	if len(p.moves) != 1 || p.moves[0].Partition != 5 || p.moves[0].To != "" || p.moves[0].Reason != balance.ReasonGone {
		t.Errorf("moves %+v, want partition 5 free again", p.moves)
	}
	if p.wanted[9] != "s0" {
		t.Error("what is wanted with a live shard was taken back")
	}
}

// TestBalanceWalk checks that over hours of random load nothing oscillates. Load that every shard can bear moves
// nothing, however random; lasting load that one shard cannot bear moves partitions for a while and then no more;
// shards that hang occasionally cost no pod.
func TestBalanceWalk(t *testing.T) {
	walks := uint64(1)
	if *balanceSeed == 0 {
		walks = 2
	}
	first := seedtest.First(t, *balanceSeed)
	t.Log("one walk: go test ./decide -run TestBalanceWalk -args -balance-seed=N")
	for seed := first; seed < first+walks; seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			checkBearableLoad(t, seed)
			checkLastingLoad(t, seed)
			checkHangingShard(t, seed)
		})
	}
}

// arrive creates pods at random, as many as mean on average.
func (p *shardFleet) arrive(shard string, mean float64) {
	for range 4 * int(mean+1) {
		if p.Float64() < mean/float64(4*int(mean+1)) {
			p.pod(shard)
		}
	}
}

func checkBearableLoad(t *testing.T, seed uint64) {
	p := newShardFleet(t, seed, 5, 5, 5)
	for range 30 { // half a minute each of some load up to three fifths
		loads := []float64{3 * p.Float64(), 3 * p.Float64(), 3 * p.Float64()}
		for range 30 {
			for i, mean := range loads {
				p.arrive(p.shards[i].id, mean)
			}
			p.second()
		}
		p.dropBound()
	}
	if len(p.moves) > 0 {
		t.Errorf("moved %+v", p.moves)
	}
	p.drain(time.Minute)
}

func checkLastingLoad(t *testing.T, seed uint64) {
	p := newShardFleet(t, seed, 5, 5, 5)
	early, perPartition := 0, map[int32]int{}
	for i := range 1200 {
		p.arrive("s0", 8)
		p.arrive("s1", 1)
		p.arrive("s2", 1)
		p.second()
		if i%30 == 0 {
			p.dropBound()
		}
		if i == 800 {
			early = len(p.moves)
		}
	}
	for _, m := range p.moves {
		perPartition[m.Partition]++
	}
	most := 0
	for _, n := range perPartition {
		most = max(most, n)
	}
	late := len(p.moves) - early
	t.Logf("%d moves of %d partitions, at most %d of the same, %d in the last third",
		len(p.moves), len(perPartition), most, late)
	if early == 0 || late > early/2 || most > 2 {
		t.Errorf("%d moves and then %d, one partition moved %d times", early, late, most)
	}
	p.drain(5 * time.Minute)
}

func checkHangingShard(t *testing.T, seed uint64) {
	const episodes = 20
	p := newShardFleet(t, seed, 5, 5, 5)
	for range episodes {
		for _, w := range p.shards {
			w.hangs = p.IntN(4) == 0
		}
		p.shards[p.IntN(3)].hangs = false
		mean := []float64{6 * p.Float64(), 4 * p.Float64(), 4 * p.Float64()}
		for range 10 + p.IntN(40) {
			for i, w := range p.shards {
				p.arrive(w.id, mean[i])
			}
			p.second()
		}
		p.dropBound()
	}
	for _, w := range p.shards {
		w.hangs = false
	}
	p.drain(20 * time.Minute)
	t.Logf("%d moves while shards hung and came back %d times", len(p.moves), episodes)
	if len(p.moves) > episodes*balance.MaxMoves {
		t.Errorf("%d moves for %d changes", len(p.moves), episodes)
	}
}

// dropBound drops bound pods from the checks, because there are many.
func (p *shardFleet) dropBound() {
	for uid, pod := range p.pods {
		if pod.NodeName != "" {
			if p.placed[uid] != 1 {
				p.t.Fatalf("pod %s was placed %d times", uid, p.placed[uid])
			}
			delete(p.pods, uid)
		}
	}
}
