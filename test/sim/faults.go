package sim

import (
	"strconv"
	"time"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/events/eventlog"
	"github.com/berth-scheduler/berth/pkg/membership"
)

// faults is the present state of fault injection.
type faults struct {
	on bool
	// perThousand is the number of faults per thousand steps. Some runs are calm, so that much is under way when a fault
	// occurs.
	perThousand int
	// slow is how likely a call stays under way when it could be carried out.
	slow int
	// leaderless is until when etcd has no leader.
	leaderless time.Duration
	// apiAway is the time until which the API server answers no call.
	apiAway time.Duration
	// changing are pods that change whenever they are about to be bound, and until when they do.
	changing map[string]time.Duration
}

// begin draws the fault rates of a run.
func (f *faults) begin(w *world) {
	draw := func(of ...int) int { return of[w.rng.IntN(len(of))] }
	f.on, f.changing = true, map[string]time.Duration{}
	f.perThousand = draw(4, 10, 30)
	f.slow = draw(0, 0, 70)
	if w.cluster.family != ordinary {
		// Other faults are rare, so that the situation of the family arises.
		f.perThousand, f.slow = draw(4, 10), draw(0, 0, 30)
		if w.cluster.fewArrivals() {
			f.perThousand = draw(1, 2, 4)
			return
		}
		late := 30
		if w.cluster.family == registered || w.cluster.family == returned {
			late = 80
		}
		for _, p := range w.processes() {
			p.base().lag(draw(0, 0, late), draw(0, 0, late))
		}
		return
	}
	for _, p := range w.processes() {
		p.base().lag(draw(0, 0, 50, 90, 97), draw(0, 0, 0, 80))
	}
}

// lag sets the percentages of looks at a stream that find nothing new.
func (p *proc) lag(facts, ledger int) { p.lagFacts, p.lagLedger = facts, ledger }

// fault reports whether a fault occurs now; percent is its probability.
func (w *world) fault(percent int, what string) bool {
	if !w.faults.on || !w.chance(percent) {
		return false
	}
	w.hit(what)
	return true
}

// stepAny is one random step of the whole system.
func (w *world) stepAny() error {
	w.advance(time.Duration(w.rng.IntN(12_000)) * time.Microsecond * w.timeFactor())
	if w.rng.IntN(1000) < w.faults.perThousand {
		return w.do(w.injectFault)
	}
	switch n := w.rng.IntN(100); {
	case n < 64:
		return w.do(w.stepProcess)
	case n < 84:
		return w.do(w.stepCall)
	case n < 91:
		return w.do(w.stepBus)
	case n < 97:
		return w.do(func() error { return w.cluster.act(w) })
	}
	w.landAppends(20)
	w.backUp()
	if w.cluster.family == storeReplaced && w.chance(20) {
		w.restartAPI()
	}
	if w.chance(20) {
		w.disruptionController()
	}
	w.cluster.kubelets(w, 20)
	w.claimController(20)
	return w.do(func() error { return nil })
}

// restartPercent is how likely a dead process is restarted when it is its turn.
const restartPercent = 2

func (w *world) anyProcess() process {
	all := w.processes()
	return all[w.rng.IntN(len(all))]
}

func (w *world) stepProcess() error {
	p := w.anyProcess()
	if !p.base().up && w.chance(restartPercent) {
		p.start()
		w.tracef("%s starts", p.base().member())
	}
	if !p.base().up || p.base().paused() {
		return nil
	}
	p.base().keep()
	if !p.base().up {
		return nil
	}
	steps := p.steps()
	return steps[w.rng.IntN(len(steps))]()
}

// injectFault draws one fault.
func (w *world) injectFault() error {
	kinds := []func() error{
		func() error { w.anyProcess().base().crash(); return nil },
		w.pause, w.cutOff, w.drain, w.etcdLeaderChange,
		w.compact, w.compactAPI, w.loseTail, w.trim, w.jump, w.jump,
		w.stall, w.stall, w.giveAndTake, w.giveAndTake, w.rewrite, w.poison, w.loseStore,
	}
	return kinds[w.rng.IntN(len(kinds))]()
}

// crash kills a process at once.
func (p *proc) crash() {
	if p.up {
		p.up = false
		p.w.hit("crash of a " + p.role)
		p.w.tracef("%s crashes", p.member())
	}
}

// pause stops a process for less, or for more, than its lease.
func (w *world) pause() error {
	p := w.anyProcess().base()
	d := time.Duration(100+w.rng.IntN(2*int(memberTTL/time.Millisecond))) * time.Millisecond
	p.stopped = w.now + d
	if d > memberTTL {
		w.hit("pause longer than the lease of a " + p.role)
	}
	w.tracef("%s pauses for %s", p.member(), d)
	return nil
}

// stall leaves a process without news, and with slow calls, while its lease is valid; another process of its kind may
// come in that time and take over the partitions that the first still believes to hold.
func (w *world) stall() error {
	w.stallOne(w.anyProcess().base())
	return nil
}

func (w *world) stallOne(p *proc) {
	p.stall(200+w.rng.IntN(4000), w.rng.IntN(2000))
	if w.chance(50) {
		return
	}
	for _, other := range w.processes() {
		if b := other.base(); b != p && b.role == p.role {
			b.crash()
			other.start()
			w.tracef("%s starts", b.member())
		}
	}
}

