package placement

import (
	"slices"
	"strings"

	"github.com/berth-scheduler/berth/pkg/state"
)

// counter is a surveyed filter that counts pods on many nodes and can be updated when one of them is removed (-1)
// or put back (1). The surveyed cluster itself does not change.
type counter interface {
	Filter
	recount(n *state.Node, pod *state.Pod, by int)
}

// seat is a pod on the node where it is, or is expected.
type seat struct {
	node *state.NodeInfo
	pod  *state.Pod
	// started is in nanoseconds since 1970; notStarted for a pod that has not started.
	started int64
}

// whatIf evaluates the filters of an evaluation on a cluster in which some pods are gone. Everything can be undone:
// reset returns to the actual cluster.
type whatIf struct {
	filters  []activeFilter
	counters []counter
	// copies holds copies of the nodes from which pods have been removed; gone holds those pods by UID.
	copies map[*state.NodeInfo]*state.NodeInfo
	gone   map[string]seat
}

// newWhatIf takes ownership of the filters; they must have been surveyed for it alone.
func newWhatIf(filters []activeFilter) *whatIf {
	w := &whatIf{
		filters: filters, copies: map[*state.NodeInfo]*state.NodeInfo{}, gone: map[string]seat{},
	}
	for i := range filters {
		if c, ok := filters[i].filter.(counter); ok {
			w.counters = append(w.counters, c)
		}
	}
	return w
}

// keepDevices makes removed pods keep their devices.
func (w *whatIf) keepDevices() {
	w.counters = slices.DeleteFunc(w.counters, func(c counter) bool {
		_, ok := c.(*deviceDemand)
		return ok
	})
}

// at returns the hypothetical state of a node.
func (w *whatIf) at(n *state.NodeInfo) *state.NodeInfo {
	if c, ok := w.copies[n]; ok {
		return c
	}
	return n
}

func (w *whatIf) remove(s seat) {
	c, ok := w.copies[s.node]
	if !ok {
		c = s.node.Clone()
		w.copies[s.node] = c
	}
	c.RemovePod(s.pod.UID)
	w.gone[s.pod.UID] = s
	for _, f := range w.counters {
		f.recount(s.node.Node, s.pod, -1)
	}
}

func (w *whatIf) restore(s seat) {
	w.copies[s.node].AddPod(s.pod)
	delete(w.gone, s.pod.UID)
	for _, f := range w.counters {
		f.recount(s.node.Node, s.pod, 1)
	}
}

// reset puts all pods back.
func (w *whatIf) reset() {
	for _, s := range w.gone {
		for _, f := range w.counters {
			f.recount(s.node.Node, s.pod, 1)
		}
	}
	clear(w.gone)
	clear(w.copies)
}

// check returns the verdict about a node: that of the first filter that rejects it, or verdictPass.
func (w *whatIf) check(n *state.NodeInfo) int16 {
	n = w.at(n)
	for i := range w.filters {
		if w.filters[i].filter.Check(n) != Success {
			return int16(i)
		}
	}
	return verdictPass
}

// FitsWithout reports whether the pod fits on a node of the input when the pods with these UIDs are gone from all
// nodes; with an empty set, whether it fits as things are. If not, it returns which rule rejects the node. A hold
// can be tested in this way both for now and for the time after its victims are gone. Candidates, Seed, Start,
// Limit and Details of the input are ignored, and so is a nomination.
func (p *Profile) FitsWithout(in Input, node *state.NodeInfo, gone map[string]bool) (bool, Failure, error) {
	in.Objects = orNoObjects(in.Objects)
	e := evaluation{Input: in, profile: p}
	if err := e.compile(); err != nil {
		return false, Failure{}, err
	}
	no := Failure{Code: UnschedulableAndUnresolvable}
	if e.rejected != nil {
		no.Plugin, no.Reasons = strings.Join(e.rejected.plugins, ","), []string{e.rejected.message}
		return false, no, nil
	}
	e.surveyFilters()
	w := newWhatIf(e.filters)
	defer w.reset()
	for _, n := range in.Nodes {
		for pod := range n.Pods() {
			if gone[pod.UID] {
				w.remove(seat{node: n, pod: pod})
			}
		}
	}
	verdict := verdictNarrowed
	if !e.isNarrowed(node) {
		if verdict = e.verdict(w.at(node)); verdict == verdictPass {
			return true, Failure{}, nil
		}
	}
	if verdict >= 0 {
		no.Code = e.filters[verdict].filter.Check(w.at(node))
	}
	no.Plugin, no.Reasons = e.explain(w.at(node), verdict)
	return false, no, nil
}

// LacksDevices reports whether the node has too few devices.
func (f Failure) LacksDevices() bool {
	return f.Plugin == DynamicResources && slices.Contains(f.Reasons, cannotAllocate)
}

// affinity returns the filter for pod affinity, nil if it does not apply.
func (w *whatIf) affinity() *podAffinityFilter {
	for _, c := range w.counters {
		if f, ok := c.(*podAffinityFilter); ok {
			return f
		}
	}
	return nil
}

// spread returns the filter for hard spread, nil if it does not apply.
func (w *whatIf) spread() *spreadFilter {
	for _, c := range w.counters {
		if f, ok := c.(*spreadFilter); ok {
			return f
		}
	}
	return nil
}
