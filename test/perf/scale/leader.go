package scale

import (
	"fmt"
	"slices"
	"time"
)

// fact is one change of a pod: its creation (node -1), or its bind.
type fact struct {
	pod, node int32
	version   uint64
}

// leader is the queue that leads for a stream of facts, with that stream. The facts' sequences are
// their places in it.
type leader struct {
	world       *world
	number      int
	queue, nats *process
	// heard are changes that have not been read yet.
	heard   []fact
	reading bool
	facts   []fact
	// bindings are the times of the binds in the stream, in its order.
	bindings []time.Duration
	// waiting are pods to be offered, by shard; out is how many offers each has.
	waiting [][]offer
	out     []int
}

// offer is one pod for one shard.
type offer struct {
	pod     int32
	attempt int32
	// facts is how many of the stream's the shard must have applied before it decides.
	facts int
}

func newLeader(w *world, number int) *leader {
	return &leader{
		world: w, number: number, waiting: make([][]offer, w.Shards), out: make([]int, w.Shards),
		queue: w.machine.process(fmt.Sprintf("queue-%d", number), queueWidth),
		nats:  w.machine.process(fmt.Sprintf("nats-%d", number), natsWidth),
	}
}

// hear is the leader's watch of the API server.
func (l *leader) hear(f fact) {
	l.heard = append(l.heard, f)
	l.read()
}

// read takes some changes from the watch to the log; the next ones when those are written.
func (l *leader) read() {
	if l.reading || len(l.heard) == 0 {
		return
	}
	l.reading = true
	n := min(len(l.heard), batchFacts)
	batch := slices.Clone(l.heard[:n])
	l.heard = l.heard[n:]
	w := l.world
	l.queue.do(w.costs.of(costQueueEvent, n), func() {
		l.reading = false
		l.read()
		l.publish(batch)
	})
}

// publish appends facts to the log, which hands them to all who read it: the shards of its range,
// the binders, and the queue itself.
func (l *leader) publish(batch []fact) {
	w := l.world
	readers := w.readers(l.number) + len(w.binders) + 1
	cost := w.costs.of(costPublish, len(batch)) + w.costs.of(costDeliver, len(batch)*readers)
	l.nats.do(cost, func() {
		l.facts = append(l.facts, batch...)
		end := len(l.facts)
		for _, s := range w.shards {
			if w.reads(s.id, l.number) {
				w.after(w.jitter(delayLog), func() { s.told(&s.facts[l.number], end) })
			}
		}
		w.after(w.jitter(delayLog), func() { l.admit(batch, end) })
	})
}

// admit makes pods wait that the queue has seen in the log.
func (l *leader) admit(batch []fact, end int) {
	some := map[int32]bool{}
	for _, f := range batch {
		if f.node < 0 {
			s := l.world.pods[f.pod].shard
			l.waiting[s] = append(l.waiting[s], offer{pod: f.pod, attempt: 1, facts: end})
			some[s] = true
		}
	}
	for s := range int32(len(l.waiting)) {
		if some[s] {
			l.refill(s)
		}
	}
}

// refill offers a shard as many pods as it may hold.
func (l *leader) refill(s int32) {
	n := min(window-l.out[s], len(l.waiting[s]))
	if n <= 0 {
		return
	}
	offers := slices.Clone(l.waiting[s][:n])
	l.waiting[s] = l.waiting[s][n:]
	l.out[s] += n
	w := l.world
	l.queue.do(w.costs.of(costQueueOffer, n), func() {
		w.after(w.hop(), func() { w.shards[s].offered(offers) })
	})
}

// outcomes handles a shard's final decisions, which arrive through the log of decisions.
func (l *leader) outcomes(s int32, placed []int32, failed []offer, returned []offer) {
	w := l.world
	n := len(placed) + len(failed)
	readers := len(w.binders) + 1
	cost := w.costs.of(costPublish, n) + w.costs.of(costDeliver, n*readers)
	l.nats.do(cost, func() {
		w.after(w.jitter(delayLog), func() {
			l.out[s] -= len(placed) + len(failed) + len(returned)
			l.waiting[s] = append(again(returned), l.waiting[s]...)
			l.refill(s)
			for _, o := range failed {
				l.later(s, o)
			}
		})
	})
}

// again are offers that were given back untried.
func again(returned []offer) []offer {
	list := slices.Clone(returned)
	for i := range list {
		list[i].attempt++
	}
	return list
}

// later offers a pod again whose attempt failed, after a while; and not for ever.
func (l *leader) later(s int32, o offer) {
	if o.attempt++; o.attempt > mostAttempts {
		l.world.refuse(o.pod)
		return
	}
	l.world.after(backoff, func() {
		l.waiting[s] = append(l.waiting[s], o)
		l.refill(s)
	})
}
