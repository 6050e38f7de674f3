package placementtest

import (
	"maps"
	"reflect"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// namespaces holds the namespaces of pods; "lost" has no object.
var namespaces = []string{"default", "default", "default", "team", "team", "lost"}

func (g *Generator) podLabels() map[string]string {
	labels := map[string]string{}
	g.label(labels, "app", "web", "db")
	g.label(labels, "tier", "1", "2")
	return labels
}

// pod draws a pod with a new name. It often requests exactly what is left on some node.
func (g *Generator) pod(c *Cluster) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: g.meta(Pick(g, namespaces...), "pod")}
	p.Labels = g.podLabels()
	for range 1 + g.IntN(3) {
		p.Spec.Containers = append(p.Spec.Containers, g.container())
	}
	for range g.IntN(3) {
		init := g.container()
		if g.Chance(40) {
			always := corev1.ContainerRestartPolicyAlways
			init.RestartPolicy = &always
		}
		p.Spec.InitContainers = append(p.Spec.InitContainers, init)
	}
	if g.Chance(10) {
		p.Spec.Overhead = g.requests()
	}
	if g.Chance(15) {
		p.Spec.Resources = &corev1.ResourceRequirements{Requests: g.podLevel()}
	}
	if g.Chance(10) {
		p.Spec.Volumes = []corev1.Volume{{Name: "i", VolumeSource: corev1.VolumeSource{
			Image: &corev1.ImageVolumeSource{Reference: Pick(g, imageNames...)},
		}}}
	}
	if g.Size.Volumes > 0 && g.Chance(g.Size.Volumes) {
		g.mounts(p, c)
	}
	if g.Size.Devices > 0 && g.Chance(g.Size.Devices) {
		g.asksForDevices(p, c)
	}
	if len(c.Nodes) > 0 && g.Chance(40) {
		g.fitExactly(p, Pick(g, c.Nodes...), c.Pods)
	}
	return p
}

// Neighbour draws a pod that may attract and repel others; it is not on a node yet.
func (g *Generator) Neighbour(c *Cluster) *corev1.Pod {
	p := g.pod(c)
	if with, against := g.podTerms(nil, 25); with != nil || against != nil {
		p.Spec.Affinity = &corev1.Affinity{PodAffinity: with, PodAntiAffinity: against}
	}
	return p
}

// placed draws a pod that is on a node.
func (g *Generator) placed(c *Cluster, node string) *corev1.Pod {
	p := g.Neighbour(c)
	p.Spec.NodeName = node
	if g.Chance(20) {
		g.resizing(p)
	}
	g.owned(p, c)
	if g.Chance(8) {
		p.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	}
	return p
}

func (g *Generator) container() corev1.Container {
	c := corev1.Container{Name: g.next("c"), Image: Pick(g, imageNames...)}
	if g.Chance(75) {
		c.Resources.Requests = g.requests()
	}
	c.Ports = g.ports(25)
	return c
}

// ports draws up to two ports, each with the given likelihood.
func (g *Generator) ports(percent int) []corev1.ContainerPort {
	var list []corev1.ContainerPort
	for range g.IntN(3) {
		if !g.Chance(percent) {
			continue
		}
		list = append(list, corev1.ContainerPort{
			HostPort:      Pick[int32](g, 0, 80, 80, 443),
			ContainerPort: 80,
			HostIP:        Pick(g, "", "0.0.0.0", "127.0.0.1", "10.0.0.1"),
			Protocol:      Pick(g, "", corev1.ProtocolTCP, corev1.ProtocolUDP),
		})
	}
	return list
}

func (g *Generator) requests() corev1.ResourceList {
	list := corev1.ResourceList{}
	g.amount(list, corev1.ResourceCPU, 70, milli(Pick[int64](g, 0, 1, 100, 250, 500, 1000)))
	g.amount(list, corev1.ResourceMemory, 70, quantity(Pick[int64](g, 0, 1, 100<<20, 200<<20, 512<<20)))
	g.amount(list, corev1.ResourceEphemeralStorage, 15, quantity(Pick[int64](g, 0, 1<<30)))
	g.amount(list, gpu, 10, quantity(Pick[int64](g, 0, 1, 2)))
	g.amount(list, fpga, 4, quantity(1))
	g.amount(list, hugepage, 4, quantity(2<<20))
	g.amount(list, native, 2, quantity(1))
	g.amount(list, plain, 3, quantity(1))
	return list
}

