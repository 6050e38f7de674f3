package telemetry

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
)

// rootSpanName is the name of the span that covers a pod's whole path.
const rootSpanName = "pod"

// TraceID returns the trace id of a pod's path: its UID. For a UID that is not a UUID (the API allows that) it is
// the first half of the UID's SHA-256.
func TraceID(uid string) trace.TraceID {
	var id trace.TraceID
	digits := strings.ReplaceAll(uid, "-", "")
	if len(digits) == hex.EncodedLen(len(id)) {
		if _, err := hex.Decode(id[:], []byte(digits)); err == nil && id.IsValid() {
			return id
		}
	}
	sum := sha256.Sum256([]byte(uid))
	copy(id[:], sum[:])
	return id
}

// RootSpanID returns the id of the root span of a pod's path: the first 8 bytes of the
// SHA-256 of the trace id's 16.
func RootSpanID(uid string) trace.SpanID {
	id := TraceID(uid)
	sum := sha256.Sum256(id[:])
	var root trace.SpanID
	copy(root[:], sum[:])
	return root
}

// podContext returns a context in which new spans belong to the pod's path, directly below its root span. All services
// agree on whether they are recorded. The root span need not exist yet, and usually does not: it is written last.
func podContext(ctx context.Context, uid string) context.Context {
	id := TraceID(uid)
	config := trace.SpanContextConfig{TraceID: id, SpanID: RootSpanID(uid), Remote: true}
	if sampled(ctx, id) {
		config.TraceFlags = trace.FlagsSampled
	}
	return trace.ContextWithRemoteSpanContext(ctx, trace.NewSpanContext(config))
}

// Tracing reports whether any path is recorded, so that callers can skip work done only for tracing.
func Tracing() bool { return podSampler.Load() != nil }

// TracesPod reports whether a pod's path is recorded, so that callers can skip work done only for its spans. It
// costs one hash.
func TracesPod(uid string) bool {
	return podSampler.Load() != nil && sampled(noParent, TraceID(uid))
}

// noParent is the context of a path without a parent span.
var noParent = context.Background() //nolint:background // carries nothing: samplers ask it for a parent

// PathLink returns a link to the path of another pod, as the cause or the consequence of a span.
func PathLink(ctx context.Context, uid, relation string) trace.Link {
	return trace.Link{
		SpanContext: trace.SpanContextFromContext(podContext(ctx, uid)),
		Attributes:  []attribute.KeyValue{semconv.K8SPodUID(uid), attribute.String("berth.relation", relation)},
	}
}

// sampled returns the sampler's decision, asked as for a root span. A parent in ctx must not decide: it belongs to
// another path, or to none.
func sampled(ctx context.Context, id trace.TraceID) bool {
	sampler := podSampler.Load()
	if sampler == nil {
		return false
	}
	parent := ctx
	if ctx != noParent {
		parent = trace.ContextWithSpanContext(ctx, trace.SpanContext{})
	}
	result := (*sampler).ShouldSample(sdktrace.SamplingParameters{
		ParentContext: parent, TraceID: id, Name: rootSpanName,
	})
	return result.Decision == sdktrace.RecordAndSample
}

// PodSpan describes one step of a pod's path. UID and Name are required.
type PodSpan struct {
	// UID of the pod.
	UID string
	// Name of the step: queued, offer, attempt, filter, score, reserve, bind, …
	Name string
	// Start of the step; zero means now. A step may be written after it has ended.
	Start time.Time
	// Attributes in addition to k8s.pod.uid, which every span gets.
	Attributes []attribute.KeyValue
	// Links to other paths; see PathLink.
	Links []trace.Link
}

// StartPodSpan starts a span on the pod's path: below the span in ctx if that is on the same path, else below the
// root. The caller ends it, with trace.WithTimestamp for an end in the past. On a path that is not recorded, the span
// is a no-op, and costs the hash of its UID.
func StartPodSpan(ctx context.Context, tracer trace.Tracer, s PodSpan) (context.Context, trace.Span) {
	if trace.SpanContextFromContext(ctx).TraceID() != TraceID(s.UID) {
		ctx = podContext(ctx, s.UID)
	}
	options := []trace.SpanStartOption{
		trace.WithAttributes(semconv.K8SPodUID(s.UID)), trace.WithAttributes(s.Attributes...),
		trace.WithLinks(s.Links...),
	}
	if !s.Start.IsZero() {
		options = append(options, trace.WithTimestamp(s.Start))
	}
	return tracer.Start(ctx, s.Name, options...)
}

// Root describes the whole path of a pod, once it has ended: the root span's name is "pod", and it lasts from the
// pod's creation to the end of the path.
type Root struct {
	UID, Namespace, Name string
	// Start is when the pod was created, End when its path ended; both must be set.
	Start, End time.Time
	// Attributes in addition to the pod's identity: outcome, attempts.
	Attributes []attribute.KeyValue
}

// EmitRoot writes the root span that all spans of the path name as their parent. It must be called once per pod, when
// the path has ended; without it, trace viewers show the spans below a missing root.
func EmitRoot(ctx context.Context, tracer trace.Tracer, r Root) {
	ctx = context.WithValue(ctx, fixedIDs{}, fixedIDs{trace: TraceID(r.UID), span: RootSpanID(r.UID)})
	_, span := tracer.Start(ctx, rootSpanName,
		trace.WithNewRoot(), trace.WithTimestamp(r.Start),
		trace.WithAttributes(
			semconv.K8SPodUID(r.UID), semconv.K8SNamespaceName(r.Namespace), semconv.K8SPodName(r.Name)),
		trace.WithAttributes(r.Attributes...))
	span.End(trace.WithTimestamp(r.End))
}

// fixedIDs are the ids that the next root span must get. The context is the only way to pass them to the SDK's
// generator.
type fixedIDs struct {
	trace trace.TraceID
	span  trace.SpanID
}

// idGenerator draws random ids, or uses those of EmitRoot. The SDK calls it for every span that has no parent (NewIDs)
// or has one (NewSpanID).
type idGenerator struct{}

// NewIDs implements the SDK's IDGenerator.
func (g idGenerator) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	if fixed, ok := ctx.Value(fixedIDs{}).(fixedIDs); ok {
		return fixed.trace, fixed.span
	}
	var id trace.TraceID
	for !id.IsValid() {
		_, _ = rand.Read(id[:]) // never fails
	}
	return id, g.NewSpanID(ctx, id)
}

// NewSpanID implements the SDK's IDGenerator.
func (idGenerator) NewSpanID(context.Context, trace.TraceID) trace.SpanID {
	var id trace.SpanID
	for !id.IsValid() {
		_, _ = rand.Read(id[:]) // never fails
	}
	return id
}

// traceParentHeader is the key of the W3C header.
const traceParentHeader = "traceparent"

// TraceParent returns the W3C traceparent of the span in ctx, or "" without one. Messages of the log and the bus carry
// it, so that a span of one service can be the parent of one of another.
func TraceParent(ctx context.Context) string {
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	return carrier[traceParentHeader]
}

// WithTraceParent returns ctx with the remote span that traceParent names; ctx itself if it names none.
func WithTraceParent(ctx context.Context, traceParent string) context.Context {
	return propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{traceParentHeader: traceParent})
}
