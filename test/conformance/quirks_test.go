package conformance

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	schedutil "k8s.io/kubernetes/pkg/scheduler/util"

	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/placement/names"
)

// Upstream's cache forgets or mixes up some past events, so that its answer depends on their order and not on the
// cluster alone. Ours does not follow it there. So that everything else can be compared after random histories, the
// functions here correct exactly these errors in upstream's memory; each has a test below that shows upstream's
// answer without the correction.

// fixPorts: upstream keeps a set of a node's ports in use and frees a port with the first pod that is removed, even
// if another one has it too. (Two pods with one port are not scheduled to one node, but static pods and pods with
// spec.nodeName can come to it.) Here every remaining pod with a port is entered again.
func (u *upstreamState) fixPorts(ctx context.Context, gone *corev1.Pod) error {
	if u.raw || len(schedutil.GetHostPorts(gone)) == 0 {
		return nil
	}
	for _, p := range u.cluster.Pods {
		if p.Spec.NodeName != gone.Spec.NodeName || ended(p) || p.UID == gone.UID || len(schedutil.GetHostPorts(p)) == 0 {
			continue
		}
		if known, err := u.cache.GetPod(p); err != nil || known.UID != p.UID {
			continue // it replaces the one that is gone and is not entered yet
		}
		if err := u.cache.UpdatePod(klog.FromContext(ctx), p, p.DeepCopy()); err != nil {
			return err
		}
	}
	return nil
}

// fixImages: upstream counts the nodes that have an image when a node is copied into the snapshot, so that the count
// is outdated on nodes that did not change since; and an image keeps the size that the first node reported, even if
// that node is gone. Our values equal upstream's right after a start that lists nodes by name.
func (u *upstreamState) fixImages() error {
	if u.raw {
		return nil
	}
	states := map[string]*fwk.ImageStateSummary{}
	for _, n := range u.cluster.Nodes {
		for name, size := range imageSizes(n) {
			if states[name] == nil {
				states[name] = &fwk.ImageStateSummary{Size: size}
			}
			states[name].NumNodes++
		}
	}
	for _, n := range u.cluster.Nodes {
		info, err := u.snapshot.Get(n.Name)
		if err != nil {
			return err
		}
		for name := range info.GetImageStates() {
			info.(*framework.NodeInfo).ImageStates[name] = states[name]
		}
	}
	return nil
}

// imageSizes are the sizes of a node's images by every name they have, the first if there
// are several.
func imageSizes(n *corev1.Node) map[string]int64 {
	sizes := map[string]int64{}
	for _, image := range n.Status.Images {
		for _, name := range image.Names {
			if _, ok := sizes[name]; !ok {
				sizes[name] = image.SizeBytes
			}
		}
	}
	return sizes
}

// fixNomination: upstream looks at the node that a pod has been nominated to before all others and keeps that node's
// result in the diagnosis, even when the pod's rules narrow the search down to nodes without it. The rule that
// rejected that node is then named as one that narrowed the search down. Ours counts the node among those that are
// outside of the search.
func (c *cycle) fixNomination(narrowedBy sets.Set[string]) {
	c.diagnosis.NodeToStatus = framework.NewDefaultNodeToStatus()
	c.diagnosis.UnschedulablePlugins = narrowedBy
}

// TestNominationLeavesTraces: a pod that must go to node one was nominated to node two,
// which it does not tolerate.
func TestNominationLeavesTraces(t *testing.T) {
	prepareUpstream()
	config := singlePluginProfile(names.TaintToleration)
	config.Plugins = append(config.Plugins, placement.PluginConfig{Name: names.NodeAffinity, Weight: 1})
	c := zoned()
	for _, n := range c.Nodes {
		n.Spec.Taints = []corev1.Taint{{Key: "k", Effect: corev1.TaintEffectNoSchedule}}
	}
	pod := labelled("default", "new", "web", "")
	pod.Status.NominatedNodeName = "two"
	pod.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchFields: []corev1.NodeSelectorRequirement{{
				Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{"one"},
			}},
		}}},
	}}
	const want = "0/2 nodes are available: 1 node(s) didn't satisfy plugin(s) [NodeAffinity], " +
		"1 node(s) had untolerated taint(s)."
	for raw, says := range map[bool]string{
		true: "0/2 nodes are available: 2 node(s) had untolerated taint(s).", false: want,
	} {
		both := mustSides(t.Context(), t, config)
		both.upstream.raw = raw
		both.mustApply(t, c.Events()...)
		if got := both.upstream.decide(t.Context(), pod).Message; got != says {
			t.Errorf("upstream, raw %v, says %q, want %q", raw, got, says)
		}
		if got := both.ours(pod).Message; got != want {
			t.Errorf("ours says %q, want %q", got, want)
		}
	}
}

