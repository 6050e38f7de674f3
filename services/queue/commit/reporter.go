package commit

import (
	"context"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/events/eventlog"
	"github.com/berth-scheduler/berth/pkg/events/work"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/pkg/telemetry"
	"github.com/berth-scheduler/berth/pkg/telemetry/alpha"
	"github.com/berth-scheduler/berth/services/queue/decide"
	"github.com/berth-scheduler/berth/services/queue/decide/waiting"
)

// metricQueues maps the pools that kube-scheduler's metrics have to their names there. There, pods that are offered
// or held are "in flight" and in no queue.
var metricQueues = map[waiting.Pool]string{
	waiting.PoolGated:   "gated",
	waiting.PoolActive:  "active",
	waiting.PoolBackoff: "backoff",
	waiting.PoolParked:  "unschedulable",
	waiting.PoolGrouped: "unschedulable",
}

// These are attributes of the spans of a pod.
const (
	attributeAttempts = attribute.Key("berth.attempts")
	attributeOutcome  = attribute.Key("berth.outcome")
	// attributeCause is the event that ended a wait, and attributeRejectors the rules that had rejected the pod.
	attributeCause     = attribute.Key("berth.cause")
	attributeRejectors = attribute.Key("berth.rejected_by")
)

// Reporter carries out the effects of the core. It never blocks, because the deciding goroutine calls it. It is for
// one goroutine.
type Reporter struct {
	bus      eventlog.Bus
	recorder *Recorder
	mover    *Mover
	tracer   trace.Tracer
	logger   *slog.Logger
	// shards and rejectors are the values last set on the gauges. Series that are gone must be set to 0, which only a
	// comparison with the last values finds.
	shards    map[string]int
	rejectors map[waiting.Rejector]int
	inFlight  map[string]int
	// evicted finds the evicted pod that a pod replaces.
	evicted *evictedPods
}

// NewReporter returns a reporter that sends offers to bus, decisions to recorder, moves to
// mover and root spans to tracer.
func NewReporter(
	bus eventlog.Bus, recorder *Recorder, mover *Mover, tracer trace.Tracer, logger *slog.Logger,
) *Reporter {
	return &Reporter{
		bus: bus, recorder: recorder, mover: mover, tracer: tracer, logger: logger,
		shards: map[string]int{}, rejectors: map[waiting.Rejector]int{},
		evicted: newEvictedPods(),
	}
}

// Execute carries out one effect of a step that took the given time. The caller handles NextTick. No effect reports a
// failure back to the core: what matters shows in the facts, in the ledger or in the decisions log.
func (r *Reporter) Execute(effect decide.Effect, took time.Duration) {
	switch e := effect.(type) {
	case decide.SendOffers:
		r.offer(e)
	case decide.Record:
		r.recorder.Record(e.Decision)
	case decide.Complaint:
		r.logger.Warn("invalid namespace quota; its pods stay gated", "problem", e.Text)
	case decide.MovePartitions:
		r.mover.Move(e.Moves)
	case decide.PodBound:
		r.bound(e)
	case decide.PodWaited:
		r.waited(e)
	case decide.Counted:
		counted(e, took)
	}
}

// counted updates the counters that have kube-scheduler's names. The core does not measure time, so each hint counts
// for the mean of the step's time per hint.
func counted(n decide.Counted, took time.Duration) {
	for in, pods := range n.Incoming {
		if name, ok := metricQueues[in.Pool]; ok {
			telemetry.QueueIncoming(name, in.Event, pods)
		}
	}
	hints := 0
	for _, asked := range n.Hints {
		hints += asked
	}
	for h, asked := range n.Hints {
		telemetry.QueueingHints(h.Plugin, h.Event, h.Queue, asked, took/time.Duration(hints))
	}
	telemetry.OffersEnded(n.Expired, n.Returned)
	telemetry.PodsQuarantined(n.Quarantined)
	telemetry.PodScheduledAfterFlush(n.Caught)
}

// offer sends one message. If it cannot be sent, the leases expire and the pods are offered again.
func (r *Reporter) offer(e decide.SendOffers) {
	telemetry.BatchSize("offers", len(e.Batch.Offers))
	if err := r.bus.Publish(work.SubjectOffers+e.Shard, work.EncodeOffers(e.Batch)); err != nil {
		r.logger.Warn("offers not sent", "shard", e.Shard, "offers", len(e.Batch.Offers), telemetry.KeyError, err)
	}
}

