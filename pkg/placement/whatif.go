package placement

import (
	"slices"
	"strings"

	"github.com/berth-scheduler/berth/pkg/state"
)

// counter is a surveyed filter that counts pods on many nodes and can be told that one of
// them has gone (-1) or come back (1). The cluster it has seen stays as it is.
type counter interface {
	Filter
	recount(n *state.Node, pod *state.Pod, by int)
}

// seat is a pod where it stands or is expected.
type seat struct {
	node *state.NodeInfo
	pod  *state.Pod
	// started is in nanoseconds since 1970; notStarted for one that has not.
	started int64
}

// whatIf asks the filters of an evaluation about a cluster in which some pods are gone. It
// puts everything back: reset returns to the cluster as it is.
type whatIf struct {
	filters  []activeFilter
	counters []counter
	// copies are of the nodes that pods have been taken off, gone those pods by UID.
	copies map[*state.NodeInfo]*state.NodeInfo
	gone   map[string]seat
}

// newWhatIf takes filters over; they must have been surveyed for it alone.
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

// keepDevices leaves pods that go their devices.
func (w *whatIf) keepDevices() {
	w.counters = slices.DeleteFunc(w.counters, func(c counter) bool {
		_, ok := c.(*deviceDemand)
		return ok
	})
}

// at is the node as it would be.
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

// check is the verdict about a node: that of the first filter that says no, or verdictPass.
func (w *whatIf) check(n *state.NodeInfo) int16 {
	n = w.at(n)
	for i := range w.filters {
		if w.filters[i].filter.Check(n) != Success {
			return int16(i)
		}
	}
	return verdictPass
}

// FitsWithout tells whether the pod fits on a node of the input when the pods with these UIDs are
// gone from all nodes, for none whether it fits as things are; if not, which rule says no. A
// hold can be tested so for now and for when its victims have gone. Candidates, Seed, Start,
// Limit and Details of the input mean nothing here, nor does a nomination.
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

// LacksDevices tells whether it is devices that a node has too few of.
func (f Failure) LacksDevices() bool {
	return f.Plugin == DynamicResources && slices.Contains(f.Reasons, cannotAllocate)
}

// affinity is the rule about pod affinity, nil if it has nothing to say.
func (w *whatIf) affinity() *podAffinityFilter {
	for _, c := range w.counters {
		if f, ok := c.(*podAffinityFilter); ok {
			return f
		}
	}
	return nil
}

// spread is the rule about hard spread, nil if it has nothing to say.
func (w *whatIf) spread() *spreadFilter {
	for _, c := range w.counters {
		if f, ok := c.(*spreadFilter); ok {
			return f
		}
	}
	return nil
}
