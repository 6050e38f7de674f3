package scheduler

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/berth-scheduler/berth/pkg/events/eventlog"
	"github.com/berth-scheduler/berth/pkg/placement/engine"
	"github.com/berth-scheduler/berth/pkg/placement/rule"
	"github.com/berth-scheduler/berth/pkg/telemetry"
	"github.com/berth-scheduler/berth/pkg/telemetry/alpha"
	"github.com/berth-scheduler/berth/services/scheduler/decide/avoid"
	"github.com/berth-scheduler/berth/services/scheduler/decide/step"
)

// tracerName is the instrumentation scope of the shard's spans.
const tracerName = "github.com/berth-scheduler/berth/services/scheduler"

// observe runs before the effects of the step are carried out, so that a slow log does not count as scheduling time. It
// counts and traces the attempts that ended in a step that began at begin. It divides the time of the step
// equally among them.
func (s *Scheduler) observe(ctx context.Context, out *step.Output, begin time.Time) {
	for _, n := range out.Notices {
		s.reportNotice(n)
	}
	for _, t := range out.Turns {
		if t.Granted {
			telemetry.TurnGiven()
		}
	}
	if out.SearchesAll+out.SearchesHome > 0 {
		telemetry.NodeSearches(out.SearchesAll, out.SearchesHome)
	}
	for _, p := range out.Plans {
		s.reportPlan(p)
	}
	s.observeGangs(out, begin)
	if len(out.Attempts) == 0 {
		return
	}
	end := s.deps.Clock.Now()
	each := end.Sub(begin) / time.Duration(len(out.Attempts))
	tracer := otel.Tracer(tracerName)
	if out.Commit != nil && out.Commit.Pods > 0 && out.Commit.Resubmitted == 0 {
		telemetry.BatchSize("reservations", out.Commit.Pods)
	}
	for _, a := range out.Attempts {
		telemetry.SchedulingAlgorithm(each)
		telemetry.ScheduleAttempt(string(a.Outcome), a.Profile, end.Sub(a.Received))
		if a.Outcome == step.Conflict {
			telemetry.Conflict(string(a.Reason))
			s.conflicts[string(a.Reason)]++
		}
		reserved(a, end)
		s.log(ctx, a, end)
		s.traceAttempt(ctx, tracer, a, end)
		traceReplaced(ctx, tracer, a, end)
	}
	telemetry.NodesUnusable(s.cfg.ID, out.Behind)
}

// observeGangs counts the attempts at gangs that ended in a step.
func (s *Scheduler) observeGangs(out *step.Output, begin time.Time) {
	if len(out.Gangs)+out.GangsTried == 0 {
		return
	}
	end := s.deps.Clock.Now()
	for range out.GangsTried {
		alpha.GroupAlgorithm(end.Sub(begin) / time.Duration(out.GangsTried))
	}
	for _, g := range out.Gangs {
		alpha.GroupAttempt(string(g.Outcome), g.Profile, end.Sub(g.Received))
	}
}

// reserved observes the extension points of an attempt that happen in the ledger: its reservation, or the wait until
// a held place is free.
func reserved(a step.Attempt, end time.Time) {
	if a.Decided.IsZero() {
		return
	}
	status := rule.Success.String()
	if a.Outcome != step.Scheduled {
		status = statusError
	}
	if a.Held {
		telemetry.PermitWait(status, end.Sub(a.Received))
		return
	}
	telemetry.ExtensionPoint("Reserve", status, a.Profile, end.Sub(a.Decided))
}

// log writes one line about an attempt that has ended, at debug level. The level is checked first,
// because building the arguments allocates.
func (s *Scheduler) log(ctx context.Context, a step.Attempt, end time.Time) {
	if !s.deps.Logger.Enabled(ctx, slog.LevelDebug) {
		return
	}
	s.deps.Logger.DebugContext(ctx, "attempt", telemetry.KeyPod, a.Pod.Namespace+"/"+a.Pod.Name,
		telemetry.KeyAttempt, a.Number, telemetry.KeyOutcome, string(a.Outcome), telemetry.KeyNode, a.NodeName,
		"feasible", a.Feasible, "nodes", a.Nodes, "rejectedBy", a.Plugins, "reason", string(a.Reason),
		telemetry.KeyTook, end.Sub(a.Received))
}

// reportNotice logs and counts a notice about a node.
func (s *Scheduler) reportNotice(n avoid.Notice) {
	telemetry.NodeNotice(string(n.What))
	log := s.deps.Logger.Info
	if n.What == avoid.Quarantined || n.What == avoid.QuarantineRefused {
		log = s.deps.Logger.Warn
	}
	log("node "+string(n.What), "node", n.Node, "detail", n.Detail)
}

// reportPlan logs and counts a change of a plan. A search for victims is counted only, as there are many of them.
func (s *Scheduler) reportPlan(p step.PlanReport) {
	if p.Event == step.PlanSearched {
		telemetry.PreemptionAttempt()
		return
	}
	telemetry.Plan(string(p.Event), p.Held)
	if p.Event == step.PlanRefused {
		telemetry.LoopBroken("preemption", 1)
	}
	if p.Event == step.PlanNominated {
		telemetry.PreemptionVictims(p.Victims)
	}
	log := s.deps.Logger.Info
	if p.Event == step.PlanRefused {
		log = s.deps.Logger.Warn
	}
	log("preemption "+string(p.Event), "pod", p.Pod.Namespace+"/"+p.Pod.Name, "node", p.Node,
		"victims", p.Victims, "held", p.Held, "detail", p.Detail)
}

