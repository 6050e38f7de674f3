package columns

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/placement/rule"
	"github.com/berth-scheduler/berth/pkg/state"
)

// traitColumn gives the same number to nodes that are alike for the simplest rules: whether they are closed or
// spec.unschedulable, their taints and their declared features. Clusters have thousands of nodes and a handful of
// such combinations.
type traitColumn struct {
	Of []int32
	// IDs maps the combination, written as bytes, to its number; key is scratch.
	IDs map[string]int32
	key []byte
}

// set determines the combination of a node. Taints and features keep their order: nodes that differ only in that
// get different numbers, which costs an evaluation and nothing else.
func (t *traitColumn) set(slot int, n *corev1.Node) {
	kept := byte(0)
	switch {
	case state.Closed(n):
		kept = 2
	case n.Spec.Unschedulable:
		kept = 1
	}
	t.key = append(t.key[:0], kept)
	for i := range n.Spec.Taints {
		taint := &n.Spec.Taints[i]
		t.key = rule.AppendPart(rule.AppendPart(rule.AppendPart(t.key, taint.Key), taint.Value), string(taint.Effect))
	}
	t.key = append(t.key, 0)
	for _, feature := range n.Status.DeclaredFeatures {
		t.key = rule.AppendPart(t.key, feature)
	}
	id, ok := t.IDs[string(t.key)]
	if !ok {
		id = int32(len(t.IDs))
		t.IDs[string(t.key)] = id
	}
	t.Of[slot] = id
}
