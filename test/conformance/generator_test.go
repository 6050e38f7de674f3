package conformance

import (
	"fmt"
	"math/rand/v2"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// cluster is one random input.
type cluster struct {
	nodes []*corev1.Node
	pods  []*corev1.Pod // all bound
	objects
}

// generator draws from small sets, so that values meet: the same amounts, labels, ports
// and images appear on both sides, and many requests just fit or just do not.
type generator struct {
	*rand.Rand
	serial int
}

func newGenerator(seed uint64) *generator {
	return &generator{Rand: rand.New(rand.NewPCG(seed, 0))}
}

func pick[T any](g *generator, values ...T) T { return values[g.IntN(len(values))] }

func (g *generator) chance(percent int) bool { return g.IntN(100) < percent }

// some returns a random subset.
func some[T any](g *generator, percent int, values ...T) []T {
	var list []T
	for _, v := range values {
		if g.chance(percent) {
			list = append(list, v)
		}
	}
	return list
}

func (g *generator) next(prefix string) string {
	g.serial++
	return fmt.Sprintf("%s-%d", prefix, g.serial)
}

const (
	gpu      = "example.com/gpu"
	fpga     = "vendor.io/fpga"
	hugepage = "hugepages-2Mi"
	native   = "kubernetes.io/widget"
	plain    = "widget" // no prefix: nobody counts it
)

func quantity(v int64) resource.Quantity { return *resource.NewQuantity(v, resource.BinarySI) }
func milli(v int64) resource.Quantity    { return *resource.NewMilliQuantity(v, resource.DecimalSI) }

func (g *generator) cluster() cluster {
	c := cluster{objects: g.objects()}
	nodes := 5 + g.IntN(36)
	for range nodes {
		n := g.node()
		c.nodes = append(c.nodes, n)
		for range g.IntN(5) {
			p := g.pod(&c)
			p.Spec.NodeName = n.Name
			g.maybeResized(p)
			g.owned(p, c.objects)
			if with, against := g.podTerms(false, 25); with != nil || against != nil {
				p.Spec.Affinity = &corev1.Affinity{PodAffinity: with, PodAntiAffinity: against}
			}
			if g.chance(8) {
				p.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
			}
			c.pods = append(c.pods, p)
		}
	}
	return c
}

func (g *generator) node() *corev1.Node {
	name := g.next("node")
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name), Labels: map[string]string{
		"kubernetes.io/hostname": name,
	}}}
	g.label(n.Labels, "zone", "a", "b", "c")
	g.label(n.Labels, "disk", "ssd", "hdd")
	g.label(n.Labels, "rank", "1", "2", "10", "x")
	g.label(n.Labels, "empty", "")
	g.topologyLabels(n.Labels)
	n.Spec.Unschedulable = g.chance(8)
	for range g.IntN(3) {
		if g.chance(50) {
			n.Spec.Taints = append(n.Spec.Taints, g.taint())
		}
	}
	allocatable := corev1.ResourceList{}
	g.amount(allocatable, corev1.ResourceCPU, 95, milli(pick[int64](g, 0, 500, 1000, 1999, 2000, 4000)))
	g.amount(allocatable, corev1.ResourceMemory, 95, quantity(pick[int64](g, 512<<20, 1<<30, 1<<30+1, 4<<30)))
	g.amount(allocatable, corev1.ResourcePods, 97, quantity(pick[int64](g, 0, 1, 3, 4, 110, 110, 110, 110)))
	g.amount(allocatable, corev1.ResourceEphemeralStorage, 60, quantity(pick[int64](g, 1<<30, 10<<30)))
	g.amount(allocatable, gpu, 40, quantity(pick[int64](g, 0, 1, 2, 8)))
	g.amount(allocatable, fpga, 20, quantity(pick[int64](g, 1, 4)))
	g.amount(allocatable, hugepage, 20, quantity(pick[int64](g, 2<<20, 64<<20)))
	g.amount(allocatable, native, 10, quantity(3))
	g.amount(allocatable, plain, 10, quantity(3))
	n.Status.Allocatable = allocatable
	n.Status.Capacity = allocatable.DeepCopy()
	for range g.IntN(4) {
		n.Status.Images = append(n.Status.Images, g.image())
	}
	n.Status.DeclaredFeatures = some(g, 40, "GuaranteedQoSPodCPUResize", "RestartAllContainersOnContainerExits",
		"UserNamespacesHostNetworkSupport")
	return n
}

