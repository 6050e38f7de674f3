package placement

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/berth-scheduler/berth/pkg/placement/internal/fit"
	"github.com/berth-scheduler/berth/pkg/placement/rule"
	"github.com/berth-scheduler/berth/pkg/state"
)

// Explanation describes a pod and all nodes for people, in more detail than the Diagnosis of a decision.
type Explanation struct {
	// Rejection is set when a rule rejects the pod on all nodes at once; then nothing else is set.
	Rejection string
	// Feasible is how many nodes would take the pod.
	Feasible int
	// Classes groups the nodes that fail the same rules for the same reasons, most nodes first.
	Classes []NodeClass
	// Nearest holds the nodes that came closest to taking the pod, closest first, at most NearestMisses: those that
	// fail the fewest rules, among these those that evictions could help, then those that lack the smallest share
	// of the requested resources.
	Nearest []Miss
}

// NearestMisses is the largest number of entries in Explanation.Nearest.
const NearestMisses = 3

// NodeClass is a set of nodes that fail the same rules for the same reasons.
type NodeClass struct {
	Failures []Failure
	Nodes    int
	// Examples holds the names of some of them, in order, at most ClassExamples.
	Examples []string
}

// ClassExamples is the largest number of names in a NodeClass.
const ClassExamples = 3

// detailer is a filter that can give more details about a node than its reasons.
type detailer interface {
	Details(n *state.NodeInfo) []string
}

// detailsOf returns the details that a filter gives for a node; none if it gives none.
func detailsOf(f rule.Filter, n *state.NodeInfo) []string {
	if d, ok := f.(detailer); ok {
		return d.Details(n)
	}
	return nil
}

// Miss is a node that nearly took the pod.
type Miss struct {
	Node     string
	Failures []Failure
	// Short holds the resources that the node has too little of, sorted by name.
	Short []Shortage
}

// Shortage is one resource that a node has too little of; amounts are in the units of resources.Resources.
type Shortage struct {
	Resource            string
	Asked, Free, Lacked int64
}

// Explain evaluates a pod on every candidate with every rule of the profile. It costs more than Evaluate and is not
// part of a decision. Limit, Seed, Start and Details of the input are ignored.
func (p *Profile) Explain(in Input) (Explanation, error) {
	if in.Candidates == nil {
		in.Candidates = in.Nodes
	}
	e := Evaluation{Input: in, Profile: p}
	e.Objects = rule.OrNone(in.Objects)
	if err := e.Compile(); err != nil {
		return Explanation{}, err
	}
	if e.Rejected != nil {
		return Explanation{Rejection: e.Rejected.message}, nil
	}
	e.SurveyFilters()
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
		misses = insertNearest(misses, Miss{Node: n.Node.Name, Failures: failures, Short: e.shortages(n)})
	}
	for _, key := range slices.Sorted(maps.Keys(classes)) {
		x.Classes = append(x.Classes, *classes[key])
	}
	slices.SortStableFunc(x.Classes, func(a, b NodeClass) int { return cmp.Compare(b.Nodes, a.Nodes) })
	x.Nearest = misses
	return x, nil
}

// allFailures returns all rules that reject a node, in their order.
func (e *Evaluation) allFailures(n *state.NodeInfo) []Failure {
	var list []Failure
	if e.IsNarrowed(n) {
		plugin, reasons := e.explain(n, VerdictNarrowed)
		list = append(list, Failure{Plugin: plugin, Code: rule.UnschedulableAndUnresolvable, Reasons: reasons})
	}
	if reason, ok := e.Excluded[n.Node.UID]; ok {
		list = append(list, Failure{Code: rule.UnschedulableAndUnresolvable, Reasons: []string{reason}})
	}
	for _, f := range e.Filters {
		if code := f.Filter.Check(n); code != rule.Success {
			list = append(list, Failure{f.Plugin, code, f.Filter.Explain(n), detailsOf(f.Filter, n)})
		}
	}
	return list
}

// addToClass adds a node to the class of nodes with the same failures. The first few nodes of a class are its
// examples.
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

// insertNearest inserts a miss if it is among the nearest so far: fewest failures first, then fewest that
// evictions cannot change, then the smallest lack of resources, then the name.
func insertNearest(list []Miss, m Miss) []Miss {
	at, _ := slices.BinarySearchFunc(list, m, func(a, b Miss) int {
		return cmp.Or(
			cmp.Compare(len(a.Failures), len(b.Failures)),
			cmp.Compare(a.unresolvable(), b.unresolvable()),
			cmp.Compare(a.lack(), b.lack()),
			cmp.Compare(a.Node, b.Node),
		)
	})
	list = slices.Insert(list, at, m)
	return list[:min(len(list), NearestMisses)]
}

// unresolvable counts the rules that would reject the node whatever pods were evicted.
func (m *Miss) unresolvable() int {
	count := 0
	for _, f := range m.Failures {
		if f.Code == rule.UnschedulableAndUnresolvable {
			count++
		}
	}
	return count
}

// lack sums up, over the requested resources, the share of each that is lacking: 0 for a node that has enough, 1
// for each resource of which it has nothing free.
func (m *Miss) lack() float64 {
	var sum float64
	for _, s := range m.Short {
		sum += float64(s.Lacked) / float64(s.Asked)
	}
	return sum
}

// shortages returns the resources that a node has too little of, according to the rule about resources.
func (e *Evaluation) shortages(n *state.NodeInfo) []Shortage {
	var list []Shortage
	for _, f := range e.Filters {
		if fit, ok := f.Filter.(fit.Filter); ok {
			fit.Shortages(n, func(name string, asked, free int64) {
				list = append(list, Shortage{Resource: name, Asked: asked, Free: free, Lacked: asked - free})
			})
		}
	}
	slices.SortFunc(list, func(a, b Shortage) int { return cmp.Compare(a.Resource, b.Resource) })
	return list
}
