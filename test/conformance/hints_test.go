package conformance

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"sigs.k8s.io/yaml"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/placement/placementtest"
	"github.com/berth-scheduler/berth/pkg/placement/rule"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/pkg/state/strip"
)

// hintsPerCluster is how many changes are tried on the pods of one cluster.
const hintsPerCluster = 200

// mostExceptedHints is the share of hints, in thousandths, that may differ on purpose. (Measured: 1.)
const mostExceptedHints = 10

// TestHints: a change of the cluster wakes a pod that one plugin rejected exactly when upstream's queueing hints of
// that plugin do.
func TestHints(t *testing.T) { compareAllHints(t, placementtest.Small) }

// TestVolumeHints is TestHints in clusters with volumes.
func TestVolumeHints(t *testing.T) { compareAllHints(t, withVolumes) }

func compareAllHints(t *testing.T, size placementtest.Size) {
	t.Helper()
	prepareUpstream()
	first := firstSeed(t)
	total, woke := 0, 0
	excepted, wokeBy := map[exception]int{}, map[string]int{}
	for i := uint64(0); total < *comparisons; i++ {
		a, b := compareCluster(t, first+i, size, excepted, wokeBy)
		total, woke = total+a, woke+b
	}
	t.Logf("compared %d hints, %d of them yes: %v; upstream says otherwise on purpose: %v",
		total, woke, wokeBy, excepted)
	differ := 0
	for _, n := range excepted {
		differ += n
	}
	if differ*1000 > mostExceptedHints*total {
		t.Errorf("%d of %d hints differ on purpose, want %d in a thousand at most", differ, total, mostExceptedHints)
	}
	if woke < total/50 {
		lacks(t, "hardly any change wakes a pod")
	}
}

// compareCluster asks about many changes of one cluster; it returns how many hints it has
// compared and how many of them wake.
func compareCluster(
	t *testing.T, seed uint64, size placementtest.Size, excepted map[exception]int, wokeBy map[string]int,
) (total, woke int) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	g := placementtest.New(seed)
	g.Size = size
	c := g.Cluster()
	both := mustSides(ctx, t, g.Profile())
	both.mustApply(t, c.Events()...)
	for range hintsPerCluster {
		h := drawHint(g, &c)
		h.sides = both
		a, b := compareHints(t, seed, h, excepted, wokeBy)
		total, woke = total+a, woke+b
	}
	return total, woke
}

// hintCase is one change that may wake one pod.
type hintCase struct {
	*sides
	pod    *corev1.Pod
	change placementtest.Event
}

// compareHints asks about every plugin; it returns how many there are and how many wake.
func compareHints(
	t *testing.T, seed uint64, c hintCase, excepted map[exception]int, wokeBy map[string]int,
) (total, woke int) {
	t.Helper()
	for _, plugin := range c.upstream.framework.EnqueueExtensions() {
		want := upstreamWakes(t, plugin, c.pod, c.change)
		got := c.profile.Wakes(state.NewPod(c.pod.DeepCopy()), []string{plugin.Name()},
			ourChange(c.change, c.view.Objects()))
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
			text, _ := yaml.Marshal([]any{c.pod, c.change.Old, c.change.New})
			t.Fatalf("seed %d: %s: upstream wakes %v, ours %v; the pod, then the change, old and new:\n%s",
				seed, plugin.Name(), want, got, text)
		}
	}
	return total, woke
}

// drawHint draws a waiting pod and a change of a pod or a node that could matter to it.
func drawHint(g *placementtest.Generator, c *placementtest.Cluster) hintCase {
	pod := g.Incoming(c)
	pod.Spec.NodeName = ""
	if g.Chance(20) {
		updated := g.Changed(pod)
		return hintCase{pod: updated, change: event(pod, updated)}
	}
	if g.Chance(10) {
		gone := g.Neighbour(c)
		gone.Spec.NodeName = placementtest.Pick(g, "", c.Nodes[0].Name)
		gone.Status.NominatedNodeName = placementtest.Pick(g, "", "", c.Nodes[0].Name)
		return hintCase{pod: pod, change: event(gone, nil)}
	}
	for {
		e := g.Event(c)
		replaced := e.Old != nil && e.New != nil && e.Old.GetUID() != e.New.GetUID()
		_, ofVolumes := volumeResources[e.Kind]
		if replaced || e.Kind != events.KindPod && e.Kind != events.KindNode && !ofVolumes {
			continue
		}
		return hintCase{pod: pod, change: e}
	}
}