// bound reports a bound pod: its metrics, and the root span that is the parent of all its other spans. The span
// begins at the pod's creation by the API server's clock, in whole seconds.
func (r *Reporter) bound(e decide.PodBound) {
	since := e.FirstOffer
	if since.IsZero() {
		since = e.Seen
	}
	attempts := max(e.Attempts, 1) // those of an earlier leader are not known
	telemetry.PodScheduled(int(attempts), e.Bound.Sub(since))
	ctx := context.Background() //nolint:background // carries no deadline: only ids
	replaced := r.linkReplacement(ctx, e)
	if !telemetry.TracesPod(e.Pod.UID) {
		return
	}
	start := e.Seen
	if created := e.Pod.Created(); !created.IsZero() && created.Time.Before(start) {
		start = created.Time
	}
	_, seen := telemetry.StartPodSpan(ctx, r.tracer, telemetry.PodSpan{
		UID: e.Pod.UID, Name: "seen", Start: start, Links: replaced,
	})
	seen.End(trace.WithTimestamp(e.Seen))
	telemetry.EmitRoot(ctx, r.tracer, telemetry.Root{
		UID: e.Pod.UID, Namespace: e.Pod.Namespace, Name: e.Pod.Name, Start: start, End: e.Bound,
		Attributes: []attribute.KeyValue{
			attributeOutcome.String("bound"),
			attributeAttempts.Int(int(attempts)),
			semconv.K8SNodeName(e.Pod.NodeName),
		},
	})
}

// linkReplacement adds a span to the trace of an evicted pod when its replacement is bound, and returns the links back
// from the replacement.
func (r *Reporter) linkReplacement(ctx context.Context, e decide.PodBound) []trace.Link {
	victim := r.evicted.replacedBy(e.Pod, e.Seen)
	if victim == "" {
		return nil
	}
	if telemetry.TracesPod(victim) {
		_, span := telemetry.StartPodSpan(ctx, r.tracer, telemetry.PodSpan{
			UID: victim, Name: "replaced", Start: e.Bound,
			Links: []trace.Link{telemetry.PathLink(ctx, e.Pod.UID, "replacement")},
		})
		span.End(trace.WithTimestamp(e.Bound))
	}
	return []trace.Link{telemetry.PathLink(ctx, victim, "replaced")}
}

// waited emits a span, named after the pool, for the time that a pod waited there.
func (r *Reporter) waited(e decide.PodWaited) {
	if !telemetry.TracesPod(e.Pod.UID) {
		return
	}
	_, span := telemetry.StartPodSpan(context.Background(), r.tracer, telemetry.PodSpan{ //nolint:background // only ids
		UID: e.Pod.UID, Name: string(e.Pool), Start: e.Since, Attributes: []attribute.KeyValue{
			attributeCause.String(e.Event), attributeRejectors.StringSlice(e.Rejectors),
		},
	})
	span.End(trace.WithTimestamp(e.Until))
}

// Pools reports how many pods each pool contains and each shard has leased.
func (r *Reporter) Pools(pools map[waiting.Pool]int, leased map[string]int) {
	queues := map[string]int{}
	for pool, name := range metricQueues {
		queues[name] += pools[pool]
	}
	for name, pods := range queues {
		telemetry.PendingPods(name, pods)
	}
	for shard := range r.shards {
		if _, ok := leased[shard]; !ok {
			telemetry.OffersOutstanding(shard, 0)
			delete(r.shards, shard)
		}
	}
	for shard, n := range leased {
		if was, ok := r.shards[shard]; !ok || was != n {
			telemetry.OffersOutstanding(shard, n)
			r.shards[shard] = n
		}
	}
}

// Rejectors reports how many pods each rule holds back.
func (r *Reporter) Rejectors(now map[waiting.Rejector]int) {
	for who, n := range r.rejectors {
		if now[who] == 0 {
			telemetry.UnschedulablePods(who.Plugin, who.Profile, -n)
			delete(r.rejectors, who)
		}
	}
	for who, n := range now {
		if was := r.rejectors[who]; was != n {
			telemetry.UnschedulablePods(who.Plugin, who.Profile, n-was)
			r.rejectors[who] = n
		}
	}
}

// InFlight reports how many events of each label are kept.
func (r *Reporter) InFlight(now map[string]int) {
	for event := range r.inFlight {
		if _, ok := now[event]; !ok {
			alpha.EventsInFlight(event, 0)
		}
	}
	for event, n := range now {
		alpha.EventsInFlight(event, n)
	}
	r.inFlight = now
}

// NotLeading records that this replica does not lead: the leader reports the waiting pods and lets them go.
func (r *Reporter) NotLeading() {
	r.recorder.Depose()
	r.Pools(nil, nil)
	r.Rejectors(nil)
	r.InFlight(nil)
}

// ObserveEnded records what the facts show of pods at a time. It costs nothing unless traces are recorded.
func (r *Reporter) ObserveEnded(changes []state.PodChange, at time.Time) {
	if telemetry.Tracing() {
		r.evicted.podsEnded(changes, at)
	}
}

// ObserveDecisions handles records of the decisions log.
func (r *Reporter) ObserveDecisions(decisions []events.SequencedDecision) {
	if !telemetry.Tracing() {
		return
	}
	for i := range decisions {
		r.evicted.decided(&decisions[i].Decision)
	}
}
