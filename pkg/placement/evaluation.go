package placement

import (
	"errors"
	"fmt"
	"slices"

	"github.com/berth-scheduler/berth/pkg/placement/names"
	"github.com/berth-scheduler/berth/pkg/placement/rule"
	"github.com/berth-scheduler/berth/pkg/state"
)

// Evaluation is one Evaluate in progress. It is exported for packages preempt and engine, which compile and check
// in the same way and differ in what they do with the results. The steps fill it from top to bottom: Compile,
// SurveyFilters, Verdict for each node; the fields below feasible belong to Profile.Evaluate. It is used once, by
// one goroutine.
type Evaluation struct {
	Input
	Profile *Profile
	Result  Result

	// Filters and Scorers are the rules that apply to the pod, in the order of the profile.
	Filters []ActiveFilter
	Scorers []ActiveScorer
	// Late leaves out the rule about devices, which is then evaluated for each pod.
	Late bool
	// Rejected is the rule that rejects the pod on all nodes.
	Rejected *Rejection
	// Only holds the node names that the rules allow, nil for all; OnlyBy holds the rules that narrowed them down.
	Only   []string
	OnlyBy []string
	// verdicts has one entry per candidate: VerdictPass, verdictExcluded, VerdictNarrowed, verdictNone,
	// VerdictExtender, or the index in Filters of the rule that rejected the node.
	verdicts []int16
	// feasible holds the candidates that passed, in the order of the input.
	feasible []*state.NodeInfo
	// nominated is the node the pod has been nominated to, if it passes.
	nominated *state.NodeInfo
	// totals and columns have one entry per feasible node; columns has one column per scorer, normalised.
	totals  []int64
	columns [][]int64
}

// Verdicts that are not the index of a filter; see Evaluation.verdicts. All are negative.
const (
	// VerdictPass: no rule rejects the node.
	VerdictPass int16 = -1 - iota
	// verdictExcluded: the node is in Input.Excluded.
	verdictExcluded
	// VerdictNarrowed: a rule or plugin names the only nodes to evaluate, and this is not one of them.
	VerdictNarrowed
	// verdictNone: the node has not been judged, because a sample was complete before.
	verdictNone
	// VerdictExtender: the rules let the node pass, but a custom plugin or an extender rejects it.
	VerdictExtender
	// VerdictAbsent is used by the engine for slots that are no candidates.
	VerdictAbsent
)

// ActiveFilter is a filter that applies to the pod, and the plugin that it belongs to.
type ActiveFilter struct {
	Plugin string
	Filter rule.Filter
}

// ActiveScorer is a scorer that applies to the pod, and the plugin that it belongs to. Err is set instead of
// Scorer if the rule cannot score; it fails the attempt only if nodes must be compared.
type ActiveScorer struct {
	Plugin    string
	Weight    int64
	Scorer    rule.Scorer
	normalize func([]int64)
	Err       error
}

// ErrNoObject reports a query for a pod without Template.
var ErrNoObject = errors.New("placement: the pod has no object, want one to evaluate")

// Compile compiles every rule for the pod, in order. Admitters come first, as upstream evaluates them before the
// pod is queued. The first rejection ends it, as in upstream's RunPreFilterPlugins: Rejected is set, and Filters
// and Scorers are incomplete. An error means that a rule cannot be applied.
func (e *Evaluation) Compile() error {
	if e.Pod == nil || e.Pod.Template == nil {
		return ErrNoObject
	}
	if e.notAdmitted() {
		return nil
	}
	e.Filters = make([]ActiveFilter, 0, len(e.Profile.rules))
	e.Scorers = make([]ActiveScorer, 0, len(e.Profile.rules))
	for _, r := range e.Profile.rules {
		if e.Late && r.plugin.Name() == names.DynamicResources {
			continue
		}
		c, err := r.plugin.Compile(e.Pod, e.Objects)
		if err != nil && r.points.has(Narrowing) {
			return fmt.Errorf("placement: plugin %s: %w", r.plugin.Name(), err)
		}
		c = r.enabled(c)
		if e.addFilter(r.plugin.Name(), c) {
			return nil
		}
		if c.Scorer != nil || c.ScorerErr != nil {
			e.Scorers = append(e.Scorers, ActiveScorer{
				Plugin: r.plugin.Name(), Weight: r.weight, Scorer: c.Scorer, normalize: c.Normalize, Err: c.ScorerErr,
			})
		}
	}
	e.applyGuidance()
	return nil
}

