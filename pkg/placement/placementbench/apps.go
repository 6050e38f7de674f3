package placementbench

import (
	"fmt"
	"strings"

	"github.com/cespare/xxhash/v2"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// app is one deployed application, from which its pods are made. Its pods differ in name, UID and times only,
// unless the workload makes their requests unique.
type app struct {
	// index is the position among the apps; everything else follows from it and from the trait.
	index           int
	name, namespace string
	// hash is the pod-template-hash.
	hash  string
	image string
	// milliCPU and memory (in bytes) are the requests of the main container.
	milliCPU, memory int64
	// sidecar reports that the pods have a second container.
	sidecar bool
	// replicaSet and service report whether the app has one; without a replica set the pods have no owner.
	replicaSet, service bool

	affinity    *corev1.Affinity
	spread      []corev1.TopologySpreadConstraint
	tolerations []corev1.Toleration
	// excludedZone is a zone without pods of this app, -1 for none.
	excludedZone int
}

// trait gives an app the rules of a workload. It may use the app's index to give apps different ones.
type trait func(*app)

const (
	// namespaceCount is how many namespaces the apps share.
	namespaceCount = 5
	// sizes is the number of different amounts of cpu and of memory that apps request.
	sizes = 8
	// cpuStep is in milli-CPU, memoryStep in bytes; apps request 1 to sizes of each, so that the pods of a full run
	// fill a node to about a third.
	cpuStep    = 100
	memoryStep = 256 << 20
)

// makeApps makes count apps with one trait. Sizes are spread by a hash of the index, so that nodes have different
// mixtures.
func makeApps(count int, t trait) []app {
	apps := make([]app, count)
	for k := range apps {
		h := mix(uint64(k))
		a := app{
			index: k, name: appName(k), namespace: namespaceName(k % namespaceCount),
			hash: fmt.Sprintf("%010x", h>>24), image: appImage(k),
			milliCPU: cpuStep * int64(1+h%sizes), memory: memoryStep * int64(1+(h>>8)%sizes),
			sidecar: k%4 == 0, excludedZone: -1,
		}
		t(&a)
		apps[k] = a
	}
	return apps
}

// appName, namespaceName and appImage return names by index.
func appName(k int) string       { return fmt.Sprintf("app-%02d", k) }
func namespaceName(k int) string { return fmt.Sprintf("team-%d", k) }
func appImage(k int) string      { return fmt.Sprintf("registry.example.com/apps/app-%02d:v1.4.2", k) }

// keptFrom reports whether the app has no pods in a zone.
func (a *app) keptFrom(zone int) bool { return zone == a.excludedZone }

// plain pods have no controller, and nothing selects them.
func plain(*app) {}

// owned pods belong to a ReplicaSet, and half of them also to a service: they are spread by default. This is the
// usual pod of a cluster, and the first row of the tables.
func owned(a *app) {
	a.replicaSet, a.service = true, a.index%2 == 0
}

// nodeAffine apps require one of two node pools, prefer a disk and a zone, and some tolerate the taint of the
// dedicated nodes. Their rules read only Node objects.
func nodeAffine(a *app) {
	owned(a)
	pools := []string{poolName(a.index % poolCount), poolName((a.index + 1) % poolCount)}
	a.affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{
				{Key: labelPool, Operator: corev1.NodeSelectorOpIn, Values: pools},
				{Key: corev1.LabelArchStable, Operator: corev1.NodeSelectorOpIn, Values: []string{"amd64"}},
			}}},
		},
		PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{
			prefers(50, labelDisk, "ssd"),
			prefers(10, corev1.LabelTopologyZone, zoneName(a.index%zoneCount)),
		},
	}}
	if a.index%5 == 0 {
		a.tolerations = []corev1.Toleration{{
			Key: taintDedicated, Operator: corev1.TolerationOpEqual, Value: "batch",
			Effect: corev1.TaintEffectNoSchedule,
		}}
	}
}

// spread apps must be even over zones and should be even over nodes: both halves of PodTopologySpread.
func spread(a *app) {
	a.replicaSet, a.service = true, true
	a.spread = []corev1.TopologySpreadConstraint{
		{
			MaxSkew: 1, TopologyKey: corev1.LabelTopologyZone,
			WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: selecting(a.name),
		},
		{
			MaxSkew: 1, TopologyKey: corev1.LabelHostname,
			WhenUnsatisfiable: corev1.ScheduleAnyway, LabelSelector: selecting(a.name),
		},
	}
}

// requiredPair apps come in pairs that share two of the zones: each must be in a zone with pods of the other, and no
// two pods of one app may be on one node.
func requiredPair(a *app) {
	owned(a)
	a.excludedZone = a.index / 2 % zoneCount
	a.affinity = &corev1.Affinity{
		PodAffinity: &corev1.PodAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{
				near(partner(a.index), corev1.LabelTopologyZone),
			},
		},
		PodAntiAffinity: &corev1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{
				near(a.name, corev1.LabelHostname),
			},
		},
	}
	// A pair shares its namespace.
	a.namespace = namespaceName(a.index / 2 % namespaceCount)
}

