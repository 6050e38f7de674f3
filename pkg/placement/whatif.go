package placement

import (
	"slices"
	"strings"

	"github.com/berth-scheduler/berth/pkg/placement/devices"
	"github.com/berth-scheduler/berth/pkg/placement/internal/podaffinity"
	"github.com/berth-scheduler/berth/pkg/placement/internal/spread"
	"github.com/berth-scheduler/berth/pkg/placement/rule"
	"github.com/berth-scheduler/berth/pkg/state"
)

// counter is a surveyed filter that counts pods on many nodes and can be updated when one of them is removed (-1)
// or put back (1). The surveyed cluster itself does not change. Without it, every try of a victim would survey
// all nodes.
type counter interface {
	rule.Filter
	Recount(n *state.Node, pod *state.Pod, by int)
}

// PlacedPod is a pod on the node where it is, or is expected.
type PlacedPod struct {
	Node *state.NodeInfo
	Pod  *state.Pod
	// Started is in nanoseconds since 1970; the largest int64 for a pod that has not started.
	Started int64
}

// WhatIf evaluates the filters of an evaluation on a cluster in which some pods are gone. Everything can be
// undone: Reset returns to the actual cluster. A node is cloned when its first pod is removed, and rules about
// other pods are updated by differences (counter), so that a removal costs about as much as one evaluation of a
// node.
type WhatIf struct {
	Filters  []ActiveFilter
	Counters []counter
	// copies holds copies of the nodes from which pods have been removed; gone holds those pods by UID.
	copies map[*state.NodeInfo]*state.NodeInfo
	gone   map[string]PlacedPod
}

// NewWhatIf takes ownership of the filters; they must have been surveyed for it alone, because Remove changes
// their counts.
func NewWhatIf(filters []ActiveFilter) *WhatIf {
	w := &WhatIf{
		Filters: filters, copies: map[*state.NodeInfo]*state.NodeInfo{}, gone: map[string]PlacedPod{},
	}
	for i := range filters {
		if c, ok := filters[i].Filter.(counter); ok {
			w.Counters = append(w.Counters, c)
		}
	}
	return w
}

// KeepDevices makes removed pods keep their devices.
func (w *WhatIf) KeepDevices() {
	w.Counters = slices.DeleteFunc(w.Counters, func(c counter) bool {
		_, ok := c.(*devices.Demand)
		return ok
	})
}

// At returns the hypothetical state of a node: n itself if no pod has been removed from it.
func (w *WhatIf) At(n *state.NodeInfo) *state.NodeInfo {
	if c, ok := w.copies[n]; ok {
		return c
	}
	return n
}

// Remove takes a pod off its node. The pod must be there, and not removed already.
func (w *WhatIf) Remove(s PlacedPod) {
	c, ok := w.copies[s.Node]
	if !ok {
		c = s.Node.Clone()
		w.copies[s.Node] = c
	}
	c.RemovePod(s.Pod.UID)
	w.gone[s.Pod.UID] = s
	for _, f := range w.Counters {
		f.Recount(s.Node.Node, s.Pod, -1)
	}
}

// Restore undoes Remove for one pod.
func (w *WhatIf) Restore(s PlacedPod) {
	w.copies[s.Node].AddPod(s.Pod)
	delete(w.gone, s.Pod.UID)
	for _, f := range w.Counters {
		f.Recount(s.Node.Node, s.Pod, 1)
	}
}

// Reset puts all pods back.
func (w *WhatIf) Reset() {
	for _, s := range w.gone {
		for _, f := range w.Counters {
			f.Recount(s.Node.Node, s.Pod, 1)
		}
	}
	clear(w.gone)
	clear(w.copies)
}

// Check returns the verdict about a node: that of the first filter that rejects it, or VerdictPass. It is cheap
// enough to be called once per removed pod.
func (w *WhatIf) Check(n *state.NodeInfo) int16 {
	n = w.At(n)
	for i := range w.Filters {
		if w.Filters[i].Filter.Check(n) != rule.Success {
			return int16(i)
		}
	}
	return VerdictPass
}

// FitsWithout reports whether the pod fits on a node of the input when the pods with these UIDs are gone from all
// nodes; with an empty set, whether it fits as things are. If not, it returns which rule rejects the node. A hold
// can be tested in this way both for now and for the time after its victims are gone. Candidates, Seed, Start,
// Limit and Details of the input are ignored, and so is a nomination.
func (p *Profile) FitsWithout(in Input, node *state.NodeInfo, gone map[string]bool) (bool, Failure, error) {
	in.Objects = rule.OrNone(in.Objects)
	e := Evaluation{Input: in, Profile: p}
	if err := e.Compile(); err != nil {
		return false, Failure{}, err
	}
	no := Failure{Code: rule.UnschedulableAndUnresolvable}
	if e.Rejected != nil {
		no.Plugin, no.Reasons = strings.Join(e.Rejected.plugins, ","), []string{e.Rejected.message}
		return false, no, nil
	}
	e.SurveyFilters()
	w := NewWhatIf(e.Filters)
	defer w.Reset()
	for _, n := range in.Nodes {
		for pod := range n.Pods() {
			if gone[pod.UID] {
				w.Remove(PlacedPod{Node: n, Pod: pod})
			}
		}
	}
	verdict := VerdictNarrowed
	if !e.IsNarrowed(node) {
		if verdict = e.Verdict(w.At(node)); verdict == VerdictPass {
			return true, Failure{}, nil
		}
	}
	if verdict >= 0 {
		no.Code = e.Filters[verdict].Filter.Check(w.At(node))
	}
	no.Plugin, no.Reasons = e.explain(w.At(node), verdict)
	return false, no, nil
}

// Affinity returns the filter for pod affinity, nil if it does not apply.
func (w *WhatIf) Affinity() *podaffinity.Filter {
	for _, c := range w.Counters {
		if f, ok := c.(*podaffinity.Filter); ok {
			return f
		}
	}
	return nil
}

// Spread returns the filter for hard spread, nil if it does not apply.
func (w *WhatIf) Spread() *spread.Filter {
	for _, c := range w.Counters {
		if f, ok := c.(*spread.Filter); ok {
			return f
		}
	}
	return nil
}
