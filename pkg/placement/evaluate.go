package placement

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/berth-scheduler/berth/pkg/placement/names"
	"github.com/berth-scheduler/berth/pkg/placement/rule"
	"github.com/berth-scheduler/berth/pkg/state"
)

// TopK is how many feasible nodes a Result ranks by default: the best one, and enough alternatives for a shard that
// loses races.
const TopK = 16

// Input is everything that a decision depends on in addition to the profile.
type Input struct {
	// Pod is the pod to place; its Template must be set.
	Pod *state.Pod
	// Nodes holds all nodes of the cluster, with the pods as the caller counts them, in a stable order. Some rules
	// and scores depend on nodes that do not take the pod, so leaving some out changes the answer; use Candidates
	// or Excluded for nodes that must not be used now.
	Nodes []*state.NodeInfo
	// Candidates holds those of Nodes to choose from, in the same order; the Result is about these. nil means all.
	Candidates []*state.NodeInfo
	// Objects holds the other objects of the cluster; nil for none. Without them no pod is spread by default, and
	// no namespace has labels.
	Objects rule.Objects
	// Seed breaks ties. Equal inputs give equal results.
	Seed uint64
	// Home holds the UIDs of nodes that are ranked before others with the same total; nil for none.
	Home map[string]bool
	// Start is where a profile that samples starts, 0 or more: a position in ZoneOrder, modulo its length. The next
	// Start is (Start + Examined) modulo NodesTotal.
	Start int
	// Excluded maps UIDs of nodes that must not be used to the reason that is counted for them.
	Excluded map[string]string
	// Opinions holds the results of custom plugins and extenders for nodes, by node name. Nodes without an entry
	// are not rejected.
	Opinions map[string]Opinion
	// Guidance is the result of custom plugins for the pod before nodes are evaluated; nil for none.
	Guidance *Guidance
	// Everywhere evaluates all nodes, even if the pod fits on the node that it has been nominated to.
	Everywhere bool
	// Limit is how many feasible nodes to rank: 0 means TopK, a negative value means all.
	Limit int
	// Weigh requests Result.Weighed for this many of the best nodes.
	Weigh int
	// Details requests Result.Nodes and Scored.ByPlugin, which cost an allocation per node and plugin.
	Details bool
}

// Result is the answer for one pod.
type Result struct {
	// Feasible ranks the best feasible nodes, best first: by total, then Input.Home, then a hash of seed and node
	// UID. For a pod that fits on the node that it has been nominated to, it holds that node only.
	Feasible []Scored
	// FeasibleCount is the number of feasible nodes; NodesTotal is the number of nodes to choose from. A profile
	// that samples counts the feasible nodes it found, not all that exist.
	FeasibleCount, NodesTotal int
	// Examined is how many nodes the search has judged, without those that rules narrowed out. It is 0 when there
	// was no search: the pod is placed on the node that it has been nominated to, or a rule rejects it on all
	// nodes.
	Examined int
	// Diagnosis explains why no node is feasible; empty when one is.
	Diagnosis Diagnosis
	// Class is the same for pods that no rule can distinguish, in all processes of one version of Berth; 0 from
	// Profile.Evaluate. Weighed and Rejected are set when Query.Weigh requests them: Weighed if nodes were
	// compared, Rejected by an engine. The engine counts nodes by the first rule that rejects them among the rules
	// on a single node, and counts the remaining nodes together under the names of the other rules. Like Feasible,
	// both belong to the engine, except Weighed.Plugins.
	Class    uint64
	Weighed  Weighed
	Rejected []RejectedBy
	// Nodes reports on every candidate that has been judged, in the order of the input, if Details requested it.
	Nodes []NodeReport
	// Err is set if the attempt failed for a reason other than that no node fits (upstream's SchedulerError).
	// Everything else is then empty.
	Err error
}

// Scored is one feasible node.
type Scored struct {
	Node *state.NodeInfo
	// Total is the weighted sum; 0 when the node is the only one, because it is not scored then.
	Total int64
	// ByPlugin is set if Details requested it.
	ByPlugin []PluginScore
}

// Weighed shows how the totals of the best nodes are composed: Points[i][j] is the number of points that Plugins[j]
// added to the total of Feasible[i], weights included.
type Weighed struct {
	Plugins []string
	Points  [][]int64
}

