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

// BenchmarkUpstream is a cycle of upstream's ten strategies on the objects of BenchmarkCycle in
// pkg/descheduling/plan, without nodeFit. Evictions are recorded and nothing else; listing the
// nodes and starting the plugins counts. Reported is processor time, and the most memory that
// the process held.
func BenchmarkUpstream(b *testing.B) {
	o := newOracle(b)
	w := &world{now: deschedulingtest.Began}
	w.nodes, w.pods = deschedulingtest.Large(benchNodes, benchPods)
	file := []byte(deschedulingtest.LargePolicy("nodeFit: false"))
	runtime.GC()
	var took time.Duration
	for b.Loop() {
		began := processorTime(b)
		said, err := o.run(b.Context(), w, file, nil)
		took += processorTime(b) - began
		if err != nil || len(said.evicted) == 0 {
			b.Fatalf("%d evicted, error %v", len(said.evicted), err)
		}
		b.ReportMetric(float64(len(said.evicted)), "evictions")
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
