package placementtest

import (
	corev1 "k8s.io/api/core/v1"
)

// Resources beyond cpu and memory.
const (
	gpu      corev1.ResourceName = "example.com/gpu"
	fpga     corev1.ResourceName = "vendor.io/fpga"
	hugepage corev1.ResourceName = "hugepages-2Mi"
	native   corev1.ResourceName = "kubernetes.io/widget"
	plain    corev1.ResourceName = "widget" // no prefix: no rule counts it
)

// Node draws a node with a new name.
func (g *Generator) Node() *corev1.Node {
	n := &corev1.Node{ObjectMeta: g.meta("", "node")}
	n.Labels = g.nodeLabels(n.Name)
	n.Spec.Unschedulable = g.Chance(8)
	n.Spec.Taints = g.taints()
	n.Status.Allocatable = g.allocatable()
	n.Status.Capacity = n.Status.Allocatable.DeepCopy()
	n.Status.Images = g.images()
	n.Status.DeclaredFeatures = g.declaredFeatures()
	return n
}

// nodeLabels returns labels with the node's domains. Some nodes have no hostname, some share one.
func (g *Generator) nodeLabels(name string) map[string]string {
	labels := map[string]string{corev1.LabelHostname: name}
	g.label(labels, "zone", "a", "b", "c")
	g.label(labels, "disk", "ssd", "hdd")
	g.label(labels, "rank", "1", "2", "10", "x")
	g.label(labels, "empty", "")
	if g.Chance(85) {
		labels[corev1.LabelTopologyZone] = Pick(g, "z1", "z2", "z3", "")
	}
	switch {
	case g.Chance(3):
		delete(labels, corev1.LabelHostname)
	case g.Chance(3):
		labels[corev1.LabelHostname] = "shared"
	case g.Chance(1):
		clear(labels)
	}
	return labels
}

func (g *Generator) taints() []corev1.Taint {
	var list []corev1.Taint
	for range g.IntN(3) {
		if g.Chance(50) {
			list = append(list, g.taint())
		}
	}
	return list
}

func (g *Generator) taint() corev1.Taint {
	t := corev1.Taint{
		Key:   Pick(g, "dedicated", "gpu", corev1.TaintNodeUnschedulable),
		Value: Pick(g, "", "x", "y"),
		Effect: Pick(g, corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute, corev1.TaintEffectPreferNoSchedule,
			corev1.TaintEffectPreferNoSchedule),
	}
	g.numericTaint(&t)
	return t
}

func (g *Generator) toleration() corev1.Toleration {
	t := corev1.Toleration{
		Key:      Pick(g, "", "dedicated", "gpu", corev1.TaintNodeUnschedulable),
		Operator: Pick(g, "", corev1.TolerationOpEqual, corev1.TolerationOpExists, "Nonsense", "Nonsense"),
		Value:    Pick(g, "", "x", "y"),
		Effect: Pick(g, "", corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute,
			corev1.TaintEffectPreferNoSchedule),
	}
	g.numericToleration(&t)
	return t
}

func (g *Generator) allocatable() corev1.ResourceList {
	list := corev1.ResourceList{}
	g.amount(list, corev1.ResourceCPU, 95, milli(Pick[int64](g, 0, 500, 1000, 1999, 2000, 4000, 4000, 8000)))
	g.amount(list, corev1.ResourceMemory, 95, quantity(Pick[int64](g, 512<<20, 1<<30, 1<<30+1, 4<<30, 4<<30, 8<<30)))
	g.amount(list, corev1.ResourcePods, 97, quantity(Pick[int64](g, 0, 1, 3, 4, 110, 110, 110, 110, 110, 110, 110, 110)))
	g.amount(list, corev1.ResourceEphemeralStorage, 60, quantity(Pick[int64](g, 1<<30, 10<<30)))
	g.amount(list, gpu, 40, quantity(Pick[int64](g, 0, 1, 2, 8)))
	g.amount(list, fpga, 20, quantity(Pick[int64](g, 1, 4)))
	g.amount(list, hugepage, 20, quantity(Pick[int64](g, 2<<20, 64<<20)))
	g.amount(list, native, 10, quantity(3))
	g.amount(list, plain, 10, quantity(3))
	return list
}

// imageNames mix tags, ports, digests and missing tags.
var imageNames = []string{
	"web:1", "web:1", "web", "web:latest", "registry.local:5000/db", "registry.local:5000/db:latest", "tools@sha256:0a",
}

func (g *Generator) images() []corev1.ContainerImage {
	var list []corev1.ContainerImage
	for range g.IntN(4) {
		list = append(list, corev1.ContainerImage{
			Names:     Some(g, 40, imageNames...),
			SizeBytes: Pick[int64](g, 0, 1<<20, 23<<20, 400<<20, 1000<<20, 2000<<20, 5000<<20),
		})
	}
	return list
}

func (g *Generator) declaredFeatures() []string {
	return Some(g, 40, "GuaranteedQoSPodCPUResize", "RestartAllContainersOnContainerExits",
		"UserNamespacesHostNetworkSupport")
}