func (g *generator) label(labels map[string]string, key string, values ...string) {
	if g.chance(60) {
		labels[key] = pick(g, values...)
	}
}

func (g *generator) amount(list corev1.ResourceList, name corev1.ResourceName, percent int, q resource.Quantity) {
	if g.chance(percent) {
		list[name] = q
	}
}

func (g *generator) taint() corev1.Taint {
	return corev1.Taint{
		Key:    pick(g, "dedicated", "gpu", corev1.TaintNodeUnschedulable),
		Value:  pick(g, "", "x", "y"),
		Effect: pick(g, corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute, corev1.TaintEffectPreferNoSchedule),
	}
}

func (g *generator) toleration() corev1.Toleration {
	return corev1.Toleration{
		Key:      pick(g, "", "dedicated", "gpu", corev1.TaintNodeUnschedulable),
		Operator: pick(g, "", corev1.TolerationOpEqual, corev1.TolerationOpExists, corev1.TolerationOpGt, "Nonsense"),
		Value:    pick(g, "", "x", "y"),
		Effect: pick(g, "", corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute,
			corev1.TaintEffectPreferNoSchedule),
	}
}

// imageNames mix tags, ports, digests and missing tags.
var imageNames = []string{
	"web:1", "web", "web:latest", "registry.local:5000/db", "registry.local:5000/db:latest", "tools@sha256:0a",
}

func (g *generator) image() corev1.ContainerImage {
	return corev1.ContainerImage{
		Names:     some(g, 40, imageNames...),
		SizeBytes: pick[int64](g, 0, 1<<20, 23<<20, 400<<20, 1000<<20, 5000<<20),
	}
}

// pod draws a pod; with a cluster it often asks for exactly what is left somewhere.
func (g *generator) pod(c *cluster) *corev1.Pod {
	name := g.next("pod")
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: name, Namespace: pick(g, namespaces...), UID: types.UID("uid-" + name), Labels: g.podLabels(),
	}}
	for range 1 + g.IntN(3) {
		p.Spec.Containers = append(p.Spec.Containers, g.container())
	}
	for range g.IntN(3) {
		init := g.container()
		if g.chance(40) {
			always := corev1.ContainerRestartPolicyAlways
			init.RestartPolicy = &always
		}
		p.Spec.InitContainers = append(p.Spec.InitContainers, init)
	}
	if g.chance(10) {
		p.Spec.Overhead = g.requests()
	}
	if g.chance(15) {
		p.Spec.Resources = &corev1.ResourceRequirements{Requests: g.podLevel()}
	}
	if g.chance(10) {
		p.Spec.Volumes = []corev1.Volume{{Name: "i", VolumeSource: corev1.VolumeSource{
			Image: &corev1.ImageVolumeSource{Reference: pick(g, imageNames...)},
		}}}
	}
	if len(c.nodes) > 0 && g.chance(40) {
		g.fitExactly(p, pick(g, c.nodes...), c.pods)
	}
	return p
}

func (g *generator) container() corev1.Container {
	c := corev1.Container{Name: g.next("c"), Image: pick(g, imageNames...)}
	if g.chance(75) {
		c.Resources.Requests = g.requests()
	}
	for range g.IntN(3) {
		if !g.chance(25) {
			continue
		}
		c.Ports = append(c.Ports, corev1.ContainerPort{
			HostPort:      pick[int32](g, 0, 80, 80, 443),
			ContainerPort: 80,
			HostIP:        pick(g, "", "0.0.0.0", "127.0.0.1", "10.0.0.1"),
			Protocol:      pick(g, "", corev1.ProtocolTCP, corev1.ProtocolUDP),
		})
	}
	return c
}

