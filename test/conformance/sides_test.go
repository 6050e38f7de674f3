package conformance

import (
	"context"
	"fmt"
	"reflect"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/placement/engine"
	"github.com/berth-scheduler/berth/pkg/placement/placementtest"
	"github.com/berth-scheduler/berth/pkg/placement/rule"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/pkg/state/strip"
)

// sides are upstream and ours over the same cluster. Ours answers twice: from scratch, and
// by the engine that follows the changes.
type sides struct {
	upstream *oracle
	profile  *placement.Profile
	engine   *engine.Engine
	view     *placementtest.View
	// unanswered counts the decisions on which upstream's allocator of devices failed.
	unanswered int
}

// newSides starts both sides on an empty cluster. Upstream's goroutines end with ctx.
func newSides(ctx context.Context, config placement.ProfileConfig, cache engine.Config) (*sides, error) {
	upstream, err := newOracle(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("upstream: %w", err)
	}
	profile, err := placement.NewProfile(config)
	if err != nil {
		return nil, err
	}
	engine := engine.New(cache)
	return &sides{upstream: upstream, profile: profile, engine: engine, view: placementtest.NewView(engine)}, nil
}

// apply makes a change on both sides.
func (s *sides) apply(ctx context.Context, e placementtest.Event) error {
	s.view.Apply(e)
	if err := s.upstream.apply(ctx, e); err != nil {
		return fmt.Errorf("upstream: %s: %w", e, err)
	}
	return nil
}

