package memory

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"runtime/metrics"
	"strconv"
	"strings"
	"time"

	"github.com/berth-scheduler/berth/test/perf/bench"
)

// settledReading reads the memory after a while without changes. It measures the live heap last, so that its own
// garbage collection does not affect the other numbers.
func settledReading(ctx context.Context, after time.Duration) (reading, error) {
	if err := bench.Pause(ctx, after); err != nil {
		return reading{}, err
	}
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return reading{}, fmt.Errorf("resident memory is read from Linux's /proc: %w", err)
	}
	var r reading
	for line := range strings.Lines(string(status)) {
		name, value, _ := strings.Cut(line, ":")
		switch name {
		case "VmRSS":
			r.Resident, err = kilobytes(value)
		case "VmHWM":
			r.Peak, err = kilobytes(value)
		}
		if err != nil {
			return reading{}, fmt.Errorf("/proc/self/status: %s: %w", name, err)
		}
	}
	r.Live = liveHeap()
	return r, nil
}

// kilobytes reads "  123 kB" as bytes.
func kilobytes(s string) (int64, error) {
	n, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(s), "kB")), 10, 64)
	return n << 10, err
}

// liveHeap is the heap in use after a garbage collection.
func liveHeap() int64 {
	runtime.GC()
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	if sample[0].Value.Kind() != metrics.KindUint64 {
		return 0
	}
	return int64(sample[0].Value.Uint64())
}
