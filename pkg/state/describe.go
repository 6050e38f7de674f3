package state

import (
	"fmt"
	"strings"
)

// Describe returns the state for human readers: stable, sorted, one line per object. Two states with the same
// content and position have the same description.
func (s *Store) Describe() string { return s.Snapshot().Describe() }

// Describe returns the state for human readers; see Store.Describe.
func (s *Snapshot) Describe() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", s.position)
	for node := range s.Nodes() {
		fmt.Fprintf(&b, "node %s uid %s rv %d%s: %s\n",
			node.Name, node.UID, node.ResourceVersion, nodeFlags(node), node.Allocatable)
	}
	for pod := range s.Pods() {
		fmt.Fprintf(&b, "pod %s uid %s rv %d %s priority %d: %s\n",
			pod.Key(), pod.UID, pod.ResourceVersion, podPhase(pod), pod.Priority, pod.Requests)
	}
	for _, k := range kinds[2:] {
		for o := range s.Objects(k) {
			fmt.Fprintf(&b, "%s %s uid %s rv %d\n",
				k, strings.TrimPrefix(o.Namespace+"/"+o.Name, "/"), o.UID, o.ResourceVersion)
		}
	}
	return b.String()
}

// nodeFlags returns the words about a node that follow its version.
func nodeFlags(n *Node) string {
	if n.Object != nil && n.Object.Spec.Unschedulable {
		return " unschedulable"
	}
	return ""
}

// podPhase returns where a pod is in its life, in words: its node or its state before the bind, then what ends it.
func podPhase(p *Pod) string {
	var words []string
	switch {
	case p.NodeName != "":
		words = append(words, "on "+p.NodeName)
	case p.Gated:
		words = append(words, "gated")
	default:
		words = append(words, "pending")
	}
	if p.Terminal {
		words = append(words, "terminal")
	}
	if p.Deleting {
		words = append(words, "deleting")
	}
	return strings.Join(words, " ")
}
