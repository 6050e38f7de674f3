package nodes

import (
	"fmt"
	"maps"
	"runtime"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Objects returns the nodes of a description, in order. With ready, they carry the conditions that a healthy kubelet
// would report.
func (d Description) Objects(ready bool, now metav1.Time) []*corev1.Node {
	var all []*corev1.Node
	for _, group := range d.Groups {
		for n := range group.count() {
			node := group.object(n)
			if ready {
				node.Status.Conditions = healthy(now)
			}
			all = append(all, node)
		}
	}
	return all
}

func (g Group) count() int { return max(g.Count, 1) }

func (g Group) nodeName(n int) string {
	if g.Name != "" {
		return g.Name
	}
	return fmt.Sprintf("%s%04d", g.NamePrefix, g.First+n)
}

func (g Group) object(n int) *corev1.Node {
	name := g.nodeName(n)
	labels := map[string]string{
		corev1.LabelHostname:   name,
		corev1.LabelOSStable:   "linux",
		corev1.LabelArchStable: runtime.GOARCH,
		// A kubelet sets the old names too; without them the node lifecycle
		// controller adds them with another write for every node.
		"beta.kubernetes.io/os":   "linux",
		"beta.kubernetes.io/arch": runtime.GOARCH,
	}
	if g.Region != "" {
		labels[corev1.LabelTopologyRegion] = g.Region
	}
	if len(g.Zones) > 0 {
		labels[corev1.LabelTopologyZone] = g.Zones[n%len(g.Zones)]
	}
	maps.Copy(labels, g.Labels)
	allocatable := quantities(g.Capacity)
	maps.Copy(allocatable, quantities(g.Allocatable))
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Labels: labels, Annotations: maps.Clone(g.Annotations),
		},
		Spec: corev1.NodeSpec{
			Taints:        append([]corev1.Taint(nil), g.Taints...),
			Unschedulable: g.Unschedulable,
		},
		Status: corev1.NodeStatus{
			Capacity:    quantities(g.Capacity),
			Allocatable: allocatable,
			Images:      g.Images,
			NodeInfo: corev1.NodeSystemInfo{
				Architecture: runtime.GOARCH, OperatingSystem: "linux",
				KubeletVersion: "v1.36.3", OSImage: "simulated",
			},
		},
	}
}

// healthy returns the conditions that a kubelet without problems reports.
func healthy(now metav1.Time) []corev1.NodeCondition {
	condition := func(kind corev1.NodeConditionType, status corev1.ConditionStatus, reason string) corev1.NodeCondition {
		return corev1.NodeCondition{
			Type: kind, Status: status, Reason: reason, LastHeartbeatTime: now, LastTransitionTime: now,
		}
	}
	return []corev1.NodeCondition{
		condition(corev1.NodeReady, corev1.ConditionTrue, "KubeletReady"),
		condition(corev1.NodeMemoryPressure, corev1.ConditionFalse, "KubeletHasSufficientMemory"),
		condition(corev1.NodeDiskPressure, corev1.ConditionFalse, "KubeletHasNoDiskPressure"),
		condition(corev1.NodePIDPressure, corev1.ConditionFalse, "KubeletHasSufficientPID"),
	}
}
