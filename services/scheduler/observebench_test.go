package scheduler

import (
	"testing"
	"time"

	"go.opentelemetry.io/otel"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/services/scheduler/internal/decide"
)

// BenchmarkTracingOff is what the spans of an attempt cost where nothing is traced.
func BenchmarkTracingOff(b *testing.B) {
	s := &Scheduler{cfg: Config{ID: "scheduler-0"}}
	a := decide.Attempt{
		Pod: events.PodRef{UID: "0f5d0f6e-5b5c-4a0e-9c0e-3b1a52bcbf10"}, Evidence: &events.Evidence{}, Outcome: decide.Scheduled,
	}
	tracer, end := otel.Tracer(tracerName), time.Now()
	b.ReportAllocs()
	for b.Loop() {
		s.traceAttempt(b.Context(), tracer, a, end)
	}
}