// singlePluginProfile is a profile of one plugin.
func singlePluginProfile(plugin string) placement.ProfileConfig {
	return placement.ProfileConfig{
		SchedulerName: "s",
		Plugins: []placement.PluginConfig{
			{Name: names.PrioritySort}, {Name: plugin, Weight: 1}, {Name: names.DefaultBinder},
		},
	}
}

// TestPortFreedTooEarly: of two pods with one port on a node, one is deleted.
func TestPortFreedTooEarly(t *testing.T) {
	prepareUpstream()
	withPort := func(name, node string) *corev1.Pod {
		p := labelled("default", name, "web", node)
		p.Spec.Containers = []corev1.Container{{Ports: []corev1.ContainerPort{{HostPort: 80}}}}
		return p
	}
	for _, raw := range []bool{true, false} {
		gone := withPort("gone", "one")
		both := mustSides(t.Context(), t, singlePluginProfile(names.NodePorts))
		both.upstream.raw = raw
		both.mustApply(t, zoned(gone, withPort("there", "one")).Events()...)
		both.mustApply(t, event(gone, nil))
		want, ours := both.upstream.decide(t.Context(), withPort("new", "")), both.ours(withPort("new", ""))
		if got := ours.Nodes["one"].Code; got != "Unschedulable" {
			t.Errorf("ours on node one: %s, want Unschedulable: the port is taken", got)
		}
		switch got := want.Nodes["one"].Code; {
		case raw && got != "Success":
			t.Errorf("upstream on node one: %s: it remembers the port by now, and mendPorts can go", got)
		case !raw && got != "Unschedulable":
			t.Errorf("upstream, mended, on node one: %s, want Unschedulable", got)
		}
	}
}

// TestImagesOutOfDate: an image comes to a second node, then is removed from the first.
func TestImagesOutOfDate(t *testing.T) {
	prepareUpstream()
	with := func(n *corev1.Node, mebibytes int64) *corev1.Node {
		n = n.DeepCopy()
		n.Status.Images = nil
		if mebibytes > 0 {
			n.Status.Images = []corev1.ContainerImage{{Names: []string{"web:1"}, SizeBytes: mebibytes << 20}}
		}
		return n
	}
	pod := labelled("default", "new", "web", "")
	pod.Spec.Containers = []corev1.Container{{Image: "web:1"}}
	for _, raw := range []bool{true, false} {
		c := zoned()
		one, two := c.Nodes[0], c.Nodes[1]
		both := mustSides(t.Context(), t, singlePluginProfile(names.ImageLocality))
		both.upstream.raw = raw
		both.mustApply(t, c.Events()...)
		steps := []struct {
			change         [2]*corev1.Node
			upstream, ours int64 // scores of node one, or two when it alone has the image
			on             string
		}{
			// 400 MiB on one of two nodes: (200-23)/977.
			{[2]*corev1.Node{one, with(one, 400)}, 18, 18, "one"},
			// On both: (400-23)/977; upstream's node one has not changed and counts one.
			{[2]*corev1.Node{two, with(two, 1000)}, 18, 38, "one"},
			// On node two alone, where it has 1000 MiB: (500-23)/977; upstream still takes it
			// for 400 MiB on two nodes: the size is old, and so is this node's count.
			{[2]*corev1.Node{with(one, 400), with(one, 0)}, 38, 48, "two"},
			// Back on node one, in half the size: (200-23)/977 each by the first node's size
			// on both nodes; upstream keeps the 400 MiB that the name had first.
			{[2]*corev1.Node{with(one, 0), with(one, 200)}, 38, 18, "one"},
		}
		for i, step := range steps {
			both.mustApply(t, event(step.change[0], step.change[1]))
			theirs, ours := both.upstream.decide(t.Context(), pod), both.ours(pod)
			if got := ours.Nodes[step.on].Total; got != step.ours {
				t.Errorf("step %d: ours gives node %s %d, want %d", i, step.on, got, step.ours)
			}
			want := step.ours
			if raw {
				want = step.upstream
			}
			if got := theirs.Nodes[step.on].Total; got != want {
				t.Errorf("step %d, raw %v: upstream gives node %s %d, want %d", i, raw, step.on, got, want)
			}
		}
	}
}
