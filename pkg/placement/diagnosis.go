package placement

import (
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

// diagnose fills the result for a pod that fits nowhere.
func (e *evaluation) diagnose() {
	d := Diagnosis{nodesTotal: len(e.Candidates), reasons: map[string]int32{}, plugins: map[string]struct{}{}}
	if e.rejected != nil {
		d.rejection = e.rejected.message
		for _, name := range e.rejected.plugins {
			d.plugins[name] = struct{}{}
		}
	} else {
		for _, name := range e.onlyBy {
			d.plugins[name] = struct{}{}
		}
		for i, n := range e.Candidates {
			plugin, reasons := e.explain(n, e.verdicts[i])
			if plugin != "" && e.verdicts[i] >= 0 {
				d.plugins[plugin] = struct{}{}
			}
			for _, reason := range reasons {
				d.reasons[reason]++
			}
		}
	}
	e.result.Diagnosis = d
	if e.Details {
		e.result.Nodes = e.report()
	}
}
