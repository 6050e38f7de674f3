package path

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/test/perf/bench"
	"github.com/berth-scheduler/berth/test/perf/scale"
)

const (
	// groupOf is how many pods of the constrained workload have rules about each other, maxSkew the largest
	// difference between zones in pods of a group.
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

// standing is one bound pod on each node; on average it uses so many percent of the node. Nodes differ as much as
// possible, and some are full, so that all shards prefer the same ones.
func (o options) standing(full int) []*corev1.Pod {
	if full == 0 {
		return nil
	}
	pods := make([]*corev1.Pod, o.nodes)
	between := float64(min(full, 100-full)) / 100
	for i := range pods {
		_, fraction := wholeAndFraction(float64(i) * golden)
		level := float64(full)/100 + between*(2*fraction-1)
		pods[i] = newPod(fmt.Sprintf("standing-%05d", i), corev1.ResourceList{
			corev1.ResourceCPU:    *resource.NewMilliQuantity(int64(level*bench.NodeCPU*1000), resource.DecimalSI),
			corev1.ResourceMemory: *resource.NewQuantity(int64(level*bench.NodeMemory*(1<<30)), resource.BinarySI),
		})
		pods[i].Spec.NodeName, pods[i].Status.Phase = bench.NodeName(i), corev1.PodRunning
	}
	return pods
}

func wholeAndFraction(x float64) (whole int, fraction float64) {
	whole = int(x)
	return whole, x - float64(whole)
}

// room is about how many small pods fit on nodes that are so full.
func (o options) room(full int) int {
	byCPU := bench.NodeCPU * 10 * (100 - full) / 100 // 100m each
	return o.nodes * min(bench.PodsPerNode-1, byCPU)
}

// arriving are pods as an API server hands them out. Plain pods have one template. Of constrained pods, a third
// spread evenly over the zones, and a third exclude pods of their group from their node. Zonal pods require their
// zone; leaning pods prefer theirs, so that every shard looks at all nodes and not at its home nodes first.
func (o options) arriving(prefix string, n int) []*corev1.Pod {
	pods := make([]*corev1.Pod, n)
	for i := range pods {
		pods[i] = newPod(fmt.Sprintf("%s-%06d", prefix, i), corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("500Mi")})
		pods[i].Labels = map[string]string{"app": prefix}
		switch o.workload {
		case constrained:
			constrain(pods[i], prefix, i)
		case zonal:
			pods[i].Spec.NodeSelector = map[string]string{corev1.LabelTopologyZone: bench.ZoneOf(i)}
		case leaning:
			pods[i].Spec.Affinity = &corev1.Affinity{NodeAffinity: scale.Towards(bench.ZoneOf(i))}
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
		least, most := counts[bench.ZoneOf(0)], 0
		for z := range bench.Zones {
			least, most = min(least, counts[bench.ZoneOf(z)]), max(most, counts[bench.ZoneOf(z)])
		}
		if most-least > maxSkew {
			wrong = append(wrong, fmt.Sprintf("group %s stands %v in the zones: more than %d apart", group, counts, maxSkew))
		}
	}
	return wrong
}
