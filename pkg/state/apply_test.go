package state_test

import (
	"runtime"
	"testing"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/state"
)

// heap returns the bytes in use after a garbage collection.
func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// BenchmarkApplyPods applies the facts of running pods: time per fact, and the store's memory for each.
func BenchmarkApplyPods(b *testing.B) {
	for name, f := range map[string]fleet{
		"deployments":  {pods: 50_000, perTemplate: 50},
		"statefulsets": {pods: 50_000, perTemplate: 50, ordinals: true},
		"singles":      {pods: 50_000, perTemplate: 1},
	} {
		b.Run(name, func(b *testing.B) { benchmarkApplyPods(b, f) })
	}
}

func benchmarkApplyPods(b *testing.B, fleet fleet) {
	var batches [][]events.SequencedFact
	fleet.each(func(f []events.SequencedFact) { batches = append(batches, f) })
	var kept uint64
	for b.Loop() {
		b.StopTimer()
		before := heap()
		store := state.New()
		b.StartTimer()
		for _, batch := range batches {
			if _, err := store.Apply(batch); err != nil {
				b.Fatal(err)
			}
		}
		b.StopTimer()
		kept = heap() - before
		runtime.KeepAlive(store)
		b.StartTimer()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*fleet.pods), "ns/pod")
	b.ReportMetric(float64(kept)/float64(fleet.pods), "B/pod")
}