func (g *Generator) podLevel() corev1.ResourceList {
	list := corev1.ResourceList{}
	g.amount(list, corev1.ResourceCPU, 60, milli(Pick[int64](g, 0, 500, 1500)))
	g.amount(list, corev1.ResourceMemory, 60, quantity(Pick[int64](g, 0, 512<<20, 1<<30)))
	g.amount(list, hugepage, 10, quantity(2<<20))
	return list
}

// fitExactly rewrites the pod to a single container that requests what the pods with simple requests leave on a
// node, plus or minus one.
func (g *Generator) fitExactly(p *corev1.Pod, n *corev1.Node, pods []*corev1.Pod) {
	cpu, memory := n.Status.Allocatable.Cpu().MilliValue(), n.Status.Allocatable.Memory().Value()
	for _, other := range pods {
		if other.Spec.NodeName != n.Name {
			continue
		}
		for _, c := range other.Spec.Containers {
			cpu -= c.Resources.Requests.Cpu().MilliValue()
			memory -= c.Resources.Requests.Memory().Value()
		}
	}
	p.Spec.InitContainers = nil
	p.Spec.Overhead = nil
	p.Spec.Resources = nil
	p.Spec.Containers = p.Spec.Containers[:1]
	p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{
		corev1.ResourceCPU:    milli(max(0, cpu+Pick[int64](g, -1, 0, 0, 1))),
		corev1.ResourceMemory: quantity(max(0, memory+Pick[int64](g, -1, 0, 0, 1))),
	}
}

// resizing gives a pod on a node a status in the middle of an in-place resize.
func (g *Generator) resizing(p *corev1.Pod) {
	p.Status = corev1.PodStatus{Phase: p.Status.Phase}
	for _, c := range p.Spec.Containers {
		p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, g.status(c))
	}
	for _, c := range p.Spec.InitContainers {
		p.Status.InitContainerStatuses = append(p.Status.InitContainerStatuses, g.status(c))
	}
	if p.Spec.Resources != nil && g.Chance(60) {
		p.Status.Resources = &corev1.ResourceRequirements{Requests: g.podLevel()}
		p.Status.AllocatedResources = g.podLevel()
	}
	if g.Chance(30) {
		p.Status.Conditions = []corev1.PodCondition{{
			Type: corev1.PodResizePending, Status: corev1.ConditionTrue,
			Reason: Pick(g, corev1.PodReasonInfeasible, corev1.PodReasonDeferred),
		}}
	}
}

func (g *Generator) status(c corev1.Container) corev1.ContainerStatus {
	s := corev1.ContainerStatus{Name: c.Name}
	if g.Chance(70) {
		s.Resources = &corev1.ResourceRequirements{Requests: g.requests()}
		s.AllocatedResources = g.requests()
	}
	return s
}

// Incoming draws a waiting pod. Every rule applies to some pods, but few pods are subject to many rules, as those
// fit nowhere and compare no scores.
func (g *Generator) Incoming(c *Cluster) *corev1.Pod {
	p := g.pod(c)
	if g.Chance(80) {
		g.minimal(p)
	}
	g.tolerating(p)
	g.nodeRules(p, c)
	g.owned(p, c)
	for g.Chance(55) && len(p.Spec.TopologySpreadConstraints) < 3 {
		p.Spec.TopologySpreadConstraints = append(p.Spec.TopologySpreadConstraints, g.spreadConstraint())
	}
	with, against := g.podTerms(p, 55)
	if with != nil || against != nil {
		if p.Spec.Affinity == nil {
			p.Spec.Affinity = &corev1.Affinity{}
		}
		p.Spec.Affinity.PodAffinity, p.Spec.Affinity.PodAntiAffinity = with, against
	}
	g.rareFeatures(p, c)
	return p
}

// minimal reduces a pod to one small container.
func (g *Generator) minimal(p *corev1.Pod) {
	p.Spec.InitContainers = nil
	p.Spec.Overhead = nil
	p.Spec.Resources = nil
	p.Spec.Containers = []corev1.Container{{Name: "c", Image: Pick(g, imageNames...)}}
	p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceMemory: quantity(1)}
	if g.Chance(20) {
		p.Spec.Containers[0].Ports = g.ports(100)
	}
}

// tolerating makes most pods tolerate the taints that keep pods off nodes; half of these do not tolerate
// PreferNoSchedule taints.
func (g *Generator) tolerating(p *corev1.Pod) {
	switch n := g.IntN(100); {
	case n < 15:
		for range g.IntN(4) {
			p.Spec.Tolerations = append(p.Spec.Tolerations, g.toleration())
		}
	case n < 75:
		for _, effect := range []corev1.TaintEffect{corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute} {
			p.Spec.Tolerations = append(p.Spec.Tolerations,
				corev1.Toleration{Operator: corev1.TolerationOpExists, Effect: effect})
		}
	default:
		p.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	}
}

