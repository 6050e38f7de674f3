package decide_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/events/work"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/replica"
	"github.com/berth-scheduler/berth/pkg/state/follow"
	"github.com/berth-scheduler/berth/services/scheduler/decide/step"
)

// BenchmarkPreemptors lets pods arrive at a shard in a cluster that is full of less important pods: each is
// nominated, its victim is evicted, and it is promoted. The benchmark reports only the core's time.
func BenchmarkPreemptors(b *testing.B) {
	const nodes, room = 2000, 4
	st := &scenario{world: newWorld(b, 1, 1)}
	st.s = st.shards[0]
	for n := range nodes {
		st.addNode(fmt.Sprintf("n%d", n), room)
		for i := range room {
			st.running(fmt.Sprintf("low-%d-%d", n, i), fmt.Sprintf("n%d", n))
		}
	}
	core := st.s.core
	var spent time.Duration
	run := func(in step.Input) step.Output {
		st.now = st.now.Add(time.Millisecond)
		begin := time.Now()
		out, err := checked(core.Step(in, st.now))
		spent += time.Since(begin)
		if err != nil {
			b.Fatal(err)
		}
		return out
	}
	settle := func(in step.Input) {
		for {
			out := run(in)
			for out.Commit != nil {
				c := out.Commit
				out = run(step.Input{Results: []step.Result{{ID: c.ID, Txn: st.commit(c.Txn)}}})
			}
			in = step.Input{}
			if st.s.fact < len(st.facts) {
				in.Facts = st.s.fold(follow.Batch{Facts: st.facts[st.s.fact:]})
				st.s.fact = len(st.facts)
			}
			for ; st.s.ledger < len(st.history); st.s.ledger++ {
				in.Ledger = append(in.Ledger, replica.Batch{Events: st.history[st.s.ledger]})
			}
			if len(in.Facts)+len(in.Ledger) == 0 && !out.More {
				return
			}
		}
	}
	settle(step.Input{})
	n := min(b.N, nodes*room/2)
	b.ResetTimer()
	spent = 0
	offers := st.preemptors(n)
	for len(offers) > 0 {
		batch := offers[:min(96, len(offers))]
		offers = offers[len(batch):]
		settle(step.Input{Offers: []work.OfferBatch{{Term: 1, Offers: batch}}})
	}
	held := core.HeldPlaces()
	for uid := range st.claims() {
		st.deletePod(uid)
	}
	settle(step.Input{})
	settle(step.Input{Beat: true})
	if held != n || core.HeldPlaces() != 0 {
		b.Fatalf("%d places held of %d, %d left", held, n, core.HeldPlaces())
	}
	b.ReportMetric(float64(spent.Microseconds())/float64(n), "µs/preemptor")
}

// preemptors adds more important pods, and returns their offers.
func (st *scenario) preemptors(n int) (offers []work.Offer) {
	for i := range n {
		name := fmt.Sprintf("p%d", i)
		st.addPod(name, important(10))
		st.tokens++
		uid := "pod-" + name
		offers = append(offers, work.Offer{
			Pod: events.PodRef{UID: uid, Namespace: "d", Name: name}, Partition: ledger.PartitionOf(uid),
			Token: ledger.Token(st.tokens).String(), Attempt: 1, FactSequence: uint64(len(st.facts)),
		})
	}
	return offers
}
