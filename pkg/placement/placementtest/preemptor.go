package placementtest

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/state"
)

// Crowd is a size with enough pods for preemption to choose from.
var Crowd = Size{MinNodes: 3, MaxNodes: 20, MaxPodsPerNode: 8}

// Crowded draws a cluster whose pods have priorities and have started, no two of a node in the same second, with
// disruption budgets over some of them. On a node, no two pods have the same host port, and in the whole cluster no
// two pods use the same claim for a single pod. leaving allows some of the pods to be terminating.
func (g *Generator) Crowded(leaving bool) Cluster {
	c := g.Cluster()
	used := map[string]bool{}
	alike := g.Chance(75) // so that nodes often have equal costs
	same := g.priority()
	for i, p := range c.Pods {
		p.Spec.Priority = g.priority()
		p.Status.Phase = corev1.PodRunning
		start := i + g.IntN(1000)*len(c.Pods)
		if alike {
			p.Spec.Priority = same
			start = placesOf(c.Pods[:i], p.Spec.NodeName)
		}
		p.Status.StartTime = &metav1.Time{Time: time.Unix(int64(1_700_000_000+start), 0)}
		p.DeletionTimestamp = nil
		if leaving && g.Chance(15) {
			g.leave(p)
		}
		if g.Chance(60) {
			p.Status.Conditions = append(p.Status.Conditions,
				corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue})
		}
		dropUsedPorts(p, used)
		dropUsedClaims(&c, p, used)
	}
	if len(c.Pods) > 0 && g.Chance(30) {
		Pick(g, c.Pods...).Status.StartTime = nil // only one: two that have not started have no order upstream
	}
	for range g.IntN(5) {
		c.put(events.KindDisruptionBudget, g.Budget(&c))
	}
	return c
}

// placesOf counts the pods on a node.
func placesOf(pods []*corev1.Pod, node string) (count int) {
	for _, p := range pods {
		if p.Spec.NodeName == node {
			count++
		}
	}
	return count
}

// leave deletes a pod, mostly as a scheduler does when it preempts the pod.
func (g *Generator) leave(p *corev1.Pod) {
	p.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	if g.Chance(70) {
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{
			Type:   corev1.DisruptionTarget,
			Status: Pick(g, corev1.ConditionTrue, corev1.ConditionTrue, corev1.ConditionFalse),
			Reason: Pick(g, corev1.PodReasonPreemptionByScheduler, "EvictionByEvictionAPI"),
		})
	}
}

// dropUsedPorts leaves a pod only ports that no earlier pod has: upstream frees a port with the first pod that is
// removed.
func dropUsedPorts(p *corev1.Pod, used map[string]bool) {
	for _, list := range [][]corev1.Container{p.Spec.Containers, p.Spec.InitContainers} {
		for i := range list {
			list[i].Ports = slices.DeleteFunc(list[i].Ports, func(port corev1.ContainerPort) bool {
				ip, protocol := cmp.Or(port.HostIP, "0.0.0.0"), cmp.Or(port.Protocol, corev1.ProtocolTCP)
				key := fmt.Sprint(p.Spec.NodeName, ip, protocol, port.HostPort)
				before := used[key]
				used[key] = true
				return before
			})
		}
	}
}

// dropUsedClaims leaves a pod only those claims for a single pod that no earlier pod uses: upstream frees a claim
// with the first user that is removed.
func dropUsedClaims(c *Cluster, p *corev1.Pod, used map[string]bool) {
	p.Spec.Volumes = slices.DeleteFunc(p.Spec.Volumes, func(v corev1.Volume) bool {
		if v.PersistentVolumeClaim == nil {
			return false
		}
		name := v.PersistentVolumeClaim.ClaimName
		if !slices.ContainsFunc(c.Others[events.KindVolumeClaim], func(o state.APIObject) bool {
			claim, ok := o.(*corev1.PersistentVolumeClaim)
			return ok && claim.Namespace == p.Namespace && claim.Name == name &&
				slices.Contains(claim.Spec.AccessModes, corev1.ReadWriteOncePod)
		}) {
			return false
		}
		key := "claim " + p.Namespace + "/" + name
		before := used[key]
		used[key] = true
		return before
	})
}

func (g *Generator) priority() *int32 {
	if g.Chance(15) {
		return nil
	}
	p := Pick[int32](g, -10, 0, 0, 0, 5, 5, 10, 100)
	return &p
}

// Budget draws a disruption budget that selects some pods of a namespace, sometimes none.
func (g *Generator) Budget(c *Cluster) *policyv1.PodDisruptionBudget {
	b := &policyv1.PodDisruptionBudget{ObjectMeta: g.meta(Pick(g, namespaces...), "budget")}
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{}}
	g.label(selector.MatchLabels, "app", "web", "db")
	if len(selector.MatchLabels) == 0 {
		selector.MatchExpressions = []metav1.LabelSelectorRequirement{
			{Key: "tier", Operator: metav1.LabelSelectorOpIn, Values: []string{Pick(g, "1", "2"), "2"}},
		}
	}
	if g.Chance(95) {
		b.Spec.Selector = selector
	}
	b.Status.DisruptionsAllowed = Pick[int32](g, 0, 0, 1, 1, 2, 5)
	b.Status.DesiredHealthy, b.Status.CurrentHealthy = Pick[int32](g, 0, 2, 3), Pick[int32](g, 1, 2, 3)
	if g.Chance(20) {
		always := policyv1.AlwaysAllow
		b.Spec.UnhealthyPodEvictionPolicy = &always
	}
	if len(c.Pods) > 0 && g.Chance(30) {
		b.Status.DisruptedPods = map[string]metav1.Time{Pick(g, c.Pods...).Name: {Time: time.Unix(1, 0)}}
	}
	return b
}

// Preemptor draws a pod that is more important than some and mostly too large for what is left, but not for an
// empty node.
func (g *Generator) Preemptor(c *Cluster) *corev1.Pod {
	p := g.Incoming(c)
	p.Spec.SchedulingGates = nil
	priority := Pick[int32](g, 0, 5, 7, 10, 100, 1000, 1000)
	p.Spec.Priority = &priority
	if g.Chance(5) {
		never := corev1.PreemptNever
		p.Spec.PreemptionPolicy = &never
	}
	if len(c.Nodes) > 0 && g.Chance(12) {
		p.Status.NominatedNodeName = g.nodeName(c)
	}
	if len(c.Nodes) == 0 || g.Chance(15) {
		return p
	}
	size := Pick(g, c.Nodes...).Status.Allocatable
	share := Pick[int64](g, 40, 70, 90, 100)
	p.Spec.InitContainers = nil
	p.Spec.Overhead = nil
	p.Spec.Resources = nil
	p.Spec.Containers = p.Spec.Containers[:1]
	p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{
		corev1.ResourceCPU: milli(size.Cpu().MilliValue() * share / 100),
	}
	if g.Chance(50) {
		p.Spec.Containers[0].Resources.Requests[corev1.ResourceMemory] = quantity(size.Memory().Value() * share / 100)
	}
	return p
}
