package placement

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Diagnosis explains why no node can take a pod. The zero value describes a cluster without nodes.
type Diagnosis struct {
	nodesTotal int
	// rejection is the message of a rule that rejected the pod without evaluating nodes.
	rejection string
	// reasons counts nodes; a node with several reasons counts for each of them.
	reasons map[string]int32
	// plugins are the rules that the pod waits for; groups are the nodes by reasons, most first.
	plugins map[string]struct{}
	groups  []Group
}

// Group is a set of nodes that failed for the same reasons: the first rule that rejected them, with all its
// reasons.
type Group struct {
	// Rule is empty for nodes that were excluded. Where several rules narrowed the nodes down together, it names
	// all of them, separated by commas.
	Plugin  string
	Reasons []string
	Nodes   int32
}

// Message returns the sentence for the pod's condition and event, in upstream's grammar (FitError.Error): "0/5
// nodes are available: 2 Insufficient cpu, 3 node(s) were unschedulable.". Entries are sorted as strings, counts
// included.
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

// NodesTotal returns the number of nodes to choose from.
func (d Diagnosis) NodesTotal() int { return d.nodesTotal }

// Sentence returns the Message for a pod that fits on none of this many nodes, for reasons that count nodes.
func Sentence(nodesTotal int, reasons map[string]int32) string {
	return Diagnosis{nodesTotal: nodesTotal, reasons: reasons}.Message()
}

// Everywhere reports whether a rule has rejected the pod without evaluating nodes.
func (d Diagnosis) Everywhere() bool { return d.rejection != "" }

// Plugins returns the names of the rules whose rejection has to change for the pod to fit, sorted. The pod waits
// for changes that these rules listen to (see Profile.Wakes).
func (d Diagnosis) Plugins() []string { return slices.Sorted(maps.Keys(d.plugins)) }

// Awaiting returns the diagnosis of a pod that waits for changes of these rules as well. Its message is the same.
func (d Diagnosis) Awaiting(plugins []string) Diagnosis {
	if len(plugins) == 0 {
		return d
	}
	all := maps.Clone(d.plugins)
	if all == nil {
		all = map[string]struct{}{}
	}
	for _, name := range plugins {
		all[name] = struct{}{}
	}
	d.plugins = all
	return d
}

// Reasons counts nodes by reason. The caller owns the map. For a pod that was rejected without evaluating nodes,
// every node counts for that message.
func (d Diagnosis) Reasons() map[string]int32 {
	if d.rejection != "" {
		return map[string]int32{d.rejection: int32(d.nodesTotal)}
	}
	return maps.Clone(d.reasons)
}

// Groups returns the nodes grouped by the reasons why they failed, most nodes first. It is empty for a pod that was
// rejected without evaluating nodes. The slice is shared and must not be changed.
func (d Diagnosis) Groups() []Group { return d.groups }

// NodesByPlugin counts nodes by the first rule that rejected them. The caller owns the map.
func (d Diagnosis) NodesByPlugin() map[string]int32 {
	counts := map[string]int32{}
	for _, g := range d.groups {
		counts[g.Plugin] += g.Nodes
	}
	return counts
}

// DiagnosisOf sums up groups into a Diagnosis. It sorts groups in place and keeps the slice. onlyBy holds the
// rules that narrowed the nodes down: the pod waits for them too, because nodes that were not evaluated might
// have passed.
func DiagnosisOf(nodesTotal int, onlyBy []string, groups []Group) Diagnosis {
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

// Diagnosis returns the diagnosis of a pod that a rule rejects on all nodes.
func (r *Rejection) Diagnosis(nodesTotal int) Diagnosis {
	d := Diagnosis{nodesTotal: nodesTotal, rejection: r.message, plugins: map[string]struct{}{}}
	for _, name := range r.plugins {
		d.plugins[name] = struct{}{}
	}
	return d
}

// Rejection rejects all nodes. plugins are the rules whose changes the pod waits for; message is the text for
// people.
type Rejection struct {
	message string
	plugins []string
	// resolvable reports whether the eviction of pods could change it.
	resolvable bool
}

// NarrowedReason is the reason for nodes that rules narrowed out.
func NarrowedReason(by []string) string {
	return fmt.Sprintf("node(s) didn't satisfy plugin(s) %v", by)
}