// observeSizes reports how much the shard holds, and its position in the facts. It runs with each heartbeat, which is
// often enough for gauges.
func (s *Scheduler) observeSizes() {
	nodes, pods, reserved := s.core.Sizes()
	telemetry.CacheSize("nodes", nodes)
	telemetry.CacheSize("pods", pods)
	telemetry.CacheSize("assumed_pods", reserved)
	telemetry.PlacesHeld(s.cfg.ID, s.core.HeldPlaces())
	for why, nodes := range s.core.AvoidedCounts() {
		telemetry.NodesLeftAlone(s.cfg.ID, why, nodes)
	}
	s.core.Asked(func(a engine.RuleCalls, calls uint64) {
		telemetry.PluginEvaluations(a.Plugin, a.Point, a.Profile, calls)
	})
	s.applied.Store(s.core.Position().Sequence)
}

// watchLag reports how far behind the log of facts the shard is, until ctx ends. It runs on a goroutine of its own,
// because asking the log for its end may take long.
func (s *Scheduler) watchLag(ctx context.Context) error {
	tick := s.deps.Clock.NewTicker(lagInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C():
		}
		last, err := s.deps.Log.Last(ctx, eventlog.Facts)
		if err != nil {
			continue // the log is not available, which its readers report
		}
		applied := min(s.applied.Load(), last)
		telemetry.FactLag(s.cfg.ID, last-applied)
	}
}

// traceAttempt writes the spans of one attempt: queued for the time before it was offered; attempt; and below that
// filter and score with their results, and reserve for the time from the pick to the ledger's answer. The end of a
// held place is a span of its own.
func (s *Scheduler) traceAttempt(ctx context.Context, tracer trace.Tracer, a step.Attempt, end time.Time) {
	if !telemetry.TracesPod(a.Pod.UID) {
		return
	}
	p := telemetry.PodSpan{
		UID: a.Pod.UID, Name: "attempt", Start: a.Received,
		Attributes: []attribute.KeyValue{
			attribute.String("berth.shard", s.cfg.ID),
			attribute.String("berth.outcome", string(a.Outcome)),
			attribute.Int("berth.attempt", int(a.Number)),
			attribute.Int("berth.nodes", a.Nodes),
			attribute.Int("berth.nodes.feasible", a.Feasible),
			attribute.StringSlice("berth.rejected_by", a.Plugins),
			semconv.K8SNodeName(a.NodeName),
		},
	}
	if a.Held {
		p.Name = "hold"
	}
	for _, victim := range a.Victims {
		p.Links = append(p.Links, telemetry.PathLink(ctx, victim, "victim"))
	}
	if a.Replaces != "" {
		p.Links = append(p.Links, telemetry.PathLink(ctx, a.Replaces, "replaced"))
	}
	traceQueued(ctx, tracer, a)
	ctx, span := telemetry.StartPodSpan(ctx, tracer, p)
	defer span.End(trace.WithTimestamp(end))
	if a.Evidence != nil {
		traceEvidence(ctx, tracer, a, end)
	}
	if !a.Decided.IsZero() && !a.Held {
		_, reserve := tracer.Start(ctx, "reserve", trace.WithTimestamp(a.Decided))
		reserve.End(trace.WithTimestamp(end))
	}
}

// traceReplaced records, on the path of a pod that was moved, that another pod has taken the place which was kept
// for its replacement.
func traceReplaced(ctx context.Context, tracer trace.Tracer, a step.Attempt, end time.Time) {
	if a.Replaces == "" || a.Outcome != step.Scheduled || !telemetry.TracesPod(a.Replaces) {
		return
	}
	_, span := telemetry.StartPodSpan(ctx, tracer, telemetry.PodSpan{
		UID: a.Replaces, Name: "replaced", Start: end,
		Attributes: []attribute.KeyValue{semconv.K8SNodeName(a.NodeName)},
		Links:      []trace.Link{telemetry.PathLink(ctx, a.Pod.UID, "replacement")},
	})
	span.End(trace.WithTimestamp(end))
}

// traceQueued writes the span of the time that a pod waited to be offered. A lost race writes none, so that an offer
// has at most one.
func traceQueued(ctx context.Context, tracer trace.Tracer, a step.Attempt) {
	if a.Evidence == nil || a.Outcome == step.Conflict {
		return
	}
	_, queued := telemetry.StartPodSpan(ctx, tracer, telemetry.PodSpan{
		UID: a.Pod.UID, Name: "queued", Start: a.Received.Add(-a.Evidence.Waited),
		Attributes: []attribute.KeyValue{attribute.String("berth.cause", a.Evidence.Cause)},
	})
	queued.End(trace.WithTimestamp(a.Received))
}

// traceEvidence writes the spans for the evidence of an attempt. The core does not measure its parts, so each span
// covers the whole time from the offer to the pick.
func traceEvidence(ctx context.Context, tracer trace.Tracer, a step.Attempt, end time.Time) {
	decided := a.Decided
	if decided.IsZero() {
		decided = end
	}
	child := func(name string, attributes ...attribute.KeyValue) {
		_, span := tracer.Start(ctx, name, trace.WithTimestamp(a.Received), trace.WithAttributes(attributes...))
		span.End(trace.WithTimestamp(decided))
	}
	rejected := make([]attribute.KeyValue, 0, len(a.Evidence.Rejected))
	for plugin, nodes := range a.Evidence.Rejected {
		rejected = append(rejected, attribute.Int("berth.rejected."+plugin, int(nodes)))
	}
	child("filter", rejected...)
	if len(a.Evidence.Candidates) == 0 {
		return
	}
	best := make([]string, len(a.Evidence.Candidates))
	for i, c := range a.Evidence.Candidates {
		best[i] = fmt.Sprintf("%s %d", c.Node, c.Total)
	}
	child("score", attribute.StringSlice("berth.candidates", best))
}
