package commit

import (
	"cmp"
	"context"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"

	"github.com/berth-scheduler/berth/pkg/telemetry"
	"github.com/berth-scheduler/berth/pkg/telemetry/alpha"
	"github.com/berth-scheduler/berth/services/binder/decide/effect"
)

// tracerName is the instrumentation scope of the binder's spans.
const tracerName = "github.com/berth-scheduler/berth/services/binder"

// txnNames maps a binder's transactions to the protocol's names, which the other services use for theirs.
var txnNames = map[string]string{
	"hand-over": "T5", "fence-mark": "T6", "fence-release": "T7", "name-claim": "T14",
	"sweep": "T8", "plan-abort": "T8", "plan-drop": "T8", "move-abort": "T8", "collect": "T16",
	"evict-claim": "T10 claim", "evict-mark": "T2 mark", "evict-take": "T2 take",
	"evict-failed": "T10 failed", "budget-settle": "T10 settle",
}

// observeTxn measures a transaction under the protocol's name for it, so that one metric compares all services.
func observeTxn(why string, o effect.TxnOutcome, took time.Duration) {
	telemetry.LedgerTxn(cmp.Or(txnNames[why], why), o.String(), took)
}

// observeBind counts a bind call, and the corresponding extension point under kube-scheduler's names. Results other
// than success count as Error there. A lost bind that is refreshed counts once for each call, as a retried one does
// upstream.
func observeBind(e effect.Bind, r effect.Result, took time.Duration) {
	telemetry.Bind(r.String(), took)
	status := "Error"
	if r == effect.Done || r == effect.AlreadyHere {
		status = "Success"
	}
	alpha.CallSent(alpha.CallBinding, status == "Success", took)
	telemetry.ExtensionPoint("Bind", status, e.SchedulerName, took)
}

// observeEviction counts an eviction by its cause: preemption if For names a preemptor, else descheduling. One that
// another controller may have taken on has upstream's result for that.
func observeEviction(e effect.Evict, a effect.Answered) {
	if e.DryRun {
		return
	}
	cause := "descheduling"
	if e.Preemptor != "" {
		cause = "preemption"
	}
	result := a.Result.String()
	if a.Intercepted && e.Request {
		result = "background"
	}
	telemetry.EvictionSent(cause, result)
}

// span starts a span in the pod's trace, as a child of the span that decided, and returns the function that ends it.
// An answer other than Done or AlreadyHere is an error of the span, not of the binder.
func span(ctx context.Context, parent string, p telemetry.PodSpan) (context.Context, func(effect.Answered)) {
	ctx, s := telemetry.StartPodSpan(telemetry.WithTraceParent(ctx, parent), otel.Tracer(tracerName), p)
	return ctx, func(a effect.Answered) {
		s.SetAttributes(attribute.String("berth.result", a.Result.String()))
		if a.Result != effect.Done && a.Result != effect.AlreadyHere {
			s.SetStatus(codes.Error, a.Problem)
		}
		s.End()
	}
}

// untraced is the end function for a pod that is not traced.
// Most pods are not: see telemetry.TracesPod.
func untraced(effect.Answered) {}

// bindSpan starts the span of a bind, if the pod is traced.
func bindSpan(ctx context.Context, e effect.Bind) (context.Context, func(effect.Answered)) {
	if !telemetry.TracesPod(e.Pod.UID) {
		return ctx, untraced
	}
	return span(ctx, e.TraceParent, telemetry.PodSpan{UID: e.Pod.UID, Name: "bind", Attributes: []attribute.KeyValue{
		attribute.String("k8s.node.name", e.NodeName),
		attribute.String("berth.attempt", e.Token.String()),
	}})
}

// evictSpan starts the span of an eviction, if the victim is traced, with a link to the trace of its preemptor.
func evictSpan(ctx context.Context, e effect.Evict) (context.Context, func(effect.Answered)) {
	if !telemetry.TracesPod(e.Pod.UID) {
		return ctx, untraced
	}
	p := telemetry.PodSpan{UID: e.Pod.UID, Name: "evict", Attributes: []attribute.KeyValue{
		attribute.String("berth.strategy", e.Strategy),
		attribute.Bool("berth.dry_run", e.DryRun),
	}}
	if e.Preemptor != "" {
		p.Links = append(p.Links, telemetry.PathLink(ctx, e.Preemptor, "preemptor"))
	}
	return span(ctx, e.TraceParent, p)
}
