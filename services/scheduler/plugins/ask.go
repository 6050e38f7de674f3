package plugins

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/kube-scheduler/framework"

	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/pkg/telemetry"
	"github.com/berth-scheduler/berth/services/scheduler/decide/step"
)

// Consult asks the plugins about a pod, and, between their filters and their scores, the extenders. Source:
// findNodesThatFitPod and prioritizeNodes in pkg/scheduler/schedule_one.go, and the Run functions of
// pkg/scheduler/framework/runtime, from which the messages are taken.
//
// It waits for informers first and then for the cycle slot, which it holds until it returns. The cycle is remembered
// even if no node is asked about (GateOnly), because PostFilter may follow. An error of a plugin ends the attempt; a
// rejection is an opinion. What q points to is read only.
func (s *Set) Consult(ctx context.Context, q step.Consult) step.Advice {
	advice := step.Advice{ID: q.ID}
	if advice.Err = s.runtime.clients.sync(ctx); advice.Err != nil {
		return advice
	}
	if !s.runtime.beginCycle(ctx) {
		advice.Err = ctx.Err()
		return advice
	}
	defer s.runtime.endCycle()
	// Under the cycle slot: what plugins see through the handle is this question's cluster from here on, and remains
	// so after the question until the next cycle of any shard.
	seen := newCluster(q.Cluster, s.runtime.seen.Load())
	s.runtime.seen.Store(seen)
	c := consultation{
		Set: s, question: q, pod: q.Pod.Object(), cycle: s.runtime.newCycle(), seen: seen,
		opinions: make(map[string]placement.Opinion, len(q.Nodes)),
	}
	if advice.HeldBack = c.gates(ctx); advice.HeldBack != nil {
		return advice
	}
	// The state of the cycle is needed again if a node is chosen, or none is.
	if s.Acts() || s.PostFilters() {
		s.runtime.open.remember(q.Shard, &openCycle{id: q.ID, cycle: c.cycle, seen: seen})
	}
	if q.GateOnly {
		advice.Opinions = c.opinions
		return advice
	}
	advice.Err = c.run(ctx)
	if advice.Err != nil {
		s.logger.Warn("plugin failed; pod will be retried", "pod", q.Pod.Key(), telemetry.KeyError, advice.Err)
		return advice
	}
	advice.Guidance, advice.Opinions = &c.guidance, c.opinions
	return advice
}

// consultation is one question in progress.
type consultation struct {
	*Set
	question step.Consult
	pod      *corev1.Pod
	cycle    *cycle
	seen     *cluster
	// guidance is the answer about the pod as a whole: PreFilter's rejection, and the nodes to which plugins
	// restrict it.
	guidance placement.Guidance
	// left are the nodes that no plugin or extender has rejected so far, sorted by name.
	left []framework.NodeInfo
	// opinions are the answers about single nodes, by name: one for every node of the question.
	opinions map[string]placement.Opinion
}

// run asks the plugins at all points, in upstream's order, and stops at the first error. Scores are left out if
// fewer than two nodes are left, as there is nothing to rank.
func (c *consultation) run(ctx context.Context) error {
	only, err := c.preFilters(ctx)
	if err != nil || c.guidance.Plugin != "" {
		return err
	}
	for _, n := range c.question.Nodes {
		info := c.seen.viewOf(n.Name)
		if info != nil && (only == nil || only.Has(n.Name)) {
			c.left = append(c.left, info.info)
		}
		c.opinions[n.Name] = placement.Opinion{}
	}
	slices.SortFunc(c.left, func(a, b framework.NodeInfo) int { return strings.Compare(a.Node().Name, b.Node().Name) })
	if err := c.filters(ctx); err != nil {
		return err
	}
	if err := c.askExtenders(ctx); err != nil {
		return err
	}
	if len(c.left) < 2 {
		return nil
	}
	return c.scores(ctx)
}

// Gates reports whether plugins may hold pods back.
func (s *Set) Gates() bool { return len(s.preEnqueue) > 0 }

