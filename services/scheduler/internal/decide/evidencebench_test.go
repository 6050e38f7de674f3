package decide_test

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/state/follow"
	"github.com/berth-scheduler/berth/services/scheduler/internal/decide"
)

// BenchmarkEvidence is what the record of an attempt costs: a shard's core places pods on an
// in-memory ledger, and each decision is written as the log has it and read twice, as queue and
// binder do. In processor time of the whole process, collection of garbage included.
func BenchmarkEvidence(b *testing.B) {
	for _, without := range []bool{true, false} {
		b.Run(fmt.Sprintf("record=%t", !without), func(b *testing.B) { placeMany(b, without) })
	}
}

func placeMany(b *testing.B, without bool) {
	const nodes, room, window = 5000, 100, 96
	st := &story{world: newWorld(b, 1, 1)}
	st.s = st.shards[0]
	profile, err := placement.NewProfile(placement.DefaultProfile(corev1.DefaultSchedulerName))
	if err != nil {
		b.Fatal(err)
	}
	core := decide.New(decide.Config{
		Shard: st.s.id, Window: window, NoEvidence: without,
		Profiles: map[string]*placement.Profile{corev1.DefaultSchedulerName: profile},
	})
	for n := range nodes {
		st.addNode(fmt.Sprintf("n%d", n), room)
	}
	bytes, records := 0, 0
	settle := func(in decide.Input) {
		for {
			st.now = st.now.Add(time.Millisecond)
			out, err := core.Step(in, st.now)
			if err != nil {
				b.Fatal(err)
			}
			for _, d := range out.Decisions {
				bytes, records = bytes+writtenAndRead(b, d), records+1
			}
			in = decide.Input{}
			if c := out.Commit; c != nil {
				in.Results = []decide.Result{{ID: c.ID, Txn: st.commit(c.Txn)}}
			}
			for ; st.s.ledger < len(st.history); st.s.ledger++ {
				in.Ledger = append(in.Ledger, ledger.ViewBatch{Events: st.history[st.s.ledger]})
			}
			if len(in.Ledger)+len(in.Results) == 0 && !out.More {
				return
			}
		}
	}
	settle(decide.Input{
		Ledger: []ledger.ViewBatch{{Reset: true, Events: ledger.EventBatch{Revision: 1}}},
		Facts:  []follow.Batch{{Reset: true}},
	})
	offers := st.preemptors(b.N)
	settle(decide.Input{Facts: []follow.Batch{{Facts: st.facts}}})
	b.ResetTimer()
	begin := processorTime()
	for len(offers) > 0 {
		batch := offers[:min(window, len(offers))]
		offers = offers[len(batch):]
		settle(decide.Input{Offers: []events.OfferBatch{{Term: 1, Offers: batch}}})
	}
	spent := processorTime() - begin
	if records != b.N {
		b.Fatalf("%d decisions about %d pods", records, b.N)
	}
	b.ReportMetric(float64(spent.Nanoseconds())/float64(b.N)/1000, "cpu-µs/pod")
	b.ReportMetric(float64(bytes)/float64(records), "bytes/record")
}

// writtenAndRead is the size of a record.
func writtenAndRead(b *testing.B, d events.Decision) int {
	m := events.EncodeDecision(d)
	for range 2 {
		if _, err := events.DecodeDecision(events.Record{Message: m, Sequence: 1}); err != nil {
			b.Fatal(err)
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
