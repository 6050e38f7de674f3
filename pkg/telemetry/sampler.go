package telemetry

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/cespare/xxhash/v2"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

const (
	envSampler    = "OTEL_TRACES_SAMPLER"
	envSamplerArg = "OTEL_TRACES_SAMPLER_ARG"
)

// podSampler decides podContext's sampled flag. It is the sampler of the provider in use, nil when nothing is
// recorded.
var podSampler atomic.Pointer[sdktrace.Sampler]

// ratioSampler records a share of all traces, by a hash of the trace id. The SDK's own sampler assumes that the
// id's bits are uniform, but these ids are UUIDs: some of their bits are constant, and with some generators most
// are.
type ratioSampler struct {
	ratio float64
	// limit is the hash below which a trace is recorded; all is set for ratio 1, which no limit can express.
	limit uint64
	all   bool
}

// newRatioSampler returns a sampler that records this share of traces, 0 to 1.
func newRatioSampler(ratio float64) ratioSampler {
	if ratio >= 1 {
		return ratioSampler{ratio: 1, all: true}
	}
	// Scaled in steps that float64 represents exactly.
	return ratioSampler{ratio: ratio, limit: uint64(ratio*(1<<53)) << (64 - 53)}
}

// ShouldSample implements the SDK's Sampler.
func (s ratioSampler) ShouldSample(p sdktrace.SamplingParameters) sdktrace.SamplingResult {
	result := sdktrace.SamplingResult{
		Decision:   sdktrace.Drop,
		Tracestate: trace.SpanContextFromContext(p.ParentContext).TraceState(),
	}
	if s.all || xxhash.Sum64(p.TraceID[:]) < s.limit {
		result.Decision = sdktrace.RecordAndSample
	}
	return result
}

// Description implements the SDK's Sampler.
func (s ratioSampler) Description() string {
	return "TraceIDHashRatio{" + strconv.FormatFloat(s.ratio, 'g', -1, 64) + "}"
}

// samplerFromEnv returns the sampler for the standard values of OTEL_TRACES_SAMPLER; without any, every span is
// recorded unless its parent decides otherwise, as the specification requires. Other values are an error that names
// the accepted ones, and not ignored as the SDK would.
func samplerFromEnv(env func(string) string) (sdktrace.Sampler, error) {
	name := strings.ToLower(strings.TrimSpace(env(envSampler)))
	// "parentbased_" may precede each of the samplers.
	root, parentBased := strings.CutPrefix(name, "parentbased_")
	var sampler sdktrace.Sampler
	switch root {
	case "":
		sampler, parentBased = sdktrace.AlwaysSample(), true
	case "always_on":
		sampler = sdktrace.AlwaysSample()
	case "always_off":
		sampler = sdktrace.NeverSample()
	case "traceidratio":
		ratio, err := ratioFromEnv(env)
		if err != nil {
			return nil, err
		}
		sampler = newRatioSampler(ratio)
	default:
		return nil, fmt.Errorf("telemetry: %s is %q, want always_on, always_off or traceidratio, "+
			"or one of them with parentbased_ before it", envSampler, name)
	}
	if parentBased {
		sampler = sdktrace.ParentBased(sampler)
	}
	return sampler, nil
}

// ratioFromEnv returns the ratio of OTEL_TRACES_SAMPLER_ARG; 1 without a value, which is the specification's default.
func ratioFromEnv(env func(string) string) (float64, error) {
	text := strings.TrimSpace(env(envSamplerArg))
	if text == "" {
		return 1, nil
	}
	ratio, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(ratio) || ratio < 0 || ratio > 1 {
		return 0, fmt.Errorf("telemetry: %s is %q, want a number from 0 to 1", envSamplerArg, text)
	}
	return ratio, nil
}
