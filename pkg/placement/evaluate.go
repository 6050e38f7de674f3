package placement

import (
	"fmt"
	"math"
	"slices"

	"github.com/berth-scheduler/berth/pkg/placement/rule"
	"github.com/berth-scheduler/berth/pkg/state"
)

// Evaluate decides about one pod from scratch. It is a function of its arguments: it keeps nothing between calls,
// and any number of goroutines may call it at once. The cost is proportional to nodes times rules, plus the pods
// on all nodes where a rule counts them; engine.Engine gives the same answers at a lower cost.
//
// The steps: compile the rules; judge the nodes; explain why, if none passes; otherwise score those that passed,
// and rank the best.
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
	if all := len(e.Candidates); e.nominated == nil && !e.Unsampled && e.Profile.SampleSize(all) < all {
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

// judgeAll gives every candidate its verdict, except those that rules narrowed out: they are not evaluated, as
// upstream.
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

// findNominated returns the candidate that the pod has been nominated to, if it passes; nil otherwise. A
// nomination to a node that is not a candidate is ignored.
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

// score fills totals and columns. A single feasible node needs no comparison, so that a scorer that fails does
// not fail the attempt then. Each scorer scores all nodes before the next one, because normalizing compares
// nodes. A score outside MinScore..MaxScore is an error, as upstream.
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
	e.addPoints()
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

// rank fills Feasible with the best nodes. A nominated node is the only entry, even if details were requested for
// all.
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

// addPoints adds the points of custom plugins and extenders to the totals of the feasible nodes.
func (e *Evaluation) addPoints() {
	if len(e.Opinions) == 0 {
		return
	}
	for i, n := range e.feasible {
		e.totals[i] += e.Opinions[n.Node.Name].Points
	}
}

// judgeSample judges as many candidates as it takes to find a sample. It stops before the first feasible node
// beyond the sample, not after the last node of the sample: the nodes in between have been found infeasible, and
// the next search need not begin with them. Upstream does the same with parallelism 1; with more, its workers
// overshoot by a few nodes.
func (e *Evaluation) judgeSample() {
	walk := make([]int, 0, len(e.Candidates))
	for _, i := range ZoneOrder(e.Candidates) {
		e.verdicts[i] = verdictNone
		if e.IsNarrowed(e.Candidates[i]) {
			e.verdicts[i] = VerdictNarrowed
			continue
		}
		walk = append(walk, i)
	}
	enough, found := e.Profile.SampleSize(len(walk)), 0
	for step := range walk {
		i := walk[(e.Start%len(walk)+step)%len(walk)]
		v := e.Verdict(e.Candidates[i])
		if v == VerdictPass {
			if found == enough {
				return
			}
			found++
		}
		e.verdicts[i] = v
		e.Result.Examined++
	}
}