// mustSides is newSides with the default cache.
func mustSides(ctx context.Context, t *testing.T, config placement.ProfileConfig) *sides {
	t.Helper()
	both, err := newSides(ctx, config, engine.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return both
}

func (s *sides) mustApply(t *testing.T, changes ...placementtest.Event) {
	t.Helper()
	for _, e := range changes {
		if err := s.apply(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
}

// event is a change of a pod or a node; a nil before or after is an addition or removal.
func event[T interface {
	*corev1.Pod | *corev1.Node
	state.APIObject
}](before, after T) placementtest.Event {
	e := placementtest.Event{What: "change", Kind: events.KindPod}
	if _, ok := any(before).(*corev1.Node); ok {
		e.Kind = events.KindNode
	}
	if before != nil {
		e.Old = before
	}
	if after != nil {
		e.New = after
	}
	return e
}

// compare returns upstream's answer and how ours differs, if it does; seed breaks our ties.
func (s *sides) compare(ctx context.Context, pod *corev1.Pod, seed uint64) (want answer, diff string) {
	want = s.upstream.decide(ctx, pod)
	in := s.input(pod, seed)
	short := s.profile.Evaluate(in)
	if want.Failed && len(pod.Spec.ResourceClaims) > 0 {
		// An error of the allocator on one node ends upstream's attempt; ours leaves that node out. So
		// there is nothing to compare with but ours from scratch: such decisions are counted, and few.
		s.unanswered++
		return want, s.engineDiff(in, short)
	}
	if got := s.evaluate(in, short); !reflect.DeepEqual(want, got) {
		return want, "evaluated from scratch:\n" + cmp.Diff(want, got)
	}
	if diff := s.engineDiff(in, short); diff != "" {
		return want, "by the engine:\n" + diff
	}
	return want, ""
}

func (s *sides) input(pod *corev1.Pod, seed uint64) placement.Input {
	pod = pod.DeepCopy()
	strip.Strip(pod)
	return placement.Input{
		Pod: state.NewPod(pod), Nodes: s.view.Nodes(), Objects: s.view.Objects(), Seed: seed, Limit: -1,
	}
}

// ours is our answer from scratch, in the shared words.
func (s *sides) ours(pod *corev1.Pod) answer {
	in := s.input(pod, 1)
	return s.evaluate(in, s.profile.Evaluate(in))
}

// evaluate is our answer from scratch, in the shared words. short is the same without
// details, and both must agree.
func (s *sides) evaluate(in placement.Input, short placement.Result) answer {
	if name := in.Pod.Status().NominatedNodeName; name != "" && short.Examined == 0 && len(short.Feasible) == 1 {
		return answer{Nominated: short.Feasible[0].Node.Node.Name}
	}
	in.Details = true
	long := s.profile.Evaluate(in)
	var a answer
	if short.FeasibleCount == 1 {
		a.Only = short.Feasible[0].Node.Node.Name
	}
	if long.Err != nil {
		a.Failed = true
		return a
	}
	if problem := consistent(long, short); problem != "" {
		return answer{Message: problem}
	}
	if long.FeasibleCount == 0 {
		a.Message, a.Plugins = long.Diagnosis.Message(), long.Diagnosis.Plugins()
	}
	if len(in.Nodes) > 0 {
		a.Nodes = map[string]nodeAnswer{}
	}
	for _, n := range long.Nodes {
		a.Nodes[n.Node.Node.Name] = answerOf(n)
	}
	return a
}

// consistent checks that the ranking is by total, and the same without details.
func consistent(long, short placement.Result) string {
	for i := 1; i < len(long.Feasible); i++ {
		if long.Feasible[i].Total > long.Feasible[i-1].Total {
			return fmt.Sprintf("rank %d has more points than rank %d", i, i-1)
		}
	}
	if short.Err != nil || short.FeasibleCount != long.FeasibleCount || len(short.Feasible) != len(long.Feasible) {
		return fmt.Sprintf("%d feasible nodes without details, %d with", short.FeasibleCount, long.FeasibleCount)
	}
	for i, s := range short.Feasible {
		l := long.Feasible[i]
		if s.Node != l.Node || s.Total != l.Total && short.FeasibleCount > 1 { // one alone is not scored
			return fmt.Sprintf("rank %d differs without details", i)
		}
	}
	return ""
}

func answerOf(n placement.NodeReport) nodeAnswer {
	reasons := slices.Clone(n.Reasons)
	slices.Sort(reasons)
	a := nodeAnswer{Code: n.Code.String(), Plugin: pluginOf(n), Reasons: reasons, Total: n.Total}
	if n.Code == rule.Success {
		a.Scores = map[string]int64{}
		for _, s := range n.Scores {
			setScore(a.Scores, s.Plugin, s.Normalized*s.Weight)
		}
	}
	return a
}

// pluginOf is the plugin as upstream records it with the status: none for nodes that were
// narrowed out.
func pluginOf(n placement.NodeReport) string {
	if len(n.Reasons) == 1 && strings.HasPrefix(n.Reasons[0], "node(s) didn't satisfy plugin") {
		return ""
	}
	return n.Plugin
}

// outcome is the comparable part of a result without details.
type outcome struct {
	Failed                 bool
	Feasible               []string // best first, with totals
	Count, Total, Examined int
	Message                string
	Plugins                []string
	Reasons                map[string]int32
}

func outcomeOf(r placement.Result) outcome {
	if r.Err != nil {
		return outcome{Failed: true}
	}
	o := outcome{Count: r.FeasibleCount, Total: r.NodesTotal, Examined: r.Examined}
	for _, f := range r.Feasible {
		o.Feasible = append(o.Feasible, fmt.Sprintf("%s %d", f.Node.Node.Name, f.Total))
	}
	if r.FeasibleCount == 0 {
		o.Message, o.Plugins, o.Reasons = r.Diagnosis.Message(), r.Diagnosis.Plugins(), r.Diagnosis.Reasons()
	}
	return o
}

// limits are how many nodes the engine is asked to rank, in turn.
var limits = []int{-1, 0, 1, 3}

// engineDiff is the difference between the engine's answer and the answer from scratch, which has been compared. A
// panic is a difference like others: it can be shrunk.
func (s *sides) engineDiff(in placement.Input, r placement.Result) (diff string) {
	defer func() {
		if p := recover(); p != nil {
			diff = fmt.Sprintf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	want := outcomeOf(r)
	limit := limits[in.Seed%uint64(len(limits))]
	keep := limit
	switch limit {
	case -1:
		keep = len(want.Feasible)
	case 0:
		keep = placement.TopK
	}
	want.Feasible = want.Feasible[:min(keep, len(want.Feasible))]
	got := outcomeOf(s.engine.Evaluate(s.profile, engine.Query{
		Pod: in.Pod, Seed: in.Seed, Limit: limit, Start: in.Start,
	}))
	if reflect.DeepEqual(want, got) {
		return ""
	}
	return cmp.Diff(want, got, cmpopts.EquateEmpty())
}
