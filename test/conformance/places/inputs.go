package places

import (
	"fmt"
	"math/rand/v2"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// SchedulerName is the profile of all pods of this package.
const SchedulerName = "default-scheduler"

// tier is a label of nodes that pods select and prefer.
const tier = "example.com/tier"

// Draw draws clusters and pods from a seed.
type Draw struct {
	*rand.Rand
	pods int
}

// NewDraw returns the draw of a seed.
func NewDraw(seed uint64) *Draw { return &Draw{Rand: rand.New(rand.NewPCG(seed, 1))} }

func pick[T any](d *Draw, list ...T) T { return list[d.IntN(len(list))] }

// Nodes returns nodes of several sizes in three zones. Some have taints that pods avoid, some have the images of pods.
func (d *Draw) Nodes(n int) []*corev1.Node {
	list := make([]*corev1.Node, n)
	for i := range list {
		node := Node(i, pick(d, "4", "8", "8", "16"), pick(d, "16Gi", "32Gi", "64Gi"))
		node.Labels[corev1.LabelTopologyZone] = pick(d, "zone-a", "zone-b", "zone-c")
		node.Labels[tier] = pick(d, "gold", "silver", "silver")
		if d.IntN(10) == 0 {
			node.Spec.Taints = []corev1.Taint{{Key: "example.com/spot", Effect: corev1.TaintEffectPreferNoSchedule}}
		}
		if d.IntN(8) == 0 {
			node.Status.Images = []corev1.ContainerImage{{Names: []string{image}, SizeBytes: 400 << 20}}
		}
		list[i] = node
	}
	return list
}

const image = "example.com/app:1"

// Node returns the node with this number, without pods.
func Node(i int, cpu, memory string) *corev1.Node {
	name := fmt.Sprintf("node-%04d", i)
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, UID: types.UID("uid-" + name), Labels: map[string]string{corev1.LabelHostname: name},
		},
		Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory),
			corev1.ResourcePods: resource.MustParse("110"),
		}},
	}
}

// Pod returns a new pod with these requests and nothing else.
func (d *Draw) Pod(cpu, memory string) *corev1.Pod {
	d.pods++
	name := fmt.Sprintf("pod-%05d", d.pods)
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "places", Name: name, UID: types.UID("uid-" + name), Labels: map[string]string{},
		},
		Spec: corev1.PodSpec{SchedulerName: SchedulerName, Containers: []corev1.Container{{
			Name: "c", Image: "example.com/other:1",
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
				corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory),
			}},
		}}},
	}
}

// Mixed returns a new pod without rules, of one of several sizes.
func (d *Draw) Mixed() *corev1.Pod {
	return d.Pod(pick(d, "100m", "250m", "500m", "1"), pick(d, "128Mi", "512Mi", "1Gi", "2Gi"))
}

// Standing returns pods that run on the nodes before a run.
func (d *Draw) Standing(nodes []*corev1.Node) (list []*corev1.Pod) {
	for _, n := range nodes {
		for range d.IntN(4) {
			p := d.Ruled()
			p.Spec.NodeName = n.Name
			list = append(list, p)
		}
	}
	return list
}

// Ruled returns a new pod of one of several sizes. Half of them have a rule or a preference, of one of the kinds that
// rules of kube-scheduler's default profile score or filter by; the others may be wanted or unwanted by those.
func (d *Draw) Ruled() *corev1.Pod {
	p := d.Mixed()
	p.Labels["app"] = pick(d, "web", "db", "cache", "batch")
	if d.IntN(2) == 0 {
		return p
	}
	rules := []func(*corev1.Pod, string){
		selects, prefersTier, tolerates, hasImage, prefersApp, avoidsApp, standsApart, spreads(corev1.DoNotSchedule),
		spreads(corev1.ScheduleAnyway), usesPort,
	}
	pick(d, rules...)(p, pick(d, "web", "db", "cache"))
	return p
}

func selects(p *corev1.Pod, _ string) { p.Spec.NodeSelector = map[string]string{tier: "silver"} }

func prefersTier(p *corev1.Pod, _ string) {
	p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{
			Weight: 40, Preference: corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{
				Key: tier, Operator: corev1.NodeSelectorOpIn, Values: []string{"gold"},
			}}},
		}},
	}}
}

func tolerates(p *corev1.Pod, _ string) {
	p.Spec.Tolerations = []corev1.Toleration{{Key: "example.com/spot", Operator: corev1.TolerationOpExists}}
}

func hasImage(p *corev1.Pod, _ string) { p.Spec.Containers[0].Image = image }

func term(app, key string) corev1.PodAffinityTerm {
	return corev1.PodAffinityTerm{
		TopologyKey: key, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}},
	}
}

func prefersApp(p *corev1.Pod, app string) {
	p.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{
		PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{
			Weight: 30, PodAffinityTerm: term(app, corev1.LabelTopologyZone),
		}},
	}}
}

func avoidsApp(p *corev1.Pod, app string) {
	p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
		PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{
			Weight: 30, PodAffinityTerm: term(app, corev1.LabelHostname),
		}},
	}}
}

// standsApart gives the pod an app of its own name, so that it repels its like only.
func standsApart(p *corev1.Pod, app string) {
	p.Labels["app"] = "apart-" + app
	p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{
			term("apart-"+app, corev1.LabelHostname),
		},
	}}
}

func spreads(otherwise corev1.UnsatisfiableConstraintAction) func(*corev1.Pod, string) {
	return func(p *corev1.Pod, app string) {
		p.Labels["app"] = "spread-" + app
		p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
			MaxSkew: 50, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: otherwise,
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "spread-" + app}},
		}}
	}
}

func usesPort(p *corev1.Pod, _ string) {
	p.Spec.Containers[0].Ports = []corev1.ContainerPort{{
		ContainerPort: 8080, HostPort: 8080, Protocol: corev1.ProtocolTCP, Name: "http",
	}}
}
