package conformance

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"sigs.k8s.io/yaml"

	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/state"
)

// hintsPerCluster is how many changes are tried on the pods of one cluster.
const hintsPerCluster = 200

// TestHints: a change of the cluster wakes a pod that one plugin rejected exactly when
// upstream's queueing hints of that plugin say so.
func TestHints(t *testing.T) {
	prepareUpstream(t)
	first := *seed
	if first == 0 {
		first = rand.Uint64()>>1 + 1
	}
	t.Logf("first seed %d; replay with -args -seed=%d -comparisons=%d", first, first, *comparisons)
	total, woke := 0, 0
	excepted, wokeBy := map[exception]int{}, map[string]int{}
	for i := uint64(0); total < *comparisons; i++ {
		g := newGenerator(first + i)
		c := g.cluster()
		config := g.profile()
		upstream, err := newOracle(t.Context(), c, config)
		if err != nil {
			t.Fatalf("seed %d: upstream: %v", first+i, err)
		}
		profile, err := placement.NewProfile(config)
		if err != nil {
			t.Fatalf("seed %d: %v", first+i, err)
		}
		others, err := c.snapshot()
		if err != nil {
			t.Fatalf("seed %d: %v", first+i, err)
		}
		for range hintsPerCluster {
			pod, change := g.change(&c)
			change.objects = others
			a, b := compareHints(t, first+i, hintCase{upstream, profile, pod, change}, excepted, wokeBy)
			total, woke = total+a, woke+b
		}
	}
	t.Logf("compared %d hints, %d of them yes: %v; upstream says otherwise on purpose: %v",
		total, woke, wokeBy, excepted)
	if woke < total/50 {
		t.Fatal("the input is lopsided: hardly any change wakes a pod")
	}
}

// hintCase is one change that may wake one pod.
type hintCase struct {
	upstream *oracle
	profile  *placement.Profile
	pod      *corev1.Pod
	change   clusterChange
}

// compareHints asks about every plugin; it returns how many there are and how many wake.
func compareHints(
	t *testing.T, seed uint64, c hintCase, excepted map[exception]int, wokeBy map[string]int,
) (total, woke int) {
	t.Helper()
	for _, plugin := range c.upstream.framework.EnqueueExtensions() {
		want := upstreamWakes(t, plugin, c.pod, c.change)
		got := c.profile.Wakes(state.NewPod(c.pod.DeepCopy()), []string{plugin.Name()}, c.change.ours())
		total++
		if want {
			woke++
			wokeBy[plugin.Name()]++
		}
		if e := exceptionOf(plugin.Name(), c); got != want && e != "" {
			excepted[e]++
			continue
		}
		if got != want {
			d := c.change
			text, _ := yaml.Marshal([]any{c.pod, d.oldPod, d.newPod, d.oldNode, d.newNode})
			t.Fatalf("seed %d: %s: upstream wakes %v, ours %v; the pod, then the change, old and new:\n%s",
				seed, plugin.Name(), want, got, text)
		}
	}
	return total, woke
}

// clusterChange is one change, in Kubernetes objects; nil as in an informer's callbacks.
type clusterChange struct {
	oldPod, newPod   *corev1.Pod
	oldNode, newNode *corev1.Node
	objects          placement.Objects
}

// change draws a waiting pod and a change that could matter to it.
func (g *generator) change(c *cluster) (*corev1.Pod, clusterChange) {
	pod := g.incoming(c)
	pod.Spec.NodeName = ""
	switch g.IntN(10) {
	case 0:
		return pod, clusterChange{newNode: g.node()}
	case 1, 2, 3:
		old := pick(g, c.nodes...)
		return pod, clusterChange{oldNode: old, newNode: g.changedNode(old)}
	case 4:
		return pod, clusterChange{oldNode: pick(g, c.nodes...)}
	case 5:
		other := g.neighbour(c)
		other.Spec.NodeName = pick(g, "", c.nodes[0].Name)
		other.Status.NominatedNodeName = pick(g, "", "", c.nodes[0].Name)
		return pod, clusterChange{oldPod: other}
	case 6:
		other := g.neighbour(c)
		other.Spec.NodeName = c.nodes[0].Name
		return pod, clusterChange{newPod: other}
	case 7:
		other := g.neighbour(c)
		other.Spec.NodeName = c.nodes[0].Name
		return pod, clusterChange{oldPod: other, newPod: g.changedPod(other)}
	default:
		updated := g.changedPod(pod)
		return updated, clusterChange{oldPod: pod, newPod: updated}
	}
}

