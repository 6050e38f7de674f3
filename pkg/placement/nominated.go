package placement

import (
	"github.com/berth-scheduler/berth/pkg/placement/rule"
	"github.com/berth-scheduler/berth/pkg/state"
)

// RejectedBeside returns which of the nodes of the input reject a pod if further pods count there, by node name, and
// why. beside holds those pods by node name; names of other nodes are ignored. Each node is judged as if only the pods
// beside on this node were added. Candidates, Seed, Start, Limit and Details of the input are ignored, and so is a
// nomination. Source: the first pass of RunFilterPluginsWithNominatedPods in
// pkg/scheduler/framework/runtime/framework.go.
func (p *Profile) RejectedBeside(in Input, beside map[string][]*state.Pod) (map[string]Failure, error) {
	in.Objects = rule.OrNone(in.Objects)
	e := Evaluation{Input: in, Profile: p}
	if err := e.Compile(); err != nil {
		return nil, err
	}
	if e.Rejected != nil {
		return nil, nil // on all nodes, whatever counts there
	}
	e.SurveyFilters()
	w, rejected := NewWhatIf(e.Filters), map[string]Failure{}
	for _, n := range in.Nodes {
		pods := beside[n.Node.Name]
		if len(pods) == 0 {
			continue
		}
		w.add(n, pods)
		if verdict := e.Verdict(w.At(n)); verdict != VerdictPass {
			plugin, reasons := e.explain(w.At(n), verdict)
			rejected[n.Node.Name] = Failure{Code: rule.Unschedulable, Plugin: plugin, Reasons: reasons}
		}
		w.take(n, pods)
	}
	return rejected, nil
}

// add counts further pods on a node.
func (w *WhatIf) add(n *state.NodeInfo, pods []*state.Pod) {
	c := n.Clone()
	w.copies[n] = c
	for _, p := range pods {
		c.AddPod(p)
		for _, f := range w.Counters {
			f.Recount(n.Node, p, 1)
		}
	}
}

// take undoes add.
func (w *WhatIf) take(n *state.NodeInfo, pods []*state.Pod) {
	delete(w.copies, n)
	for _, p := range pods {
		for _, f := range w.Counters {
			f.Recount(n.Node, p, -1)
		}
	}
}