// nodeRules gives a pod requirements and preferences about nodes.
func (g *Generator) nodeRules(p *corev1.Pod, c *Cluster) {
	if g.Chance(6) {
		p.Spec.NodeSelector = map[string]string{Pick(g, "zone", "disk"): Pick(g, "a", "b", "ssd")}
	}
	a := &corev1.NodeAffinity{}
	if g.Chance(12) {
		a.RequiredDuringSchedulingIgnoredDuringExecution = g.nodeSelector(c)
	}
	for g.Chance(75) && len(a.PreferredDuringSchedulingIgnoredDuringExecution) < 4 {
		a.PreferredDuringSchedulingIgnoredDuringExecution = append(a.PreferredDuringSchedulingIgnoredDuringExecution,
			corev1.PreferredSchedulingTerm{Weight: Pick[int32](g, 0, 1, 7, 50, 100), Preference: g.nodeTerm(c, 10)})
	}
	if !reflect.ValueOf(*a).IsZero() {
		p.Spec.Affinity = &corev1.Affinity{NodeAffinity: a}
	}
}

// rareFeatures gives few pods features that few pods have.
func (g *Generator) rareFeatures(p *corev1.Pod, c *Cluster) {
	switch n := g.IntN(100); {
	case n < 8:
		p.Spec.NodeName = g.nodeName(c)
	case n < 16:
		for range 1 + g.IntN(2) {
			p.Spec.SchedulingGates = append(p.Spec.SchedulingGates, corev1.PodSchedulingGate{Name: g.next("gate")})
		}
	case n < 20:
		p.Status.NominatedNodeName = g.nodeName(c)
	case n < 26:
		g.userNamespaceOnHostNetwork(p)
	case n < 32:
		p.Spec.Containers[0].RestartPolicyRules = []corev1.ContainerRestartRule{
			{Action: corev1.ContainerRestartRuleActionRestartAllContainers},
		}
	}
}

// nodeName returns mostly the name of a node.
func (g *Generator) nodeName(c *Cluster) string {
	if len(c.Nodes) == 0 || g.Chance(10) {
		return "no-such-node"
	}
	return Pick(g, c.Nodes...).Name
}

func (g *Generator) userNamespaceOnHostNetwork(p *corev1.Pod) {
	no := false
	p.Spec.HostUsers, p.Spec.HostNetwork = &no, true
}

// owned makes a pod the child of a controller: an existing one, one that does not exist, or one of a kind that
// selects nothing.
func (g *Generator) owned(p *corev1.Pod, c *Cluster) {
	var ref metav1.OwnerReference
	switch i := g.IntN(7); {
	case i < len(controllerKinds):
		all := c.Others[controllerKinds[i]]
		if len(all) == 0 {
			return
		}
		owner := Pick(g, all...)
		p.Namespace = owner.GetNamespace()
		ref = controllerRefs[controllerKinds[i]]
		ref.Name = owner.GetName()
	case i == len(controllerKinds):
		ref = metav1.OwnerReference{
			APIVersion: Pick(g, "apps/v1", "apps/v1beta1", "a/b/c"), Kind: Pick(g, "ReplicaSet", "Deployment"), Name: "absent",
		}
	default:
		return
	}
	controls := g.Chance(90)
	ref.Controller = &controls
	p.OwnerReferences = []metav1.OwnerReference{ref}
}

// Changed returns the pod after a change that the API server allows: a waiting pod may gain
// tolerations, lose its gates and change its labels; any pod's requests can be resized.
func (g *Generator) Changed(old *corev1.Pod) *corev1.Pod {
	p := old.DeepCopy()
	if g.Chance(30) {
		p.Spec.Tolerations = append(p.Spec.Tolerations, g.toleration())
	}
	if g.Chance(40) {
		p.Spec.SchedulingGates = nil
	}
	if g.Chance(40) {
		g.resize(p.Spec.Containers[0].Resources.Requests)
	}
	if g.Chance(40) {
		p.Labels = g.podLabels()
	}
	if g.Chance(20) {
		g.userNamespaceOnHostNetwork(p)
	}
	return p
}

// resize changes amounts. It neither adds nor removes a request: the API server does not allow that.
func (g *Generator) resize(requests corev1.ResourceList) {
	for _, name := range slices.Sorted(maps.Keys(requests)) {
		switch name {
		case plain:
		case corev1.ResourceCPU:
			requests[name] = milli(Pick[int64](g, 0, 100, 500, 2000))
		default:
			requests[name] = quantity(Pick[int64](g, 0, 1, 2, 1<<30))
		}
	}
}
