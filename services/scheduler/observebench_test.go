package scheduler

import (
	"fmt"
	"testing"
	"time"

	"go.opentelemetry.io/otel"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/events/evidence"
	"github.com/berth-scheduler/berth/pkg/telemetry"
	"github.com/berth-scheduler/berth/services/scheduler/decide/step"
)

// BenchmarkTracing measures the cost of an attempt's spans if nothing is traced, if its pod is not among the traced
// ones, and if it is (and no collector receives them).
func BenchmarkTracing(b *testing.B) {
	for _, of := range []struct{ name, endpoint, ratio string }{
		{"off", "", ""}, {"none", "http://127.0.0.1:1", "0"}, {"tenth", "http://127.0.0.1:1", "0.1"},
		{"all", "http://127.0.0.1:1", "1"},
	} {
		b.Run(of.name, func(b *testing.B) {
			b.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", of.endpoint)
			b.Setenv("OTEL_TRACES_SAMPLER", "traceidratio")
			b.Setenv("OTEL_TRACES_SAMPLER_ARG", of.ratio)
			tel, err := telemetry.Setup(b.Context(), telemetry.Config{Service: "scheduler"})
			if err != nil {
				b.Fatal(err)
			}
			s := &Scheduler{cfg: Config{ID: "scheduler-0"}}
			end := time.Now()
			tracer, i := otel.Tracer(tracerName), 0
			b.ReportAllocs()
			for b.Loop() {
				i++
				s.traceAttempt(b.Context(), tracer, attemptAt(i), end)
			}
			b.StopTimer()
			_ = tel.Shutdown(b.Context()) // no collector receives them
		})
	}
}

// attemptAt returns an attempt at one of many pods.
func attemptAt(i int) step.Attempt {
	return step.Attempt{
		Pod:      events.PodRef{UID: fmt.Sprintf("0f5d0f6e-5b5c-4a0e-9c0e-%012x", i)},
		Evidence: &evidence.Evidence{Candidates: make([]evidence.Candidate, evidence.MaxCandidates)},
		Outcome:  step.Scheduled, Received: time.Now(), Decided: time.Now(),
	}
}