// preferredPair apps also come in pairs, and prefer what a requiredPair requires.
func preferredPair(a *app) {
	owned(a)
	a.affinity = &corev1.Affinity{
		PodAffinity: &corev1.PodAffinity{
			PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{
				{Weight: 50, PodAffinityTerm: near(partner(a.index), corev1.LabelTopologyZone)},
			},
		},
		PodAntiAffinity: &corev1.PodAntiAffinity{
			PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{
				{Weight: 100, PodAffinityTerm: near(a.name, corev1.LabelHostname)},
			},
		},
	}
	a.namespace = namespaceName(a.index / 2 % namespaceCount)
}

// mixed is a mixture of the others: of ten apps, four have no rules, one has node
// affinity, one is spread, two are a pair that must be together and two a pair that should be.
func mixed(a *app) {
	switch a.index % 10 {
	case 4:
		nodeAffine(a)
	case 5:
		spread(a)
	case 6, 7:
		requiredPair(a)
	case 8, 9:
		preferredPair(a)
	default:
		owned(a)
	}
}

// partner returns the other app of a pair.
func partner(index int) string { return appName(index ^ 1) }

// selecting returns a selector of the pods of an app.
func selecting(appName string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{labelApp: appName}}
}

// near returns a term that selects the pods of an app by a topology key.
func near(appName, topologyKey string) corev1.PodAffinityTerm {
	return corev1.PodAffinityTerm{LabelSelector: selecting(appName), TopologyKey: topologyKey}
}

// prefers returns a preferred term for nodes with a label.
func prefers(weight int32, key, value string) corev1.PreferredSchedulingTerm {
	return corev1.PreferredSchedulingTerm{
		Weight: weight,
		Preference: corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{
			{Key: key, Operator: corev1.NodeSelectorOpIn, Values: []string{value}},
		}},
	}
}

// requests returns the app's requests, made unique by i unless it is negative.
func (a *app) requests(i int) corev1.ResourceList {
	memory := a.memory
	if i >= 0 {
		memory += int64(i+1) * uniqueStep
	}
	return corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewMilliQuantity(a.milliCPU, resource.DecimalSI),
		corev1.ResourceMemory: *resource.NewQuantity(memory, resource.BinarySI),
	}
}

// uniqueStep, in bytes, makes the requests of pods differ without filling nodes.
const uniqueStep = 4 << 10

// Namespaces of the apps.
func (w Workload) Namespaces() []*corev1.Namespace {
	list := make([]*corev1.Namespace, namespaceCount)
	for i := range list {
		name := namespaceName(i)
		list[i] = &corev1.Namespace{
			ObjectMeta: meta("", name, map[string]string{corev1.LabelMetadataName: name}),
			Spec:       corev1.NamespaceSpec{Finalizers: []corev1.FinalizerName{corev1.FinalizerKubernetes}},
			Status:     corev1.NamespaceStatus{Phase: corev1.NamespaceActive},
		}
	}
	return list
}

// Services of the apps that have one.
func (w Workload) Services() []*corev1.Service {
	var list []*corev1.Service
	for k := range w.apps {
		if a := &w.apps[k]; a.service {
			list = append(list, &corev1.Service{
				ObjectMeta: meta(a.namespace, a.name, map[string]string{labelApp: a.name}),
				Spec: corev1.ServiceSpec{
					Type: corev1.ServiceTypeClusterIP, ClusterIP: address(10, k),
					Selector: map[string]string{labelApp: a.name},
					Ports:    []corev1.ServicePort{{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80}},
				},
			})
		}
	}
	return list
}

// ReplicaSets of the apps that have one.
func (w Workload) ReplicaSets() []*appsv1.ReplicaSet {
	var list []*appsv1.ReplicaSet
	for k := range w.apps {
		if a := &w.apps[k]; a.replicaSet {
			list = append(list, &appsv1.ReplicaSet{
				ObjectMeta: meta(a.namespace, a.replicaSetName(), a.labels()),
				Spec:       appsv1.ReplicaSetSpec{Selector: &metav1.LabelSelector{MatchLabels: a.labels()}},
			})
		}
	}
	return list
}

// replicaSetName is the name of the app's ReplicaSet, as the Deployment controller forms it.
func (a *app) replicaSetName() string { return a.name + "-" + a.hash }

// labels returns the labels of the app's pods and ReplicaSet.
func (a *app) labels() map[string]string {
	return map[string]string{
		labelApp: a.name, "app.kubernetes.io/part-of": a.namespace, appsv1.DefaultDeploymentUniqueLabelKey: a.hash,
	}
}

// uid returns a UUID derived from a name, the same every time.
func uid(parts ...string) types.UID {
	h := hash(parts...)
	low := mix(h)
	return types.UID(fmt.Sprintf("%08x-%04x-4%03x-%04x-%012x",
		h>>32, h>>16&0xffff, h&0xfff, low>>48&0x3fff|0x8000, low&0xffffffffffff))
}

// hash returns a hash of a name.
func hash(parts ...string) uint64 { return xxhash.Sum64String(strings.Join(parts, "/")) }

// address returns an IPv4 address in a /8 network.
func address(network, i int) string {
	return fmt.Sprintf("%d.%d.%d.%d", network, i>>16&0xff, i>>8&0xff, i&0xff)
}
