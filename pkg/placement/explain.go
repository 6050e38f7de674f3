package placement

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/state"
)

// Explanation is what there is to say to people about a pod and all nodes, beyond the
// Diagnosis that a decision leaves.
type Explanation struct {
	// Rejection is set when a rule rejects the pod on all nodes at once; nothing else is.
	Rejection string
	// Feasible is how many nodes would take the pod.
	Feasible int
	// Classes are nodes that fail the same rules for the same reasons, most nodes first.
	Classes []NodeClass
	// Nearest are the nodes that came closest to taking the pod, closest first, at most
	// NearestMisses: those that fail the fewest rules, of these those that pods leaving could
	// help, then those that lack the smallest share of what is asked for.
	Nearest []Miss
}

// NearestMisses is how many of these an Explanation has.
const NearestMisses = 3

// NodeClass is nodes that fail the same rules for the same reasons.
type NodeClass struct {
	Failures []Failure
	Nodes    int
	// Examples are names of some of them, in order, at most ClassExamples.
	Examples []string
}

// ClassExamples is how many names a NodeClass has.
const ClassExamples = 3

// Failure is one rule that says no to a node. Unlike a decision, which stops at the first,
// an explanation has all of them.
type Failure struct {
	Plugin  string
	Code    Code
	Reasons []string
	// Details say more than a reason does, whose words are upstream's: which taints, which labels.
	Details []string `json:",omitempty"`
}

// detailer is a filter that can say more about a node than its reasons.
type detailer interface {
	details(n *state.NodeInfo) []string
}

// details implements detailer: the taints that are not tolerated.
func (f taintFilter) details(n *state.NodeInfo) []string {
	var list []string
	for i := range n.Node.Object.Spec.Taints {
		t := &n.Node.Object.Spec.Taints[i]
		if t.Effect != corev1.TaintEffectPreferNoSchedule && !tolerates(f.tolerations, t) {
			list = append(list, "taint "+t.ToString())
		}
	}
	return list
}

// details implements detailer: the labels that the pod selects and the node does not have.
func (f affinityFilter) details(n *state.NodeInfo) []string {
	var list []string
	for _, key := range slices.Sorted(maps.Keys(f.selector)) {
		if value, ok := n.Node.Object.Labels[key]; !ok || value != f.selector[key] {
			list = append(list, "no label "+key+"="+f.selector[key])
		}
	}
	return list
}

func detailsOf(f Filter, n *state.NodeInfo) []string {
	if d, ok := f.(detailer); ok {
		return d.details(n)
	}
	return nil
}

// Miss is a node that nearly took the pod.
type Miss struct {
	Node     string
	Failures []Failure
	// Short are the resources there is too little of, sorted by name.
	Short []Shortage
}

// Shortage is one resource that a node has too little of; amounts as in state.Resources.
type Shortage struct {
	Resource            string
	Asked, Free, Lacked int64
}

// Explain looks at a pod and every candidate with every rule of the profile. It costs more
// than Evaluate and is no part of a decision. Limit, Seed, Start and Details of the input
// mean nothing here.
func (p *Profile) Explain(in Input) (Explanation, error) {
	if in.Candidates == nil {
		in.Candidates = in.Nodes
	}
	e := evaluation{Input: in, profile: p}
	e.Objects = orNoObjects(in.Objects)
	if err := e.compile(); err != nil {
		return Explanation{}, err
	}
	if e.rejected != nil {
		return Explanation{Rejection: e.rejected.message}, nil
	}
	e.surveyFilters()
	var (
		x       Explanation
		misses  []Miss
		classes = map[string]*NodeClass{}
	)
	for _, n := range e.Candidates {
		failures := e.allFailures(n)
		if len(failures) == 0 {
			x.Feasible++
			continue
		}
		addToClass(classes, n.Node.Name, failures)
		misses = keepNearest(misses, Miss{Node: n.Node.Name, Failures: failures, Short: e.shortages(n)})
	}
	for _, key := range slices.Sorted(maps.Keys(classes)) {
		x.Classes = append(x.Classes, *classes[key])
	}
	slices.SortStableFunc(x.Classes, func(a, b NodeClass) int { return cmp.Compare(b.Nodes, a.Nodes) })
	x.Nearest = misses
	return x, nil
}