// notAdmitted reports whether a rule rejects the pod before the rules are compiled.
func (e *Evaluation) notAdmitted() bool {
	for _, r := range e.Profile.rules {
		a, ok := r.plugin.(rule.Admitter)
		if !ok || !r.points.has(Narrowing) || e.Late && r.plugin.Name() == names.DynamicResources {
			continue
		}
		if why := a.Admit(e.Pod, e.Objects); why != "" {
			e.Rejected = &Rejection{message: why, plugins: []string{r.plugin.Name()}}
			return true
		}
	}
	return false
}

// addFilter adds the filtering part of a rule; it reports whether the pod is rejected.
func (e *Evaluation) addFilter(plugin string, c rule.Compiled) (rejected bool) {
	if c.Rejection != "" {
		e.Rejected = &Rejection{message: c.Rejection, plugins: []string{plugin}}
		return true
	}
	if c.OnlyNodes != nil {
		e.narrow(plugin, c.OnlyNodes)
		if len(e.Only) == 0 {
			e.Rejected = &Rejection{message: e.narrowedToNothing(), plugins: e.OnlyBy}
			return true
		}
	}
	if c.Filter != nil {
		e.Filters = append(e.Filters, ActiveFilter{Plugin: plugin, Filter: c.Filter})
	}
	return false
}

// SurveyFilters lets the filters that have to see all nodes do so. It must be called once, before Verdict, and
// replaces these filters by surveyed ones.
func (e *Evaluation) SurveyFilters() {
	for i := range e.Filters {
		if f, ok := e.Filters[i].Filter.(rule.ClusterFilter); ok {
			e.Filters[i].Filter = f.Survey(e.Nodes)
		}
	}
}

// narrow restricts Only to the names that this plugin allows as well. Only stays sorted.
func (e *Evaluation) narrow(plugin string, names []string) {
	names = slices.Sorted(slices.Values(names))
	if e.OnlyBy == nil {
		e.Only = slices.Compact(names)
	} else {
		e.Only = slices.DeleteFunc(e.Only, func(name string) bool {
			_, found := slices.BinarySearch(names, name)
			return !found
		})
	}
	e.OnlyBy = append(e.OnlyBy, plugin)
	slices.Sort(e.OnlyBy)
}

// narrowedToNothing returns upstream's message for plugins whose node names have none in common.
func (e *Evaluation) narrowedToNothing() string {
	if len(e.OnlyBy) == 1 {
		return fmt.Sprintf("node(s) didn't satisfy plugin %v", e.OnlyBy[0])
	}
	return fmt.Sprintf("node(s) didn't satisfy plugin(s) %v simultaneously", e.OnlyBy)
}

// IsNarrowed reports whether the rules narrowed the node out.
func (e *Evaluation) IsNarrowed(n *state.NodeInfo) bool {
	if e.Only == nil {
		return false
	}
	_, found := slices.BinarySearch(e.Only, n.Node.Name)
	return !found
}

// Verdict returns the result of the filters for a node, which has been surveyed.
func (e *Evaluation) Verdict(n *state.NodeInfo) int16 {
	if len(e.Excluded) > 0 {
		if _, found := e.Excluded[n.Node.UID]; found {
			return verdictExcluded
		}
	}
	for i := range e.Filters {
		if e.Filters[i].Filter.Check(n) != rule.Success {
			return int16(i)
		}
	}
	if e.rejectedByExtender(n) {
		return VerdictExtender
	}
	return VerdictPass
}

// applyGuidance applies the results of custom plugins after those of the rules, as upstream's default plugins come
// before those that a file adds.
func (e *Evaluation) applyGuidance() {
	if e.Guidance == nil {
		return
	}
	for _, n := range e.Guidance.Only {
		e.narrow(n.Plugin, n.Nodes)
		if len(e.Only) == 0 {
			e.Rejected = &Rejection{message: e.narrowedToNothing(), plugins: e.OnlyBy}
			return
		}
	}
	if e.Guidance.Plugin != "" {
		e.Rejected = &Rejection{
			message: e.Guidance.Rejection, plugins: []string{e.Guidance.Plugin}, resolvable: e.Guidance.Resolvable,
		}
	}
}

// rejectedByExtender reports whether a custom plugin or an extender has rejected a node that the rules let pass.
func (in *Input) rejectedByExtender(n *state.NodeInfo) bool { return in.Opinions[n.Node.Name].Rejected }