// gates returns the refusal of the first plugin that does not want the pod tried, nil for none. Like upstream, it
// treats a failure as a refusal (runPreEnqueuePlugins in pkg/scheduler/backend/queue/scheduling_queue.go). It runs
// with each question, and not when the pod is queued.
func (c *consultation) gates(ctx context.Context) *step.Refusal {
	for _, plugin := range c.preEnqueue {
		begin := time.Now()
		status := plugin.PreEnqueue(ctx, c.pod)
		c.timeCall("PreEnqueue", plugin.Name(), status, begin)
		if !status.IsSuccess() {
			return &step.Refusal{Plugin: plugin.Name(), Reasons: status.Reasons()}
		}
	}
	return nil
}

// timedShare: one of so many questions is timed, with all its calls; the share is by the question's ID, which counts
// the questions of a shard. Source: upstream's pluginMetricsSamplePercent (pkg/scheduler/schedule_one.go) of 10.
const timedShare = 10

// timeCall records one call of a plugin, if this question is timed. Points are upstream's labels.
func (c *consultation) timeCall(point, plugin string, status *framework.Status, begin time.Time) {
	if c.question.ID%timedShare == 0 {
		telemetry.PluginExecution(plugin, point, status.Code().String(), time.Since(begin))
	}
}

// preFilters returns the only nodes that need to be considered, nil for all. A rejection of the pod is put into the
// guidance. Plugins that return Skip are not asked at Filter. It ends early if a rejection cannot be resolved by
// evictions, or no node is left.
func (c *consultation) preFilters(ctx context.Context) (sets.Set[string], error) {
	skipped := sets.New[string]()
	defer func() { c.cycle.SetSkipFilterPlugins(skipped) }()
	var only *framework.PreFilterResult
	for _, plugin := range c.preFilter {
		begin := time.Now()
		result, status := plugin.PreFilter(ctx, c.cycle, c.pod, c.seen.nodes)
		c.timeCall("PreFilter", plugin.Name(), status, begin)
		switch status.Code() {
		case framework.Skip:
			skipped.Insert(plugin.Name())
			continue
		case framework.Success:
		case framework.Unschedulable:
			// The others are asked all the same: preemption needs what they leave in the cycle.
			c.guidance.Plugin = plugin.Name()
			c.guidance.Rejection = status.Message()
			c.guidance.Resolvable = true
			continue
		case framework.UnschedulableAndUnresolvable:
			c.guidance.Plugin = plugin.Name()
			c.guidance.Rejection = status.Message()
			c.guidance.Resolvable = false
			return nil, nil
		default:
			return nil, fmt.Errorf("running PreFilter plugin %q: %w", plugin.Name(), status.AsError())
		}
		if result.AllNodes() {
			continue
		}
		c.guidance.Only = append(c.guidance.Only, placement.Narrowed{
			Plugin: plugin.Name(), Nodes: sets.List(result.NodeNames),
		})
		// Merge intersects: every plugin must agree to a node.
		if only = only.Merge(result); len(only.NodeNames) == 0 {
			return only.NodeNames, nil
		}
	}
	if only == nil {
		return nil, nil
	}
	return only.NodeNames, nil
}

// filters asks about all remaining nodes, several at once, and for each node the plugins in their order until one
// rejects it. An error of any plugin on any node ends the question, as upstream.
func (c *consultation) filters(ctx context.Context) error {
	if len(c.filter) == 0 {
		return nil
	}
	statuses := make([]*framework.Status, len(c.left))
	plugins := make([]string, len(c.left))
	c.handle.parallel.Until(ctx, len(c.left), func(i int) {
		for _, plugin := range c.filter {
			if c.cycle.GetSkipFilterPlugins().Has(plugin.Name()) {
				continue
			}
			begin := time.Now()
			status := plugin.Filter(ctx, c.cycle, c.pod, c.left[i])
			c.timeCall("Filter", plugin.Name(), status, begin)
			if !status.IsSuccess() {
				statuses[i], plugins[i] = status, plugin.Name()
				return
			}
		}
	}, placement.AtFilter)
	if err := ctx.Err(); err != nil {
		return err
	}
	// The results are evaluated in the order of the nodes, not in that in which they arrived, so that the same error
	// is reported each time.
	var passed []framework.NodeInfo
	for i, n := range c.left {
		switch status := statuses[i]; {
		case status.IsSuccess():
			passed = append(passed, n)
		case !status.IsRejected():
			return fmt.Errorf("running %q filter plugin: %w", plugins[i], status.AsError())
		default:
			c.opinions[n.Node().Name] = placement.Opinion{
				Rejected: true, Unresolvable: status.Code() == framework.UnschedulableAndUnresolvable,
				Plugin: plugins[i], Reasons: status.Reasons(),
			}
		}
	}
	c.left = passed
	return nil
}

