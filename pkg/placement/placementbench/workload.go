package placementbench

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// Workload is one kind of load. Create one with All, Named or Population; Decisions may be lowered for a shorter
// run. It is immutable otherwise, and may be copied.
type Workload struct {
	// Name is short and unique; Title describes what the pods require.
	Name, Title string
	// Decisions is how many pods arrive in a full run.
	Decisions int
	// PodsPerNode is the number of pods on every node at the start.
	PodsPerNode int
	// EventEvery is after how many decisions one node changes; 0 means never.
	EventEvery int

	apps []app
	// unique means that no two pods request the same amounts, so that no two have the same shape: the worst case
	// for an engine, which then makes a class per pod.
	unique bool
	// tainted means that some nodes are cordoned or repel pods.
	tainted bool
}

// The size of a workload. It is that of published measurements; see docs/benchmarks-placement.md.
const (
	// appCount is the number of templates (services, where there are services) of the pods of one workload.
	appCount = 50
	// podsPerNode is how full nodes are at the start: enough pods for the rules about other pods to count.
	podsPerNode = 10
	// fullRun is the number of pods that arrive.
	fullRun = 50_000
	// eventEvery makes one node event per ten decisions.
	eventEvery = 10
)

// All lists the workloads, in the order in which tables show them.
func All() []Workload {
	return []Workload{
		{
			Name: "basic", Title: "basic, pods from 50 templates",
			Decisions: fullRun, PodsPerNode: podsPerNode, apps: makeApps(appCount, owned),
		},
		{
			Name: "basic-unowned", Title: "basic, pods without owner or service",
			Decisions: fullRun, PodsPerNode: podsPerNode, apps: makeApps(appCount, plain),
		},
		{
			Name: "basic-unique", Title: "basic, every pod's shape unique",
			Decisions: fullRun / 5, PodsPerNode: podsPerNode, apps: makeApps(appCount, owned), unique: true,
		},
		{
			Name: "node-affinity", Title: "node affinity + taints",
			Decisions: fullRun, PodsPerNode: podsPerNode, apps: makeApps(appCount, nodeAffine), tainted: true,
		},
		{
			Name: "spread", Title: "hard zone spread + soft hostname spread, 50 services",
			Decisions: fullRun, PodsPerNode: podsPerNode, apps: makeApps(appCount, spread),
		},
		{
			Name: "pod-affinity", Title: "required pod affinity (zone), required anti-affinity (hostname)",
			Decisions: fullRun, PodsPerNode: podsPerNode, apps: makeApps(appCount, requiredPair),
		},
		{
			Name: "preferred-affinity", Title: "preferred affinity and anti-affinity",
			Decisions: fullRun, PodsPerNode: podsPerNode, apps: makeApps(appCount, preferredPair),
		},
		{
			Name: "mixed", Title: "mixed, with 10% node churn events",
			Decisions: fullRun, PodsPerNode: podsPerNode, EventEvery: eventEvery, apps: makeApps(appCount, mixed),
			tainted: true,
		},
	}
}

// Named returns a workload of All.
func Named(name string) (Workload, error) {
	var names []string
	for _, w := range All() {
		if w.Name == name {
			return w, nil
		}
		names = append(names, w.Name)
	}
	return Workload{}, fmt.Errorf("placementbench: workload %q is unknown, want one of %v", name, names)
}

// Population returns a workload without arrivals for a cluster with podsPerNode pods on each node, of apps with
// about podsPerApp pods each that have all the rules of the other workloads. It is for measuring memory.
func Population(nodes, podsPerNode, podsPerApp int) Workload {
	return Workload{
		Name: "population", Title: "every kind of pod", PodsPerNode: podsPerNode, tainted: true,
		apps: makeApps(max(nodes*podsPerNode/podsPerApp, appCount), mixed),
	}
}

// Cluster holds all objects at the start: what a scheduler lists when it starts. They belong to the receiver.
type Cluster struct {
	Nodes []*corev1.Node
	// Pods are bound to Nodes.
	Pods        []*corev1.Pod
	Namespaces  []*corev1.Namespace
	Services    []*corev1.Service
	ReplicaSets []*appsv1.ReplicaSet
}

// Cluster makes a cluster with this many nodes.
func (w Workload) Cluster(nodes int) Cluster {
	c := Cluster{
		Nodes: make([]*corev1.Node, nodes), Pods: make([]*corev1.Pod, 0, nodes*w.PodsPerNode),
		Namespaces: w.Namespaces(), Services: w.Services(), ReplicaSets: w.ReplicaSets(),
	}
	for i := range c.Nodes {
		c.Nodes[i] = w.Node(i)
		for j := range w.PodsPerNode {
			c.Pods = append(c.Pods, w.Bound(i, j))
		}
	}
	return c
}

// Pending returns the pod that arrives as number i, counted from 0. Templates are used in turn.
func (w Workload) Pending(i int) *corev1.Pod {
	return w.pod(&w.apps[i%len(w.apps)], pendingSeries, i)
}

// Bound returns the j-th of the pods that are on node at the start, running and ready.
func (w Workload) Bound(node, j int) *corev1.Pod {
	pod := w.pod(w.appOn(node, j), boundSeries, node*w.PodsPerNode+j)
	run(pod, node)
	return pod
}

// strides are coprime to appCount, so that the pods of one node are of different apps: with 50 apps, steps of 3
// visit all of them before one repeats.
var strides = [...]int{1, 3, 7, 9, 11, 13, 17, 19}

// appOn returns the app of the j-th pod on a node: different apps on one node (up to appCount), the same on a
// node of each zone (so that apps are spread evenly), and none in a zone that its own rules keep it out of. It
// starts at an app that a hash of the node selects and goes on by a stride that a hash selects too.
func (w Workload) appOn(node, j int) *app {
	h := mix(uint64(node / zoneCount))
	start, stride := int(h%uint64(len(w.apps))), strides[(h>>32)%uint64(len(strides))]
	at := start + j*stride
	for range len(w.apps) {
		if a := &w.apps[at%len(w.apps)]; !a.keptFrom(zoneOf(node)) {
			return a
		}
		// The next app that the other pods of the node do not have.
		at += w.PodsPerNode * stride
	}
	return &w.apps[at%len(w.apps)]
}

// mix is the finaliser of splitmix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators): it turns
// a counter into well-distributed bits.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9
	x = (x ^ (x >> 27)) * 0x94d049bb133111eb
	return x ^ (x >> 31)
}

// Apps returns the number of templates of the pods.
func (w Workload) Apps() int { return len(w.apps) }
