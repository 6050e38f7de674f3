package plan

import (
	"runtime"
	"runtime/metrics"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/descheduling"
	"github.com/berth-scheduler/berth/pkg/descheduling/deschedulingtest"
	"github.com/berth-scheduler/berth/pkg/descheduling/policy"
	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/pkg/state/statetest"
)

const (
	benchNodes = 5000
	benchPods  = 150_000
)

// BenchmarkCycle measures a cycle of all ten strategies over 5,000 nodes and 150,000 pods, nearly all of which they
// pick: as Berth plans it, and without landing places and the other things that upstream does not have. It reports
// processor time, and the peak memory of the process.
func BenchmarkCycle(b *testing.B) {
	cluster := largeCluster(b)
	runtime.GC()
	profile, err := placement.NewProfile(placement.DefaultProfile(corev1.DefaultSchedulerName))
	if err != nil {
		b.Fatal(err)
	}
	plan := func(most int) func(b *testing.B) {
		return func(b *testing.B) {
			p := largePolicy(b, "")
			p.Berth.MaxPerCycle = most
			measure(b, func() (descheduling.Outcome, int) {
				made := Make(Input{
					Cluster: cluster, Policy: p, Now: deschedulingtest.Began,
					Placement: func(string) *placement.Profile { return profile },
				})
				return made.Outcome, len(made.Moves)
			})
		}
	}
	b.Run("plan", plan(policy.DefaultMaxPerCycle))
	b.Run("uncapped", plan(0))
	b.Run("strategies", func(b *testing.B) {
		p := largePolicy(b, "nodeFit: false")
		measure(b, func() (descheduling.Outcome, int) {
			accepted, out := descheduling.Collect(descheduling.Input{
				Cluster: cluster, Policy: p, Now: deschedulingtest.Began, Upstream: true,
			})
			return out, len(accepted)
		})
	})
}

func measure(b *testing.B, cycle func() (descheduling.Outcome, int)) {
	var took time.Duration
	for b.Loop() {
		began := processorTime(b)
		out, moves := cycle()
		took += processorTime(b) - began
		if moves == 0 || len(out.Failed) > 0 {
			b.Fatalf("%d moves, failed %v", moves, out.Failed)
		}
		b.ReportMetric(float64(moves), "evictions")
		b.ReportMetric(float64(out.Picked), "picked")
	}
	b.ReportMetric(took.Seconds()/float64(b.N), "cpu-s/op")
	held := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(held)
	b.ReportMetric(float64(held[0].Value.Uint64()-held[1].Value.Uint64())/(1<<20), "MB-held")
}

func processorTime(b *testing.B) time.Duration {
	var use syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &use); err != nil {
		b.Fatal(err)
	}
	return time.Duration(use.Utime.Nano() + use.Stime.Nano())
}

func largePolicy(b *testing.B, evictor string) *policy.Policy {
	b.Helper()
	p, err := policy.Parse("large", []byte(deschedulingtest.LargePolicy(evictor, deschedulingtest.Strategies...)))
	if err != nil {
		b.Fatal(err)
	}
	return p
}

// largeCluster applies the facts in batches, as from the log.
func largeCluster(b *testing.B) *state.Snapshot {
	b.Helper()
	nodes, pods := deschedulingtest.Large(deschedulingtest.Began, benchNodes, benchPods)
	store := state.New()
	var h statetest.History
	apply := func() {
		if _, err := store.Apply(h.Facts[len(h.Facts)-1:]); err != nil {
			b.Fatal(err)
		}
		h.Facts[len(h.Facts)-1].Object = nil
	}
	for _, n := range nodes {
		h.Upsert(events.KindNode, n)
		apply()
	}
	for i, p := range pods {
		h.Upsert(events.KindPod, p)
		apply()
		pods[i] = nil
	}
	return store.Snapshot()
}