// askExtenders asks the profile's extenders about the remaining nodes. Their opinions replace the plugins' (which
// are empty so far): points are added to them by scores.
func (c *consultation) askExtenders(ctx context.Context) error {
	if c.extenders == nil || len(c.left) == 0 {
		return nil
	}
	nodes := make([]*state.Node, len(c.left))
	for i, n := range c.left {
		nodes[i] = c.seen.viewOf(n.Node().Name).of.Node
	}
	opinions, err := c.extenders.Consult(ctx, c.question.Pod, nodes)
	if err != nil {
		return err
	}
	for name, o := range opinions {
		c.opinions[name] = o
	}
	c.left = slices.DeleteFunc(c.left, func(n framework.NodeInfo) bool { return opinions[n.Node().Name].Rejected })
	return nil
}

// scores adds the plugins' weighted scores to the opinions. Points of extenders are already there.
func (c *consultation) scores(ctx context.Context) error {
	skipped := sets.New[string]()
	for _, plugin := range c.preScore {
		begin := time.Now()
		status := plugin.PreScore(ctx, c.cycle, c.pod, c.left)
		c.timeCall("PreScore", plugin.Name(), status, begin)
		switch {
		case status.IsSkip():
			skipped.Insert(plugin.Name())
		case !status.IsSuccess():
			return fmt.Errorf("running PreScore plugin %q: %w", plugin.Name(), status.AsError())
		}
	}
	c.cycle.SetSkipScorePlugins(skipped)
	for _, plugin := range c.score {
		if skipped.Has(plugin.Name()) {
			continue
		}
		if err := c.scoreBy(ctx, plugin); err != nil {
			return err
		}
	}
	return nil
}

// scoreBy adds the scores of one plugin: Score for each node, several at once, then NormalizeScore over all of them.
// Scores must be within framework.MinScore and MaxScore after that.
func (c *consultation) scoreBy(ctx context.Context, plugin scorer) error {
	scores := make(framework.NodeScoreList, len(c.left))
	statuses := make([]*framework.Status, len(c.left))
	c.handle.parallel.Until(ctx, len(c.left), func(i int) {
		scores[i].Name = c.left[i].Node().Name
		begin := time.Now()
		scores[i].Score, statuses[i] = plugin.Score(ctx, c.cycle, c.pod, c.left[i])
		c.timeCall("Score", plugin.Name(), statuses[i], begin)
	}, placement.AtScore)
	if err := ctx.Err(); err != nil {
		return err
	}
	for _, status := range statuses {
		if !status.IsSuccess() {
			return fmt.Errorf("running Score plugins: plugin %q failed with: %w", plugin.Name(), status.AsError())
		}
	}
	if e := plugin.ScoreExtensions(); e != nil {
		begin := time.Now()
		status := e.NormalizeScore(ctx, c.cycle, c.pod, scores)
		c.timeCall("ScoreExtensionNormalize", plugin.Name(), status, begin)
		if !status.IsSuccess() {
			return fmt.Errorf("running Normalize on Score plugins: plugin %q failed with: %w", plugin.Name(), status.AsError())
		}
	}
	for _, s := range scores {
		if s.Score < framework.MinScore || s.Score > framework.MaxScore {
			return fmt.Errorf("applying score defaultWeights on Score plugins: plugin %q returns an invalid score %d, "+
				"it should in the range of [%d, %d] after normalizing", plugin.Name(), s.Score,
				framework.MinScore, framework.MaxScore)
		}
		// NormalizeScore gets the list itself, and may have written names into it.
		o, known := c.opinions[s.Name]
		if !known {
			return errors.New("plugin " + plugin.Name() + " has normalized the score of a node that is not there: " + s.Name)
		}
		o.Points += s.Score * plugin.weight
		c.opinions[s.Name] = o
	}
	return nil
}