func (g *generator) requests() corev1.ResourceList {
	list := corev1.ResourceList{}
	g.amount(list, corev1.ResourceCPU, 70, milli(pick[int64](g, 0, 1, 100, 250, 500, 1000)))
	g.amount(list, corev1.ResourceMemory, 70, quantity(pick[int64](g, 0, 1, 100<<20, 200<<20, 512<<20)))
	g.amount(list, corev1.ResourceEphemeralStorage, 15, quantity(pick[int64](g, 0, 1<<30)))
	g.amount(list, gpu, 10, quantity(pick[int64](g, 0, 1, 2)))
	g.amount(list, fpga, 4, quantity(1))
	g.amount(list, hugepage, 4, quantity(2<<20))
	g.amount(list, native, 2, quantity(1))
	g.amount(list, plain, 3, quantity(1))
	return list
}

func (g *generator) podLevel() corev1.ResourceList {
	list := corev1.ResourceList{}
	g.amount(list, corev1.ResourceCPU, 60, milli(pick[int64](g, 0, 500, 1500)))
	g.amount(list, corev1.ResourceMemory, 60, quantity(pick[int64](g, 0, 512<<20, 1<<30)))
	g.amount(list, hugepage, 10, quantity(2<<20))
	return list
}

// fitExactly rewrites the pod to a single container that asks for what is left on a node
// after the pods with simple requests, give or take one.
func (g *generator) fitExactly(p *corev1.Pod, n *corev1.Node, pods []*corev1.Pod) {
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
	p.Spec.InitContainers, p.Spec.Overhead, p.Spec.Resources = nil, nil, nil
	p.Spec.Containers = p.Spec.Containers[:1]
	p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{
		corev1.ResourceCPU:    milli(max(0, cpu+pick[int64](g, -1, 0, 0, 1))),
		corev1.ResourceMemory: quantity(max(0, memory+pick[int64](g, -1, 0, 0, 1))),
	}
}

// maybeResized gives a bound pod a status in the middle of an in-place resize.
func (g *generator) maybeResized(p *corev1.Pod) {
	if !g.chance(20) {
		return
	}
	for _, c := range p.Spec.Containers {
		p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, g.status(c))
	}
	for _, c := range p.Spec.InitContainers {
		p.Status.InitContainerStatuses = append(p.Status.InitContainerStatuses, g.status(c))
	}
	if p.Spec.Resources != nil && g.chance(60) {
		p.Status.Resources = &corev1.ResourceRequirements{Requests: g.podLevel()}
		p.Status.AllocatedResources = g.podLevel()
	}
	if g.chance(30) {
		p.Status.Conditions = []corev1.PodCondition{{
			Type: corev1.PodResizePending, Status: corev1.ConditionTrue,
			Reason: pick(g, corev1.PodReasonInfeasible, corev1.PodReasonDeferred),
		}}
	}
}

func (g *generator) status(c corev1.Container) corev1.ContainerStatus {
	s := corev1.ContainerStatus{Name: c.Name}
	if g.chance(70) {
		s.Resources = &corev1.ResourceRequirements{Requests: g.requests()}
		s.AllocatedResources = g.requests()
	}
	return s
}