// RejectedBy counts the nodes that a rule rejected. Plugin holds several names, separated by commas, where it is
// not known which of them it was.
type RejectedBy struct {
	Plugin string
	Nodes  int32
}

// PluginScore is one rule's contribution: Weight times Normalized.
type PluginScore struct {
	Plugin          string
	Raw, Normalized int64
	Weight          int64
}

// NodeReport is the full report on one node.
type NodeReport struct {
	Node *state.NodeInfo
	// Code is the verdict. Plugin and Reasons are set for a node that failed: the first rule that rejected it, with
	// its reasons. Plugin is empty for an excluded node.
	Code    rule.Code
	Plugin  string
	Reasons []string
	// Total and Scores are set for a node that passed.
	Total  int64
	Scores []PluginScore
}

// Evaluate decides about one pod from scratch.
func (p *Profile) Evaluate(in Input) Result {
	if in.Candidates == nil {
		in.Candidates = in.Nodes
	}
	if len(in.Candidates) == 0 {
		return Result{}
	}
	if in.Start < 0 {
		return Result{Err: fmt.Errorf("placement: start is %d, want 0 or more", in.Start)}
	}
	e := Evaluation{Input: in, Profile: p, Result: Result{NodesTotal: len(in.Candidates)}}
	e.Objects = rule.OrNone(in.Objects)
	if err := e.Compile(); err != nil {
		return Result{Err: err}
	}
	if e.Rejected == nil {
		e.filterNodes()
	}
	if len(e.feasible) == 0 {
		e.diagnose()
		return e.Result
	}
	if err := e.score(); err != nil {
		return Result{Err: err}
	}
	e.rank()
	return e.Result
}

// Evaluation is one Evaluate in progress.
type Evaluation struct {
	Input
	Profile *Profile
	Result  Result

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
	feasible []*state.NodeInfo
	// nominated is the node the pod has been nominated to, if it passes.
	nominated *state.NodeInfo
	// totals and columns have one entry per feasible node; columns has one column per scorer, normalised.
	totals  []int64
	columns [][]int64
}

