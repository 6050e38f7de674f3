package placement

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Diagnosis says why no node can take a pod. The zero value stands for a cluster without
// nodes.
type Diagnosis struct {
	nodesTotal int
	// rejection is the message of a rule that looked at no node.
	rejection string
	// reasons counts nodes; a node with several reasons counts in each.
	reasons map[string]int32
	plugins map[string]struct{}
	groups  []Group
}

// Group is nodes that failed on the same: the rule that said no first, and all that it said.
type Group struct {
	// Plugin is empty for nodes that were excluded. Where rules narrowed the nodes down
	// together it names them all, separated by commas.
	Plugin  string
	Reasons []string
	Nodes   int32
}

// Message is the sentence for the pod's condition and event, in upstream's grammar
// (FitError.Error): "0/5 nodes are available: 2 Insufficient cpu, 3 node(s) were
// unschedulable.". Entries are sorted as strings, counts included.
func (d Diagnosis) Message() string {
	if d.nodesTotal == 0 {
		return "no nodes available to schedule pods"
	}
	head := fmt.Sprintf("0/%d nodes are available:", d.nodesTotal)
	if d.rejection != "" {
		return head + " " + d.rejection + "."
	}
	entries := make([]string, 0, len(d.reasons))
	for reason, count := range d.reasons {
		entries = append(entries, fmt.Sprintf("%d %s", count, reason))
	}
	if len(entries) == 0 {
		return head
	}
	slices.Sort(entries)
	return head + " " + strings.Join(entries, ", ") + "."
}

// Everywhere tells whether a rule has rejected the pod without looking at nodes.
func (d Diagnosis) Everywhere() bool { return d.rejection != "" }

// Plugins are the names of the rules whose no has to turn for the pod to fit, sorted: what
// the pod waits for (see Profile.Wakes).
func (d Diagnosis) Plugins() []string { return slices.Sorted(maps.Keys(d.plugins)) }

// Reasons counts nodes by reason. The map is the caller's. For a pod that was rejected
// without looking at nodes, every node counts for that message.
func (d Diagnosis) Reasons() map[string]int32 {
	if d.rejection != "" {
		return map[string]int32{d.rejection: int32(d.nodesTotal)}
	}
	return maps.Clone(d.reasons)
}

// Groups says which nodes failed on what, most nodes first; empty for a pod that was
// rejected without looking at nodes. The slice is shared and must not be changed.
func (d Diagnosis) Groups() []Group { return d.groups }

// NodesByPlugin counts nodes by the rule that said no first. The map is the caller's.
func (d Diagnosis) NodesByPlugin() map[string]int32 {
	counts := map[string]int32{}
	for _, g := range d.groups {
		counts[g.Plugin] += g.Nodes
	}
	return counts
}

// diagnosisOf sums up groups.
func diagnosisOf(nodesTotal int, onlyBy []string, groups []Group) Diagnosis {
	d := Diagnosis{nodesTotal: nodesTotal, reasons: map[string]int32{}, plugins: map[string]struct{}{}, groups: groups}
	for _, name := range onlyBy {
		d.plugins[name] = struct{}{}
	}
	narrowed := strings.Join(onlyBy, ",")
	for _, g := range groups {
		if g.Plugin != "" && g.Plugin != narrowed {
			d.plugins[g.Plugin] = struct{}{}
		}
		for _, reason := range g.Reasons {
			d.reasons[reason] += g.Nodes
		}
	}
	slices.SortFunc(groups, func(a, b Group) int {
		return cmp.Or(cmp.Compare(b.Nodes, a.Nodes), cmp.Compare(a.Plugin, b.Plugin), slices.Compare(a.Reasons, b.Reasons))
	})
	return d
}

// rejection is the diagnosis of a pod that a rule rejects anywhere.
func (r *rejection) diagnosis(nodesTotal int) Diagnosis {
	d := Diagnosis{nodesTotal: nodesTotal, rejection: r.message, plugins: map[string]struct{}{}}
	for _, name := range r.plugins {
		d.plugins[name] = struct{}{}
	}
	return d
}

// diagnose fills the result for a pod that fits nowhere.
func (e *evaluation) diagnose() {
	if e.rejected != nil {
		e.result.Diagnosis = e.rejected.diagnosis(len(e.Candidates))
	} else {
		e.result.Diagnosis = diagnosisOf(len(e.Candidates), e.onlyBy, e.failures())
	}
	if e.Details {
		e.result.Nodes = e.report()
	}
}

// failures groups the candidates by why they fail.
func (e *evaluation) failures() []Group {
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