// incoming draws a pod that waits, with constraints.
func (g *generator) incoming(c *cluster) *corev1.Pod {
	p := g.pod(c)
	for range g.IntN(4) {
		p.Spec.Tolerations = append(p.Spec.Tolerations, g.toleration())
	}
	if g.chance(20) {
		p.Spec.NodeSelector = map[string]string{pick(g, "zone", "disk"): pick(g, "a", "b", "ssd")}
	}
	if g.chance(45) {
		p.Spec.Affinity = &corev1.Affinity{NodeAffinity: g.nodeAffinity(c)}
	}
	if g.chance(60) {
		g.undemanding(p)
	}
	g.owned(p, c.objects)
	for g.chance(45) && len(p.Spec.TopologySpreadConstraints) < 3 {
		p.Spec.TopologySpreadConstraints = append(p.Spec.TopologySpreadConstraints, g.spreadConstraint())
	}
	if with, against := g.podTerms(true, 40); with != nil || against != nil {
		if p.Spec.Affinity == nil {
			p.Spec.Affinity = &corev1.Affinity{}
		}
		p.Spec.Affinity.PodAffinity, p.Spec.Affinity.PodAntiAffinity = with, against
	}
	if g.chance(3) {
		p.Spec.NodeName = pick(g, c.nodes...).Name
	}
	if g.chance(5) {
		no := false
		p.Spec.HostUsers, p.Spec.HostNetwork = &no, true
	}
	return p
}

// undemanding lets a pod go nearly everywhere, so that the rules about other pods, which
// come last, have something left to reject and to rank.
func (g *generator) undemanding(p *corev1.Pod) {
	p.Spec.InitContainers, p.Spec.Overhead, p.Spec.Resources, p.Spec.NodeSelector = nil, nil, nil, nil
	p.Spec.Containers = []corev1.Container{{Name: "c", Image: pick(g, imageNames...)}}
	p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceMemory: quantity(1)}
	p.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	if g.chance(80) {
		p.Spec.Affinity = nil
	}
}

func (g *generator) nodeAffinity(c *cluster) *corev1.NodeAffinity {
	var a corev1.NodeAffinity
	if g.chance(60) {
		required := &corev1.NodeSelector{}
		for range g.IntN(3) {
			required.NodeSelectorTerms = append(required.NodeSelectorTerms, g.term(c, 45))
		}
		a.RequiredDuringSchedulingIgnoredDuringExecution = required
	}
	for range g.IntN(4) {
		a.PreferredDuringSchedulingIgnoredDuringExecution = append(a.PreferredDuringSchedulingIgnoredDuringExecution,
			corev1.PreferredSchedulingTerm{Weight: pick[int32](g, 0, 1, 7, 100), Preference: g.term(c, 15)})
	}
	return &a
}

func (g *generator) term(c *cluster, byName int) corev1.NodeSelectorTerm {
	var t corev1.NodeSelectorTerm
	for range g.IntN(3) {
		t.MatchExpressions = append(t.MatchExpressions, g.expression())
	}
	for range g.IntN(3) {
		if !g.chance(byName) {
			continue
		}
		name := pick(g, c.nodes...).Name
		if g.chance(15) {
			name = "no-such-node"
		}
		r := corev1.NodeSelectorRequirement{
			Key:      "metadata.name",
			Operator: pick(g, corev1.NodeSelectorOpIn, corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn),
			Values:   []string{name},
		}
		if g.chance(5) {
			r.Values = append(r.Values, "two-are-not-allowed")
		}
		t.MatchFields = append(t.MatchFields, r)
	}
	return t
}

func (g *generator) expression() corev1.NodeSelectorRequirement {
	r := corev1.NodeSelectorRequirement{
		Key: pick(g, "zone", "disk", "rank", "empty", "absent"),
		Operator: pick(g, corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn, corev1.NodeSelectorOpExists,
			corev1.NodeSelectorOpDoesNotExist, corev1.NodeSelectorOpGt, corev1.NodeSelectorOpLt),
	}
	switch r.Operator {
	case corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn:
		r.Values = some(g, 50, "a", "b", "ssd", "hdd", "")
		if len(r.Values) == 0 && !g.chance(10) {
			r.Values = []string{"c"}
		}
	case corev1.NodeSelectorOpGt, corev1.NodeSelectorOpLt:
		r.Values = []string{pick(g, "1", "2", "5", "x")}
	}
	if g.chance(1) {
		r.Operator = "Nonsense"
	}
	return r
}
