package placement

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/berth-scheduler/berth/pkg/state"
)

// explain turns a verdict into the rule and its reasons.
func (e *evaluation) explain(n *state.NodeInfo, verdict int16) (plugin string, reasons []string) {
	switch verdict {
	case verdictPass:
		return "", nil
	case verdictExcluded:
		return "", []string{e.Excluded[n.Node.UID]}
	case verdictNarrowed:
		return strings.Join(e.onlyBy, ","), []string{narrowedReason(e.onlyBy)}
	case verdictExtender:
		o := e.Opinions[n.Node.Name]
		return cmp.Or(o.Plugin, Extenders), o.Reasons
	default:
		f := e.filters[verdict]
		return f.plugin, f.filter.Explain(n)
	}
}

// report describes every node that has been judged, in the order of the input.
func (e *evaluation) report() []NodeReport {
	reports := make([]NodeReport, 0, len(e.Candidates))
	passed := 0
	for i, n := range e.Candidates {
		if e.rejected == nil && e.verdicts[i] == verdictNone {
			continue
		}
		reports = append(reports, NodeReport{Node: n})
		r := &reports[len(reports)-1]
		switch {
		case e.rejected != nil:
			if r.Code = UnschedulableAndUnresolvable; e.rejected.resolvable {
				r.Code = Unschedulable
			}
			r.Plugin = strings.Join(e.rejected.plugins, ",")
			r.Reasons = []string{e.rejected.message}
		case e.verdicts[i] == verdictPass:
			r.Total, r.Scores = e.totals[passed], e.byPlugin(passed)
			passed++
		default:
			r.Code = UnschedulableAndUnresolvable
			switch v := e.verdicts[i]; {
			case v >= 0:
				r.Code = e.filters[v].filter.Check(n)
			case v == verdictExtender && !e.Opinions[n.Node.Name].Unresolvable:
				r.Code = Unschedulable
			}
			r.Plugin, r.Reasons = e.explain(n, e.verdicts[i])
		}
	}
	return reports
}

// byPlugin lists the scores of one feasible node. Raw scores are computed again: keeping them for every evaluation
// would double its memory.
func (e *evaluation) byPlugin(feasible int) []PluginScore {
	scores := make([]PluginScore, len(e.scorers))
	for i, s := range e.scorers {
		scores[i] = PluginScore{
			Plugin:     s.plugin,
			Raw:        s.scorer.Score(e.feasible[feasible]),
			Normalized: e.columns[i][feasible],
			Weight:     s.weight,
		}
	}
	return scores
}

// weigh fills in Result.Weighed for a decision from scratch.
func (e *evaluation) weigh(order []candidate) {
	if e.Weigh <= 0 || e.columns == nil {
		return
	}
	w := &e.result.Weighed
	for i := range e.scorers {
		w.Plugins = append(w.Plugins, e.scorers[i].plugin)
	}
	for _, c := range order[:min(e.Weigh, len(order))] {
		points := make([]int64, len(e.scorers))
		for i := range e.scorers {
			points[i] = e.scorers[i].weight * e.columns[i][c.index]
		}
		w.Points = append(w.Points, points)
	}
}

// narrowedReason is the reason for nodes that rules narrowed out.
func narrowedReason(by []string) string {
	return fmt.Sprintf("node(s) didn't satisfy plugin(s) %v", by)
}
