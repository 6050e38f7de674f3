package placementbench

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/berth-scheduler/berth/pkg/placement/engine"
	"github.com/berth-scheduler/berth/pkg/placement/preempt"
	"github.com/berth-scheduler/berth/pkg/state"
)

// Crowd is a workload for preemption: the existing pods leave no processor free, and more important pods arrive.
// Every arrival needs victims, so that a run measures dry runs and not placements. Victims are removed at once,
// and their place is taken by the preemptor: the cluster stays full.
type Crowd struct {
	// Name and Title are as in Workload.
	Name, Title string
	load        Workload
}

// The shape of a crowd: every node is full, and two in five of its pods have a priority above 0.
const (
	// crowdPods is the number of pods on every node.
	crowdPods = 4
	// important is the priority of the pods that arrive.
	important = 1000
	// milliPerNode is the capacity of a node in milli-CPU.
	milliPerNode = 32_000
)

// crowdShares are the requests of the pods of a node, in milli-CPU; crowdPriorities are their priorities.
var (
	crowdShares     = [crowdPods]int64{6_000, 10_000, 4_000, 12_000}
	crowdPriorities = [...]int32{0, 0, 0, 10, 20}
)

// Crowds lists the workloads for preemption.
func Crowds() []Crowd {
	crowd := func(name, title string, t trait, unique bool) Crowd {
		return Crowd{Name: name, Title: title, load: Workload{
			Name: name, PodsPerNode: crowdPods, apps: makeApps(appCount, t), unique: unique,
		}}
	}
	return []Crowd{
		crowd("basic", "basic, preemptors from 50 templates", owned, false),
		crowd("unique", "basic, every preemptor's shape unique", owned, true),
		crowd("node-affinity", "node affinity", nodeAffine, false),
		crowd("spread", "hard zone spread + soft hostname spread, 50 services", spread, false),
	}
}

// Cluster makes a cluster with this many nodes, all of them full: the requests of the four pods of a node are
// those of crowdShares, 32 processors together.
func (c Crowd) Cluster(nodes int) Cluster {
	cluster := Cluster{
		Nodes: make([]*corev1.Node, nodes), Pods: make([]*corev1.Pod, 0, nodes*crowdPods),
		Namespaces: c.load.Namespaces(), Services: c.load.Services(), ReplicaSets: c.load.ReplicaSets(),
	}
	for i := range cluster.Nodes {
		cluster.Nodes[i] = c.load.Node(i)
		for j := range crowdPods {
			number := i*crowdPods + j
			p := c.load.pod(c.load.appOn(i, j), boundSeries, number)
			asks(p, crowdShares[j])
			*p.Spec.Priority = crowdPriorities[mix(uint64(number))%uint64(len(crowdPriorities))]
			run(p, i)
			cluster.Pods = append(cluster.Pods, p)
		}
	}
	return cluster
}

// Preemptor returns the pod that arrives as number i, counted from 0. It requests an eighth to a half of a node.
func (c Crowd) Preemptor(i int) *corev1.Pod {
	p := c.load.Pending(i)
	milli := milliPerNode / 8 * (1 + int64(i%len(c.load.apps))%4)
	if c.load.unique {
		milli -= int64(i%milliPerNode) / 8
	}
	asks(p, milli)
	*p.Spec.Priority = important
	return p
}

// asks sets the total request of a pod, in milli-CPU.
func asks(p *corev1.Pod, milli int64) {
	for _, other := range p.Spec.Containers[1:] {
		milli -= other.Resources.Requests.Cpu().MilliValue()
	}
	p.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = *resource.NewMilliQuantity(milli, resource.DecimalSI)
}

// Preempt places a pod where it fits or, if it fits nowhere, in the place of its victims, which are removed at
// once. The second step is the one that preemption benchmarks measure.
func (s *Site) Preempt(pod *state.Pod, seed uint64) (preempt.Result, error) {
	if r := s.Decide(pod, seed); r.Err != nil || len(r.Feasible) > 0 {
		return preempt.Result{}, r.Err
	}
	r := s.Engine.Preempt(s.Profile, engine.PreemptQuery{Pod: pod, Seed: seed})
	if r.Err != nil || r.Node == nil {
		return r, fmt.Errorf("placementbench: preemption for %s: %w (%s)", pod.Name, r.Err, r.Message)
	}
	for _, v := range r.Victims {
		s.Remove(v.Node, v.Pod)
	}
	r.Node.AddPod(pod)
	s.Engine.ChangePod(r.Node, nil, pod)
	return r, nil
}