// allFailures are all rules that say no to a node, in their order.
func (e *evaluation) allFailures(n *state.NodeInfo) []Failure {
	var list []Failure
	if e.isNarrowed(n) {
		plugin, reasons := e.explain(n, verdictNarrowed)
		list = append(list, Failure{Plugin: plugin, Code: UnschedulableAndUnresolvable, Reasons: reasons})
	}
	if reason, ok := e.Excluded[n.Node.UID]; ok {
		list = append(list, Failure{Code: UnschedulableAndUnresolvable, Reasons: []string{reason}})
	}
	for _, f := range e.filters {
		if code := f.filter.Check(n); code != Success {
			list = append(list, Failure{f.plugin, code, f.filter.Explain(n), detailsOf(f.filter, n)})
		}
	}
	return list
}

func addToClass(classes map[string]*NodeClass, node string, failures []Failure) {
	var key strings.Builder
	for _, f := range failures {
		fmt.Fprintf(&key, "%s\x00%d\x00%s\x00", f.Plugin, f.Code, strings.Join(slices.Concat(f.Reasons, f.Details), "\x00"))
	}
	c, ok := classes[key.String()]
	if !ok {
		c = &NodeClass{Failures: failures}
		classes[key.String()] = c
	}
	c.Nodes++
	if len(c.Examples) < ClassExamples {
		c.Examples = append(c.Examples, node)
	}
}

// keepNearest puts a miss among the nearest so far, if it is one.
func keepNearest(list []Miss, m Miss) []Miss {
	at, _ := slices.BinarySearchFunc(list, m, func(a, b Miss) int {
		return cmp.Or(
			cmp.Compare(len(a.Failures), len(b.Failures)),
			cmp.Compare(a.hopeless(), b.hopeless()),
			cmp.Compare(a.lack(), b.lack()),
			cmp.Compare(a.Node, b.Node),
		)
	})
	list = slices.Insert(list, at, m)
	return list[:min(len(list), NearestMisses)]
}

// hopeless counts the rules that say no whatever pods leave.
func (m *Miss) hopeless() int {
	count := 0
	for _, f := range m.Failures {
		if f.Code == UnschedulableAndUnresolvable {
			count++
		}
	}
	return count
}

// lack sums up which share of each resource asked for is lacking.
func (m *Miss) lack() float64 {
	var sum float64
	for _, s := range m.Short {
		sum += float64(s.Lacked) / float64(s.Asked)
	}
	return sum
}

// shortages are what a node has too little of, by the rule about resources.
func (e *evaluation) shortages(n *state.NodeInfo) []Shortage {
	var list []Shortage
	for _, f := range e.filters {
		if fit, ok := f.filter.(fitFilter); ok {
			list = append(list, fit.shortages(n)...)
		}
	}
	return list
}

func (f fitFilter) shortages(n *state.NodeInfo) []Shortage {
	var list []Shortage
	add := func(name string, asked, free int64) {
		if asked > 0 && asked > free {
			list = append(list, Shortage{name, asked, free, asked - free})
		}
	}
	total, used := &n.Node.Allocatable, &n.Requested
	add("cpu", f.request.MilliCPU, total.MilliCPU-used.MilliCPU)
	add("ephemeral-storage", f.request.EphemeralStorage, total.EphemeralStorage-used.EphemeralStorage)
	for _, x := range f.extended {
		add(x.name, x.value, total.Extended[x.name]-used.Extended[x.name])
	}
	add("memory", f.request.Memory, total.Memory-used.Memory)
	add("pods", 1, total.Pods-int64(n.PodCount()))
	slices.SortFunc(list, func(a, b Shortage) int { return cmp.Compare(a.Resource, b.Resource) })
	return list
}
