package placement

import (
	"github.com/berth-scheduler/berth/pkg/placement/rule"
	"github.com/berth-scheduler/berth/pkg/state"
)

// Beside judges nodes for a pod as if further pods counted there: those that are nominated to the node, for example. It
// is for one decision: what the input refers to must not change meanwhile. It is for one goroutine.
type Beside struct {
	evaluation Evaluation
	// cluster is nil if a rule rejects the pod on all nodes.
	cluster *WhatIf
}

// Beside returns a Beside for the pod and the nodes of an input. Candidates, Seed, Start, Limit and Details of the
// input are ignored, and so is a nomination of the pod. An error means that a rule cannot be applied.
//
// It costs as much as the rules that look at all nodes for the pod.
func (p *Profile) Beside(in Input) (*Beside, error) {
	in.Objects = rule.OrNone(in.Objects)
	b := &Beside{evaluation: Evaluation{Input: in, Profile: p}}
	if err := b.evaluation.Compile(); err != nil {
		return nil, err
	}
	if b.evaluation.Rejected == nil {
		b.evaluation.SurveyFilters()
		b.cluster = NewWhatIf(b.evaluation.Filters)
	}
	return b, nil
}

// Rejects reports whether a node of the input rejects the pod if further pods count on this node alone, and why. It
// does not report that a rule rejects the pod on all nodes, whatever counts there. Source: the first pass of
// RunFilterPluginsWithNominatedPods in pkg/scheduler/framework/runtime/framework.go.
func (b *Beside) Rejects(n *state.NodeInfo, further []*state.Pod) (Failure, bool) {
	if b.cluster == nil {
		return Failure{}, false
	}
	b.cluster.add(n, further)
	defer b.cluster.take(n, further)
	verdict := b.evaluation.Verdict(b.cluster.At(n))
	if verdict == VerdictPass {
		return Failure{}, false
	}
	plugin, reasons := b.evaluation.explain(b.cluster.At(n), verdict)
	return Failure{Code: rule.Unschedulable, Plugin: plugin, Reasons: reasons}, true
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
