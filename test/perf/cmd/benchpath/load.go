package main

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/test/perf/scale"
)

const (
	// podsPerNode is what a node has room for, nodeCPU and nodeMemory (GiB) what it has.
	podsPerNode, nodeCPU, nodeMemory = 110, 32, 256
	// zones the nodes are spread over.
	zones = 3
	// groupOf is how many pods of the constrained workload have rules about each other, maxSkew how
	// unevenly a group may stand in the zones.
	groupOf, maxSkew = 50, 2
	// golden makes a sequence of fractions that are evenly spread wherever it is cut off.
	golden     = 0.6180339887498949
	groupLabel = "group"
)

// Workloads.
const (
	plain       = "plain"
	constrained = "constrained"
	zonal       = "zonal"
	leaning     = "leaning"
)

// workloads are all of them.
var workloads = []string{plain, constrained, zonal, leaning}

func (b *bench) fleet() []*corev1.Node {
	nodes := make([]*corev1.Node, b.nodes)
	for i := range nodes {
		name := nodeName(i)
		room := corev1.ResourceList{
			corev1.ResourceCPU:    *resource.NewQuantity(nodeCPU, resource.DecimalSI),
			corev1.ResourceMemory: *resource.NewQuantity(nodeMemory<<30, resource.BinarySI),
			corev1.ResourcePods:   *resource.NewQuantity(podsPerNode, resource.DecimalSI),
		}
		nodes[i] = &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
				corev1.LabelHostname: name, corev1.LabelTopologyZone: zoneOf(i)}},
			Status: corev1.NodeStatus{Capacity: room, Allocatable: room,
				Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
		}
	}
	return nodes
}

func nodeName(i int) string { return fmt.Sprintf("node-%05d", i) }

func zoneOf(i int) string { return fmt.Sprintf("zone-%d", i%zones) }

// standing is one bound pod on each node that takes so many percent of it, on average. Nodes differ
// by as much as there is room for, some are full, so that everybody likes the same ones.
func (b *bench) standing(full int) []*corev1.Pod {
	if full == 0 {
		return nil
	}
	pods := make([]*corev1.Pod, b.nodes)
	between := float64(min(full, 100-full)) / 100
	for i := range pods {
		_, fraction := wholeAndFraction(float64(i) * golden)
		level := float64(full)/100 + between*(2*fraction-1)
		pods[i] = newPod(fmt.Sprintf("standing-%05d", i), corev1.ResourceList{
			corev1.ResourceCPU:    *resource.NewMilliQuantity(int64(level*nodeCPU*1000), resource.DecimalSI),
			corev1.ResourceMemory: *resource.NewQuantity(int64(level*nodeMemory*(1<<30)), resource.BinarySI),
		})
		pods[i].Spec.NodeName, pods[i].Status.Phase = nodeName(i), corev1.PodRunning
	}
	return pods
}

func wholeAndFraction(x float64) (whole int, fraction float64) {
	whole = int(x)
	return whole, x - float64(whole)
}

// room is about how many small pods fit on nodes that are so full.
func (b *bench) room(full int) int {
	byCPU := nodeCPU * 10 * (100 - full) / 100 // 100m each
	return b.nodes * min(podsPerNode-1, byCPU)
}

// arriving are pods as an API server hands them out. Plain ones are of one template; of constrained
// ones a third have to stand evenly in the zones, a third on a node of their own, by groups; zonal
// ones name their zone; leaning ones would rather be in theirs, so that every shard looks at all nodes and not
// at its home ones first.
func (b *bench) arriving(prefix string, n int) []*corev1.Pod {
	pods := make([]*corev1.Pod, n)
	for i := range pods {
		pods[i] = newPod(fmt.Sprintf("%s-%06d", prefix, i), corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("500Mi")})
		pods[i].Labels = map[string]string{"app": prefix}
		switch b.workload {
		case constrained:
			constrain(pods[i], prefix, i)
		case zonal:
			pods[i].Spec.NodeSelector = map[string]string{corev1.LabelTopologyZone: zoneOf(i)}
		case leaning:
			pods[i].Spec.Affinity = &corev1.Affinity{NodeAffinity: scale.Towards(zoneOf(i))}
		}
	}
	return pods
}

func constrain(pod *corev1.Pod, prefix string, i int) {
	group := fmt.Sprintf("%s-%d-%d", prefix, i%3, i/3/groupOf)
	pod.Labels[groupLabel] = group
	same := &metav1.LabelSelector{MatchLabels: map[string]string{groupLabel: group}}
	switch i % 3 {
	case 0:
		pod.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{MaxSkew: maxSkew,
			TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: same}}
	case 1:
		pod.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{
				{TopologyKey: corev1.LabelHostname, LabelSelector: same}}}}
	}
}

func newPod(name string, requests corev1.ResourceList) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: corev1.PodSpec{
			SchedulerName: corev1.DefaultSchedulerName, RestartPolicy: corev1.RestartPolicyAlways,
			DNSPolicy: corev1.DNSClusterFirst, ServiceAccountName: "default",
			Tolerations: []corev1.Toleration{
				{Key: corev1.TaintNodeNotReady, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute},
				{Key: corev1.TaintNodeUnreachable, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute}},
			Containers: []corev1.Container{{Name: "main", Image: "registry.k8s.io/pause:3.10",
				Resources: corev1.ResourceRequirements{Requests: requests}}},
		},
		Status: corev1.PodStatus{Phase: corev1.PodPending},
	}
}

// broken are the rules of constrained pods that their places break: nothing was deleted, so what
// held when a pod was placed holds at the end.
func broken(pods []corev1.Pod, zone map[string]string) (wrong []string) {
	type place struct{ group, node string }
	alone, skews := map[place]string{}, map[string]map[string]int{}
	for i := range pods {
		p := &pods[i]
		if want := p.Spec.NodeSelector[corev1.LabelTopologyZone]; want != "" && want != zone[p.Spec.NodeName] {
			wrong = append(wrong, fmt.Sprintf("%s wants to be in %s and is on %s", p.Name, want, p.Spec.NodeName))
		}
		group := p.Labels[groupLabel]
		if p.Spec.Affinity != nil && p.Spec.Affinity.PodAntiAffinity != nil {
			at := place{group, p.Spec.NodeName}
			if other, taken := alone[at]; taken {
				wrong = append(wrong, fmt.Sprintf("%s and %s of group %s are both on %s", other, p.Name, group, at.node))
			}
			alone[at] = p.Name
		}
		if len(p.Spec.TopologySpreadConstraints) > 0 {
			if skews[group] == nil {
				skews[group] = map[string]int{}
			}
			skews[group][zone[p.Spec.NodeName]]++
		}
	}
	for group, counts := range skews {
		least, most := counts[zoneOf(0)], 0
		for z := range zones {
			least, most = min(least, counts[zoneOf(z)]), max(most, counts[zoneOf(z)])
		}
		if most-least > maxSkew {
			wrong = append(wrong, fmt.Sprintf("group %s stands %v in the zones: more than %d apart", group, counts, maxSkew))
		}
	}
	return wrong
}
