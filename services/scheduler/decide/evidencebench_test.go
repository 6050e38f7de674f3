package decide_test

import (
	"fmt"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/events/eventlog"
	"github.com/berth-scheduler/berth/pkg/events/work"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/replica"
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/state/follow"
	"github.com/berth-scheduler/berth/services/scheduler/decide"
	"github.com/berth-scheduler/berth/services/scheduler/decide/step"
)

// podsInTurn are placed before the other variant takes its turn: some tenths of a second.
const podsInTurn = 2000

// BenchmarkEvidence measures the cost of the record of an attempt: a shard's core places pods on an in-memory
// ledger, and each decision is written in the log's encoding and read twice, as queue and binder do. Cores with and
// without records take turns, in alternating order, so that other load on the machine slows both; cost-% is the
// median over the turns. It is the processor time of the whole process, including garbage collection.
func BenchmarkEvidence(b *testing.B) {
	var ratios, took []float64
	size := map[bool]int{}
	turn := func(without bool) float64 {
		p := newPlacer(b, without)
		runtime.GC()
		spent := p.place(podsInTurn)
		size[without] = p.bytes / p.records
		return spent.Seconds()
	}
	for b.Loop() {
		first := len(ratios)%2 == 0
		spent := map[bool]float64{first: turn(first)}
		spent[!first] = turn(!first)
		ratios, took = append(ratios, spent[false]/spent[true]), append(took, spent[false])
	}
	slices.Sort(ratios)
	slices.Sort(took)
	b.ReportMetric(100*(ratios[len(ratios)/2]-1), "cost-%")
	b.ReportMetric(took[len(took)/2]/podsInTurn*1e6, "cpu-µs/pod")
	b.ReportMetric(float64(size[false]), "bytes/record")
	b.ReportMetric(float64(size[true]), "bytes-without/record")
}

// placer is a core with its surroundings.
type placer struct {
	tb             testing.TB
	st             *scenario
	step           func(step.Input, time.Time) step.Output
	bytes, records int
}

func newPlacer(tb testing.TB, without bool) *placer { return newPlacerOn(tb, without, 5000, 100) }

// newPlacerOn returns a placer with nodes that have room for some pods each.
func newPlacerOn(tb testing.TB, without bool, nodes int, room int64) *placer {
	p := &placer{tb: tb, st: &scenario{world: newWorld(tb, 1, 1)}}
	p.st.s = p.st.shards[0]
	profile, err := placement.NewProfile(placement.DefaultProfile(corev1.DefaultSchedulerName))
	if err != nil {
		tb.Fatal(err)
	}
	p.step = decide.New(decide.Config{
		Shard: p.st.s.id, Window: offersAtOnce, NoEvidence: without,
		Profiles: map[string]*placement.Profile{corev1.DefaultSchedulerName: profile},
	}).Step
	for n := range nodes {
		p.st.addNode(fmt.Sprintf("n%d", n), room)
	}
	p.settle(step.Input{
		Ledger: []replica.Batch{{Reset: true, Events: ledger.EventBatch{Revision: 1}}},
		Facts:  p.st.s.fold(follow.Batch{Reset: true}),
	})
	return p
}

// offersAtOnce is how many pods the core is offered at a time.
const offersAtOnce = 96

// place makes the core place n pods, once, and returns the processor time that it took.
func (p *placer) place(n int) time.Duration {
	offers := p.st.preemptors(n)
	p.settle(step.Input{Facts: p.st.s.fold(follow.Batch{Facts: p.st.facts})})
	begin := processorTime()
	for batch := range slices.Chunk(offers, offersAtOnce) {
		p.settle(step.Input{Offers: []work.OfferBatch{{Term: 1, Offers: batch}}})
	}
	spent := processorTime() - begin
	if p.records != n {
		p.tb.Fatalf("%d decisions about %d pods", p.records, n)
	}
	return spent
}

// settle makes the core process an input, and everything that follows from it.
func (p *placer) settle(in step.Input) {
	for {
		p.st.now = p.st.now.Add(time.Millisecond)
		out, err := checked(p.step(in, p.st.now))
		if err != nil {
			p.tb.Fatal(err)
		}
		for _, d := range out.Decisions {
			p.bytes, p.records = p.bytes+writtenAndRead(p.tb, d), p.records+1
		}
		in = step.Input{}
		if c := out.Commit; c != nil {
			in.Results = []step.Result{{ID: c.ID, Txn: p.st.commit(c.Txn)}}
		}
		for ; p.st.s.ledger < len(p.st.history); p.st.s.ledger++ {
			in.Ledger = append(in.Ledger, replica.Batch{Events: p.st.history[p.st.s.ledger]})
		}
		if len(in.Ledger)+len(in.Results) == 0 && !out.More {
			return
		}
	}
}

// writtenAndRead returns the size of a record.
func writtenAndRead(tb testing.TB, d events.Decision) int {
	m := events.EncodeDecision(d)
	for range 2 {
		if _, err := events.DecodeOutcome(eventlog.Record{Message: m, Sequence: 1}); err != nil {
			tb.Fatal(err)
		}
	}
	return m.Size()
}

func processorTime() time.Duration {
	var r syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &r) != nil {
		return 0
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}