// stall lets no call of a process through for slow ms, and delivers nothing to it for blind ms more.
func (p *proc) stall(slow, blind int) {
	p.slow = p.w.now + time.Duration(slow)*time.Millisecond
	p.blind = p.slow + time.Duration(blind)*time.Millisecond
	p.w.hit("streams of a " + p.role + " stalled")
	p.w.tracef("%s gets nothing through until %s, and hears nothing until %s", p.member(), p.slow, p.blind)
}

// stallAfterRefusal is the worst sequence after a refused bind: the binder stalls right there, before it has read the
// pod again; another binder takes over its partition, and cannot bind the pod either, because the pod changes all the
// time or its node is no longer eligible. A complete fence happens before the first binder continues.
func (w *world) stallAfterRefusal(p *proc, podUID, nodeUID string) {
	percent := 20
	if w.cluster.full() || w.cluster.movesOnly() {
		percent = 2 // other things are to happen here
	}
	if !w.fault(percent, "binder stalled after a refused bind") {
		return
	}
	if w.cluster.family == refreshed {
		p.stall(5000+w.rng.IntN(7000), 1000+w.rng.IntN(2000))
		w.replace(p, podUID)
		w.cluster.close(w)
		return
	}
	p.stall(1500+w.rng.IntN(4000), 1000+w.rng.IntN(2000))
	w.replace(p, podUID)
	if w.chance(60) {
		w.faults.changing[podUID] = p.slow
		return
	}
	if n, ok := w.api.node(nodeUID); ok && !w.cluster.strict {
		n = n.DeepCopy()
		n.Spec.Unschedulable = true
		w.api.put(events.KindNode, n)
	}
}

// replace rolls the other binders until p no longer has the partition of a pod: the names of the live binders decide
// which of them has it.
func (w *world) replace(p *proc, podUID string) {
	partition := strconv.Itoa(int(membership.BinderPartition(podUID)))
	for _, b := range w.binders {
		for tries := 0; &b.proc != p && tries < 8; tries++ {
			b.leave()
			b.start()
			w.tracef("%s starts", b.member())
			if membership.Home([]string{p.member(), b.member()}, partition) != p.member() {
				return
			}
		}
	}
}

// cutOff separates a process from one of the outside worlds.
func (w *world) cutOff() error {
	p := w.anyProcess().base()
	to := dependency(w.rng.IntN(int(dependencies)))
	p.cut[to] = w.now + time.Duration(200+w.rng.IntN(6000))*time.Millisecond
	w.hit("cut off from " + to.String())
	w.tracef("%s is cut off from %s", p.member(), to)
	return nil
}

// drain is a rolling restart.
func (w *world) drain() error {
	p := w.anyProcess()
	if !p.base().up || p.base().paused() || p.base().draining {
		return nil
	}
	w.tracef("%s drains", p.base().member())
	return p.drain()
}

// etcdLeaderChange: no transaction is answered for a while, and leases start again.
func (w *world) etcdLeaderChange() error {
	w.hit("etcd leader change")
	w.faults.leaderless = w.now + time.Duration(300+w.rng.IntN(1500))*time.Millisecond
	w.leases.promote(w.faults.leaderless)
	return nil
}

// compact drops old revisions of the ledger, even if readers still need them.
func (w *world) compact() error {
	last := w.store.Revision()
	return ignored(w.store.Compact(last - w.rng.Int64N(min(last, 40))))
}

// ignored: the store may refuse to compact revisions that are compacted already.
func ignored(error) error { return nil }

func (w *world) compactAPI() error {
	w.api.compact(w.api.rv - uint64(w.rng.IntN(int(min(w.api.rv, 20)))))
	return nil
}

// loseTail drops facts that were acknowledged, as a power loss does, even those that snapshots cover. No process is
// notified: only the product's own detection can notice.
func (w *world) loseTail() error {
	last, err := w.log.Last(w.ctx, eventlog.Facts)
	if err != nil || last < 2 || w.unseen {
		return err // the facts show the loss of Kubernetes
	}
	after := last - 1 - uint64(w.rng.IntN(int(min(last-1, 8))))
	w.log.LoseTail(eventlog.Facts, after)
	w.lostTail = true
	w.hit("lost tail of the facts")
	w.tracef("the log loses facts %d to %d", after+1, last)
	return nil
}

// trim is retention: it drops old facts that a snapshot covers.
func (w *world) trim() error {
	sequence, _, ok, err := w.log.Latest(w.ctx, eventlog.Facts)
	if err != nil || !ok {
		return err
	}
	w.log.Trim(eventlog.Facts, sequence)
	w.tracef("the log is cut at fact %d", sequence)
	w.hit("old facts trimmed")
	return nil
}

// jump lets time pass without anything happening.
func (w *world) jump() error {
	w.advance(time.Duration(w.rng.IntN(1500)) * time.Millisecond)
	return nil
}

// endFaults ends all faults.
func (w *world) endFaults() {
	w.faults = faults{}
	w.cluster.reopen(w)
	w.cluster.settled = true
	for len(w.cluster.away) > 1 {
		w.cluster.comeBack(w, 0) // the last one stays away
	}
	for _, p := range w.processes() {
		b := p.base()
		b.lag(0, 0)
		b.interruptions = interruptions{}
		if !b.up {
			p.start()
		}
	}
	w.tracef("the faults end")
}