// neighbour draws a pod that may repel others.
func (g *generator) neighbour(c *cluster) *corev1.Pod {
	p := g.pod(c)
	if with, against := g.podTerms(false, 40); with != nil || against != nil {
		p.Spec.Affinity = &corev1.Affinity{PodAffinity: with, PodAntiAffinity: against}
	}
	return p
}

func (g *generator) changedNode(old *corev1.Node) *corev1.Node {
	n, other := old.DeepCopy(), g.node()
	if g.chance(50) {
		n.Spec.Unschedulable = !n.Spec.Unschedulable
	}
	if g.chance(40) {
		n.Spec.Taints = other.Spec.Taints
	}
	if g.chance(40) {
		n.Labels = other.Labels
	} else if g.chance(30) {
		n.Labels = maps.Clone(n.Labels)
		delete(n.Labels, pick(g, topologyKeys...))
	}
	if g.chance(50) {
		n.Status.Allocatable = other.Status.Allocatable
	}
	if g.chance(30) {
		n.Status.DeclaredFeatures = other.Status.DeclaredFeatures
	}
	return n
}

// changedPod changes what can change of a pod: tolerations are added, gates removed,
// requests resized, labels set.
func (g *generator) changedPod(old *corev1.Pod) *corev1.Pod {
	p := old.DeepCopy()
	if g.chance(30) {
		p.Spec.Tolerations = append(p.Spec.Tolerations, g.toleration())
	}
	if g.chance(30) {
		old.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "gate"}}
	}
	if g.chance(40) {
		g.resize(p.Spec.Containers[0].Resources.Requests)
	}
	if g.chance(40) {
		p.Labels = g.podLabels()
	}
	if g.chance(20) {
		no := false
		p.Spec.HostUsers, p.Spec.HostNetwork = &no, true
	}
	return p
}

// resize changes amounts. It neither adds nor removes a request, as the API server demands
// of a resize: upstream takes the removal of a request for nothing as a scale-down.
func (g *generator) resize(requests corev1.ResourceList) {
	for _, name := range slices.Sorted(maps.Keys(requests)) {
		switch name {
		case plain:
		case corev1.ResourceCPU:
			requests[name] = milli(pick[int64](g, 0, 100, 500, 2000))
		default:
			requests[name] = quantity(pick[int64](g, 0, 1, 2, 1<<30))
		}
	}
}

func (c clusterChange) ours() placement.Change {
	pod := func(p *corev1.Pod) *state.Pod {
		if p == nil {
			return nil
		}
		return state.NewPod(p.DeepCopy())
	}
	node := func(n *corev1.Node) *state.Node {
		if n == nil {
			return nil
		}
		return state.NewNode(n.DeepCopy())
	}
	change := placement.PodChange(state.PodChange{Before: pod(c.oldPod), After: pod(c.newPod)})
	if c.oldNode != nil || c.newNode != nil {
		change = placement.NodeChange(state.NodeChange{Before: node(c.oldNode), After: node(c.newNode)})
	}
	change.Objects = c.objects
	return change
}

// upstream returns the events and objects that upstream's handlers make of the change.
func (c clusterChange) upstream() (events []fwk.ClusterEvent, oldObj, newObj any) {
	switch {
	case c.oldNode != nil && c.newNode != nil:
		return framework.NodeSchedulingPropertiesChange(c.newNode, c.oldNode), c.oldNode, c.newNode
	case c.newNode != nil:
		return []fwk.ClusterEvent{{Resource: fwk.Node, ActionType: fwk.Add}}, nil, c.newNode
	case c.oldNode != nil:
		return []fwk.ClusterEvent{{Resource: fwk.Node, ActionType: fwk.Delete}}, c.oldNode, nil
	case c.oldPod != nil && c.newPod != nil:
		return framework.PodSchedulingPropertiesChange(c.newPod, c.oldPod), c.oldPod, c.newPod
	case c.newPod != nil:
		return []fwk.ClusterEvent{framework.EventAssignedPodAdd}, nil, c.newPod
	default:
		return []fwk.ClusterEvent{framework.EventAssignedPodDelete}, c.oldPod, nil
	}
}

func upstreamWakes(t *testing.T, plugin fwk.EnqueueExtensions, pod *corev1.Pod, change clusterChange) bool {
	t.Helper()
	registered, err := plugin.EventsToRegister(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	events, oldObj, newObj := change.upstream()
	for _, event := range events {
		for _, r := range registered {
			if !framework.MatchClusterEvents(r.Event, event) {
				continue
			}
			if r.QueueingHintFn == nil {
				return true
			}
			hint, err := r.QueueingHintFn(klog.Background(), pod, oldObj, newObj)
			if err != nil || hint == fwk.Queue {
				return true
			}
		}
	}
	return false
}