// ourChange is the change in our words.
func ourChange(e placementtest.Event, objects rule.Objects) rule.Change {
	change := rule.PodChange(state.PodChange{Before: podOf(e.Old), After: podOf(e.New)})
	_, ofVolumes := volumeResources[e.Kind]
	switch {
	case e.Kind == events.KindNode:
		change = rule.NodeChange(state.NodeChange{Before: nodeOf(e.Old), After: nodeOf(e.New)})
	case ofVolumes:
		change = rule.ObjectChange(state.ObjectChange{
			Kind: e.Kind, Before: objectOf(e.Kind, e.Old), After: objectOf(e.Kind, e.New),
		})
	}
	change.Objects = objects
	return change
}

func podOf(obj state.APIObject) *state.Pod {
	if p, ok := obj.(*corev1.Pod); ok {
		return state.NewPod(p.DeepCopy())
	}
	return nil
}

func nodeOf(obj state.APIObject) *state.Node {
	if n, ok := obj.(*corev1.Node); ok {
		return state.NewNode(n.DeepCopy())
	}
	return nil
}

// objectOf is nil for none.
func objectOf(k events.Kind, obj state.APIObject) *state.Object {
	if obj == nil {
		return nil
	}
	obj = obj.(runtime.Object).DeepCopyObject().(state.APIObject)
	strip.Strip(obj)
	return &state.Object{
		Kind: k, UID: string(obj.GetUID()), Namespace: obj.GetNamespace(), Name: obj.GetName(), API: obj,
	}
}

// volumeResources are the kinds of volumes and what provides them, in upstream's words.
var volumeResources = map[events.Kind]fwk.EventResource{
	events.KindPersistentVolume: fwk.PersistentVolume, events.KindVolumeClaim: fwk.PersistentVolumeClaim,
	events.KindStorageClass: fwk.StorageClass, events.KindCSINode: fwk.CSINode, events.KindCSIDriver: fwk.CSIDriver,
	events.KindStorageCapacity: fwk.CSIStorageCapacity, events.KindVolumeAttachment: fwk.VolumeAttachment,
}

// upstreamEvents returns the events and objects that upstream's handlers make of a change.
func upstreamEvents(e placementtest.Event) (list []fwk.ClusterEvent, oldObj, newObj any) {
	if e.Kind == events.KindNode {
		switch before, after := e.Nodes(); {
		case before != nil && after != nil:
			return framework.NodeSchedulingPropertiesChange(after, before), before, after
		case after != nil:
			return []fwk.ClusterEvent{{Resource: fwk.Node, ActionType: fwk.Add}}, nil, after
		default:
			return []fwk.ClusterEvent{{Resource: fwk.Node, ActionType: fwk.Delete}}, before, nil
		}
	}
	if resource, ok := volumeResources[e.Kind]; ok {
		return volumeEvents(resource, e)
	}
	switch before, after := withoutEnded(e); {
	case before != nil && after != nil:
		return framework.PodSchedulingPropertiesChange(after, before), before, after
	case after != nil:
		return []fwk.ClusterEvent{framework.EventAssignedPodAdd}, nil, after
	default:
		return []fwk.ClusterEvent{framework.EventAssignedPodDelete}, before, nil
	}
}

func volumeEvents(resource fwk.EventResource, e placementtest.Event) (list []fwk.ClusterEvent, oldObj, newObj any) {
	event := fwk.ClusterEvent{Resource: resource, ActionType: fwk.Update}
	if e.Old != nil {
		oldObj = e.Old
	} else {
		event.ActionType = fwk.Add
	}
	if e.New != nil {
		newObj = e.New
	} else {
		event.ActionType = fwk.Delete
	}
	return []fwk.ClusterEvent{event}, oldObj, newObj
}

func upstreamWakes(
	t *testing.T, plugin fwk.EnqueueExtensions, pod *corev1.Pod, change placementtest.Event,
) bool {
	t.Helper()
	registered, err := plugin.EventsToRegister(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	list, oldObj, newObj := upstreamEvents(change)
	for _, event := range list {
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
