package descheduling

import (
	"runtime"
	"runtime/metrics"
	"syscall"
	"testing"
	"time"

	"github.com/berth-scheduler/berth/pkg/descheduling/deschedulingtest"
)

const (
	benchNodes = 5000
	benchPods  = 150_000
)

// BenchmarkUpstream is a cycle of each of upstream's ten strategies alone, on the objects of
// BenchmarkCycle in pkg/descheduling/plan, without nodeFit. Evictions are recorded and nothing
// else; listing the nodes and starting the plugin counts. Reported is processor time, and the
// most memory that the process held: so each strategy is for a process of its own.
func BenchmarkUpstream(b *testing.B) {
	w := &world{now: time.Now()} // upstream's plugins look at the clock themselves
	w.nodes, w.pods = deschedulingtest.Large(w.now, benchNodes, benchPods)
	for _, strategy := range deschedulingtest.Strategies {
		b.Run(strategy, func(b *testing.B) { benchUpstream(b, w, strategy) })
	}
}

func benchUpstream(b *testing.B, w *world, strategy string) {
	o := newOracle(b)
	file := []byte(deschedulingtest.LargePolicy("nodeFit: false", strategy))
	runtime.GC()
	var took time.Duration
	for b.Loop() {
		began := processorTime(b)
		output, err := o.run(b.Context(), w, file)
		took += processorTime(b) - began
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(len(output.evicted)), "evictions")
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
