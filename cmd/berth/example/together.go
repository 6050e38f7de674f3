package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kube-scheduler/framework"
)

// together is a plugin that makes the pods of a group wait for each other: those with the same label "group", each of
// which states in an annotation how many there must be.
type together struct{ handle framework.Handle }

const (
	togetherName = "Together"
	groupLabel   = "group"
	// sizeOf is that annotation.
	sizeOf = "example.com/together"
	// permitTimeout is how long a pod waits for the others with its place held; then all are tried again.
	permitTimeout = 30 * time.Second
)

var (
	_ framework.PermitPlugin  = &together{}
	_ framework.ReservePlugin = &together{}
)

// newTogether is the plugin's factory; it has no arguments.
func newTogether(_ context.Context, _ runtime.Object, h framework.Handle) (framework.Plugin, error) {
	return &together{h}, nil
}

func (t *together) Name() string { return togetherName }

// Permit allows all pods of a group when the last one has its place: it counts the pods of the group that are on
// nodes, that wait for the same, and the pod itself. Pods without the annotation pass at once. A pod that waits keeps
// its place reserved.
func (t *together) Permit(
	_ context.Context, _ framework.CycleState, pod *corev1.Pod, _ string,
) (*framework.Status, time.Duration) {
	text, grouped := pod.Annotations[sizeOf]
	if !grouped {
		return nil, 0
	}
	size, err := strconv.Atoi(text)
	if err != nil {
		return framework.NewStatus(framework.UnschedulableAndUnresolvable,
			fmt.Sprintf("annotation %s is %q, want a number", sizeOf, text)), 0
	}
	// Pods of the group that are on nodes already, from an earlier attempt or before a restart, count as well.
	nodes, err := t.handle.SnapshotSharedLister().NodeInfos().List()
	if err != nil {
		return framework.AsStatus(err), 0
	}
	present := map[types.UID]bool{pod.UID: true}
	for _, n := range nodes {
		for _, p := range n.GetPods() {
			if sameGroup(p.GetPod(), pod) {
				present[p.GetPod().UID] = true
			}
		}
	}
	waiting := t.waiting(pod)
	for _, w := range waiting {
		present[w.GetPod().UID] = true
	}
	if len(present) < size {
		return framework.NewStatus(framework.Wait), permitTimeout
	}
	for _, w := range waiting {
		w.Allow(togetherName)
	}
	return nil, 0
}

// Reserve does nothing; the interface requires it in addition to Unreserve.
func (t *together) Reserve(context.Context, framework.CycleState, *corev1.Pod, string) *framework.Status {
	return nil
}

// Unreserve rejects the pods that wait for one that has given up.
func (t *together) Unreserve(_ context.Context, _ framework.CycleState, pod *corev1.Pod, _ string) {
	for _, w := range t.waiting(pod) {
		w.Reject(togetherName, "another pod of the group lost its place")
	}
}

// waiting returns the waiting pods of a pod's group.
func (t *together) waiting(pod *corev1.Pod) (list []framework.WaitingPod) {
	t.handle.IterateOverWaitingPods(func(w framework.WaitingPod) {
		if sameGroup(w.GetPod(), pod) {
			list = append(list, w)
		}
	})
	return list
}

// sameGroup reports whether two pods belong to one group: the label's value and the namespace are the same.
func sameGroup(a, b *corev1.Pod) bool {
	group, grouped := a.Labels[groupLabel]
	return grouped && a.Namespace == b.Namespace && b.Labels[groupLabel] == group
}