const (
	VerdictPass int16 = -1 - iota
	verdictExcluded
	VerdictNarrowed
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

// ActiveScorer is a scorer that applies to the pod, and the plugin that it belongs to.
type ActiveScorer struct {
	Plugin    string
	Weight    int64
	Scorer    rule.Scorer
	normalize func([]int64)
	Err       error
}

// Rejection rejects all nodes. plugins are the rules whose changes the pod waits for.
type Rejection struct {
	message string
	plugins []string
	// resolvable reports whether the eviction of pods could change it.
	resolvable bool
}

// ErrNoObject reports a query for a pod without Template.
var ErrNoObject = errors.New("placement: the pod has no object, want one to evaluate")

// Compile compiles every rule for the pod, in order. The first rejection ends it, as in upstream's
// RunPreFilterPlugins.
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
	e.heedGuidance()
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

// SurveyFilters lets the filters that have to see all nodes do so.
func (e *Evaluation) SurveyFilters() {
	for i := range e.Filters {
		if f, ok := e.Filters[i].Filter.(rule.ClusterFilter); ok {
			e.Filters[i].Filter = f.Survey(e.Nodes)
		}
	}
}

// narrow restricts only to the names that this plugin allows as well.
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

func (e *Evaluation) narrowedToNothing() string {
	if len(e.OnlyBy) == 1 {
		return fmt.Sprintf("node(s) didn't satisfy plugin %v", e.OnlyBy[0])
	}
	return fmt.Sprintf("node(s) didn't satisfy plugin(s) %v simultaneously", e.OnlyBy)
}

// filterNodes gives every node its verdict. A pod that has been nominated to a node is evaluated there first and
// placed there if it fits, as in upstream's evaluateNominatedNode.
func (e *Evaluation) filterNodes() {
	e.SurveyFilters()
	e.nominated = e.findNominated()
	if e.nominated != nil && !e.Details {
		e.feasible = []*state.NodeInfo{e.nominated}
		return
	}
	e.verdicts = make([]int16, len(e.Candidates))
	e.feasible = make([]*state.NodeInfo, 0, len(e.Candidates))
	if all := len(e.Candidates); e.nominated == nil && e.Profile.SampleSize(all) < all {
		e.judgeSample()
	} else {
		e.judgeAll()
	}
	for i, n := range e.Candidates {
		if e.verdicts[i] == VerdictPass {
			e.feasible = append(e.feasible, n)
		}
	}
	if e.nominated != nil {
		e.Result.Examined = 0
	}
}

func (e *Evaluation) judgeAll() {
	for i, n := range e.Candidates {
		if e.IsNarrowed(n) {
			e.verdicts[i] = VerdictNarrowed
			continue
		}
		e.verdicts[i] = e.Verdict(n)
		e.Result.Examined++
	}
}

func (e *Evaluation) findNominated() *state.NodeInfo {
	name := e.Pod.Status().NominatedNodeName
	if name == "" || e.Everywhere {
		return nil
	}
	i := slices.IndexFunc(e.Candidates, func(n *state.NodeInfo) bool { return n.Node.Name == name })
	if i < 0 || e.Verdict(e.Candidates[i]) != VerdictPass {
		return nil
	}
	return e.Candidates[i]
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

// score fills totals and columns. A single feasible node needs no comparison.
func (e *Evaluation) score() error {
	e.totals = make([]int64, len(e.feasible))
	if len(e.feasible) == 1 && !e.Details {
		return nil
	}
	if err := e.survey(); err != nil {
		return err
	}
	cells := make([]int64, len(e.Scorers)*len(e.feasible))
	for i := range e.Scorers {
		s := &e.Scorers[i]
		var column []int64
		column, cells = cells[:len(e.feasible):len(e.feasible)], cells[len(e.feasible):]
		for j, n := range e.feasible {
			column[j] = s.Scorer.Score(n)
		}
		if s.normalize != nil {
			s.normalize(column)
		}
		for j, v := range column {
			if v < rule.MinScore || v > rule.MaxScore {
				return fmt.Errorf("placement: plugin %s gave node %s the score %d, want %d to %d",
					s.Plugin, e.feasible[j].Node.Name, v, rule.MinScore, rule.MaxScore)
			}
			e.totals[j] += v * s.Weight
		}
		e.columns = append(e.columns, column)
	}
	e.advise()
	return nil
}

// survey prepares the scorers and drops those that do not apply.
func (e *Evaluation) survey() error {
	active := e.Scorers[:0]
	for _, s := range e.Scorers {
		if s.Err != nil {
			return fmt.Errorf("placement: plugin %s: %w", s.Plugin, s.Err)
		}
		if c, ok := s.Scorer.(rule.ClusterScorer); ok {
			s.Scorer = c.Survey(e.Nodes, e.feasible)
		}
		if n, ok := s.Scorer.(rule.Normalizer); ok {
			s.normalize = n.Normalize
		}
		if s.Scorer != nil {
			active = append(active, s)
		}
	}
	e.Scorers = active
	return nil
}

// tie returns the key that orders nodes of equal total, the highest first; see Input.Home.
func (e *Evaluation) tie(n *state.NodeInfo) uint64 {
	tie := TieBreak(e.Seed, n.Node.UIDHash)
	if e.Home == nil {
		return tie
	}
	return HomeFirst(tie, e.Home[n.Node.UID])
}

// rank fills Feasible with the best nodes.
func (e *Evaluation) rank() {
	limit := e.Limit
	switch {
	case limit == 0:
		limit = TopK
	case limit < 0:
		limit = math.MaxInt
	}
	order := best(e.feasible, e.totals, e.tie, limit)
	if e.nominated != nil {
		i := max(slices.Index(e.feasible, e.nominated), 0)
		order = []Ranked{{Total: e.totals[i], Index: i}}
	}
	e.Result.FeasibleCount = len(e.feasible)
	e.Result.Feasible = make([]Scored, len(order))
	for i, c := range order {
		e.Result.Feasible[i] = Scored{Node: e.feasible[c.Index], Total: c.Total}
		if e.Details {
			e.Result.Feasible[i].ByPlugin = e.byPlugin(c.Index)
		}
	}
	e.weigh(order)
	if e.Details {
		e.Result.Nodes = e.report()
	}
}
