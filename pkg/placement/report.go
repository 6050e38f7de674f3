package placement

import (
	"cmp"
	"strings"

	"github.com/berth-scheduler/berth/pkg/placement/rule"
	"github.com/berth-scheduler/berth/pkg/state"
)

// explain turns a verdict into the rule and its reasons. The plugin is empty for a node that passes or is
// excluded.
func (e *Evaluation) explain(n *state.NodeInfo, verdict int16) (plugin string, reasons []string) {
	switch verdict {
	case VerdictPass:
		return "", nil
	case verdictExcluded:
		return "", []string{e.Excluded[n.Node.UID]}
	case VerdictNarrowed:
		return strings.Join(e.OnlyBy, ","), []string{NarrowedReason(e.OnlyBy)}
	case VerdictExtender:
		o := e.Opinions[n.Node.Name]
		return cmp.Or(o.Plugin, Extenders), o.Reasons
	default:
		f := e.Filters[verdict]
		return f.Plugin, f.Filter.Explain(n)
	}
}

// report describes every node that has been judged, in the order of the input.
func (e *Evaluation) report() []NodeReport {
	reports := make([]NodeReport, 0, len(e.Candidates))
	passed := 0
	for i, n := range e.Candidates {
		if e.Rejected == nil && e.verdicts[i] == verdictNone {
			continue
		}
		reports = append(reports, NodeReport{Node: n})
		r := &reports[len(reports)-1]
		switch {
		case e.Rejected != nil:
			if r.Code = rule.UnschedulableAndUnresolvable; e.Rejected.resolvable {
				r.Code = rule.Unschedulable
			}
			r.Plugin = strings.Join(e.Rejected.plugins, ",")
			r.Reasons = []string{e.Rejected.message}
		case e.verdicts[i] == VerdictPass:
			r.Total, r.Scores = e.totals[passed], e.byPlugin(passed)
			passed++
		default:
			r.Code = rule.UnschedulableAndUnresolvable
			switch v := e.verdicts[i]; {
			case v >= 0:
				r.Code = e.Filters[v].Filter.Check(n)
			case v == VerdictExtender && !e.Opinions[n.Node.Name].Unresolvable:
				r.Code = rule.Unschedulable
			}
			r.Plugin, r.Reasons = e.explain(n, e.verdicts[i])
		}
	}
	return reports
}

// byPlugin lists the scores of one feasible node. Raw scores are computed again: keeping them for every evaluation
// would double its memory.
func (e *Evaluation) byPlugin(feasible int) []PluginScore {
	scores := make([]PluginScore, len(e.Scorers))
	for i, s := range e.Scorers {
		scores[i] = PluginScore{
			Plugin:     s.Plugin,
			Raw:        s.Scorer.Score(e.feasible[feasible]),
			Normalized: e.columns[i][feasible],
			Weight:     s.Weight,
		}
	}
	return scores
}

// weigh fills in Result.Weighed for a decision from scratch.
func (e *Evaluation) weigh(order []Ranked) {
	if e.Weigh <= 0 || e.columns == nil {
		return
	}
	w := &e.Result.Weighed
	for i := range e.Scorers {
		w.Plugins = append(w.Plugins, e.Scorers[i].Plugin)
	}
	for _, c := range order[:min(e.Weigh, len(order))] {
		points := make([]int64, len(e.Scorers))
		for i := range e.Scorers {
			points[i] = e.Scorers[i].Weight * e.columns[i][c.Index]
		}
		w.Points = append(w.Points, points)
	}
}

// diagnose fills in the result for a pod that fits on no node.
func (e *Evaluation) diagnose() {
	if e.Rejected != nil {
		e.Result.Diagnosis = e.Rejected.Diagnosis(len(e.Candidates))
	} else {
		e.Result.Diagnosis = DiagnosisOf(len(e.Candidates), e.OnlyBy, e.failures())
	}
	if e.Details {
		e.Result.Nodes = e.report()
	}
}

// failures groups the candidates by the reasons why they fail, in the order in which the reasons first occur.
func (e *Evaluation) failures() []Group {
	var groups []Group
	places := map[string]int{}
	for i, n := range e.Candidates {
		plugin, reasons := e.explain(n, e.verdicts[i])
		key := strings.Join(append([]string{plugin}, reasons...), "\x00")
		at, ok := places[key]
		if !ok {
			at = len(groups)
			places[key] = at
			groups = append(groups, Group{Plugin: plugin, Reasons: reasons})
		}
		groups[at].Nodes++
	}
	return groups
}
