//go:build e2e

package labs

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
)

func allocatable(l *lab) {
	l.next()
	l.schedulable(5)
	l.next()
	const replicas = 4
	for workload, fit := range map[string]int{"requests": 3, "overhead": 2, "pod-level": 2, "sidecar": 2, "init": 2} {
		pods := labelled("app=" + workload)
		l.counted(workload, byNode(l.bound(pods, fit)), map[string]int{"allocatable-" + workload: fit})
		l.pending(pods, replicas-fit,
			"0/5 nodes are available: 1 Insufficient cpu, 4 node(s) didn't match Pod's node affinity/selector.")
	}
}

func nodeSelector(l *lab) {
	l.next()
	l.schedulable(3)
	l.next()
	onSSD := labelled("app=on-ssd")
	want := map[string]int{"node-selector-ssd-0": 2, "node-selector-ssd-1": 2}
	l.counted("on-ssd", byNode(l.bound(onSSD, 4)), want)
	l.pending(onSSD, 1,
		"0/3 nodes are available: 1 node(s) didn't match Pod's node affinity/selector, 2 Insufficient cpu.")
	l.pending(named("on-nvme"), 1,
		"0/3 nodes are available: 3 node(s) didn't match Pod's node affinity/selector.")
	l.next()
	want["node-selector-hdd-0"] = 1
	l.counted("on-ssd", byNode(l.bound(onSSD, 5)), want)
	l.pending(named("on-nvme"), 1,
		"0/3 nodes are available: 3 node(s) didn't match Pod's node affinity/selector.")
}

func nodeAffinity(l *lab) {
	const prefix = "node-affinity-"
	l.next()
	l.schedulable(6)
	preferred, want := labelled("app=preferred"), map[string]int{}
	for i, node := range []string{"west-both", "west-quiet", "east-ssd", "east-plain"} {
		// The last block asks for the fourth and the fifth.
		l.next()
		want[prefix+node] = 1
		l.counted("preferred", byNode(l.bound(preferred, i+1)), want)
	}
	l.pending(preferred, 1,
		"0/6 nodes are available: 2 node(s) didn't match Pod's node affinity/selector, 4 Insufficient cpu.")
	l.next()
	for pod, nodes := range map[string][]string{
		"in":             {"north"},
		"not-in":         {"bare"},
		"exists":         {"west-quiet", "west-both", "north"},
		"does-not-exist": {"bare"},
		"greater-than":   {"west-quiet"},
		"less-than":      {"east-plain"},
	} {
		got := l.node(pod)
		if !slices.ContainsFunc(nodes, func(node string) bool { return prefix+node == got }) {
			l.Errorf("%s stands on %s, want one of %v", pod, got, nodes)
		}
	}
	l.pending(named("nowhere"), 1,
		"0/6 nodes are available: 6 node(s) didn't match Pod's node affinity/selector.")
}

func taints(l *lab) {
	l.next()
	l.schedulable(4)
	l.next()
	plain := labelled("app=plain")
	want := map[string]int{"taints-free": 2, "taints-busy": 1}
	before := l.bound(plain, 3)
	l.counted("plain", byNode(before), want)

	l.next()
	for pod, node := range map[string]string{
		"equal": "taints-gpu", "exists": "taints-gpu", "everything": "taints-gpu", "no-value": "taints-retiring",
		"patient": "taints-busy",
	} {
		if got := l.node(pod); got != node {
			l.Errorf("%s stands on %s, want %s", pod, got, node)
		}
	}
	for _, pod := range []string{"other-value", "other-effect"} {
		l.pending(named(pod), 1, "0/4 nodes are available: "+
			"2 node(s) didn't match Pod's node affinity/selector, 2 node(s) had untolerated taint(s).")
	}

	l.evictedByTaint(before)
	l.pending(plain, 1, "0/4 nodes are available: 1 Insufficient cpu, 3 node(s) had untolerated taint(s).")
	l.next()
	l.counted("plain", byNode(l.bound(plain, 3)), want)
}

// evictedByTaint runs the block that taints a node and checks that only the pod on that node is evicted, and that the
// controller manager evicted it.
func (l *lab) evictedByTaint(before []corev1.Pod) {
	l.Helper()
	since := l.now()
	l.next()
	evicted := l.firstDeleted(since)
	if c := condition(evicted, corev1.DisruptionTarget); c.Reason != "DeletionByTaintManager" {
		l.Errorf("%s went with the condition %+v, want the reason DeletionByTaintManager", evicted.Name, c)
	}
	for _, event := range l.events(evicted.Name) {
		by := event.Source.Component
		if event.Reason != "Scheduled" && (event.Reason != "TaintManagerEviction" || by != "taint-eviction-controller") {
			l.Errorf("%s has an event %s by %s: %s", evicted.Name, event.Reason, by, event.Message)
		}
	}
	tainted := func(pod corev1.Pod) bool { return pod.Spec.NodeName == "taints-busy" }
	want := uids(slices.DeleteFunc(before, tainted))
	got := uids(l.bound(labelled("app=plain"), len(want)))
	if !got.Equal(want) || want.Has(evicted.UID) {
		l.Errorf("plain: %v are left after %s went, want %v", got, evicted.UID, want)
	}
	if node := l.node("patient"); node != "taints-busy" {
		l.Errorf("patient stands on %s, want taints-busy", node)
	}
}

func uids(pods []corev1.Pod) sets.Set[types.UID] {
	all := sets.New[types.UID]()
	for _, pod := range pods {
		all.Insert(pod.UID)
	}
	return all
}

func nodeName(l *lab) {
	l.next()
	l.schedulable(2)
	l.next()
	late := labelled("app=late")
	l.counted("late", byNode(l.bound(late, 4)), map[string]int{"node-name-other": 4})
	l.pending(late, 1, "0/2 nodes are available: 2 Insufficient cpu.")
	for _, name := range []string{"by-user-0", "by-user-1"} {
		pod, events := l.bound(named(name), 1)[0], l.events(name)
		if len(events) != 0 || pod.Annotations["berth.dev/attempt"] != "" || pod.Spec.NodeName != "node-name-chosen" {
			l.Errorf("%s was touched: events %v, node %s, annotations %v", name, events, pod.Spec.NodeName, pod.Annotations)
		}
	}
	l.next()
	l.counted("late", byNode(l.bound(late, 5)), map[string]int{"node-name-other": 4, "node-name-chosen": 1})
}

func profiles(l *lab) {
	l.next()
	l.schedulable(4)
	l.next()
	spread := byNode(l.bound(labelled("profile=spreading"), 4))
	if len(spread) != 4 {
		l.Errorf("spreading: %v, want four nodes", spread)
	}
	l.next()
	packed := byNode(l.bound(labelled("profile=packing"), 4))
	if len(packed) != 1 {
		l.Errorf("packing: %v, want one node", packed)
	}

	const favourite, each = "profiles-many-100", 20
	l.next()
	l.schedulable(204)
	l.next()
	l.counted("packing, which looks at all nodes", byNode(l.bound(labelled("wishful=packing"), each)),
		map[string]int{favourite: each})
	found := byNode(l.bound(labelled("wishful=spreading"), each))[favourite]
	if found == 0 || found == each {
		l.Errorf("spreading, which looks at half of the nodes: %d of %d pods found %s, want some", found, each, favourite)
	}
}
