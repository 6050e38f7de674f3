//go:build e2e

package labs

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/berth-scheduler/berth/test/e2e/harness"
)

// named selects the pods of a name, labelled those that match a label selector such as app=web;
// both in all namespaces, since a lab has the cluster for itself.
func named(name string) metav1.ListOptions {
	return metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name", name).String()}
}

func labelled(selector string) metav1.ListOptions {
	return metav1.ListOptions{LabelSelector: selector}
}

func describe(which metav1.ListOptions) string { return which.FieldSelector + which.LabelSelector }

// schedulable waits until the cluster has n nodes and all of them are ready.
func (l *lab) schedulable(n int) {
	l.Helper()
	l.eventually(within, fmt.Sprintf("%d nodes are schedulable", n), func(ctx context.Context) (string, error) {
		list, err := l.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err != nil {
			return "", err
		}
		if len(list.Items) != n {
			return fmt.Sprintf("%d nodes", len(list.Items)), nil
		}
		for i := range list.Items {
			if missing := harness.Unready(&list.Items[i]); missing != "" {
				return list.Items[i].Name + ": " + missing, nil
			}
		}
		return "", nil
	})
}

// pods lists the pods that are not being deleted.
func (l *lab) pods(ctx context.Context, which metav1.ListOptions) ([]corev1.Pod, error) {
	list, err := l.client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, which)
	if err != nil {
		return nil, err
	}
	gone := func(pod corev1.Pod) bool { return pod.DeletionTimestamp != nil }
	return slices.DeleteFunc(list.Items, gone), nil
}

// bound waits until exactly n of some pods are bound, and returns those.
func (l *lab) bound(which metav1.ListOptions, n int) []corev1.Pod {
	l.Helper()
	var placed []corev1.Pod
	what := fmt.Sprintf("%d pods with %s are bound", n, describe(which))
	l.eventually(within, what, func(ctx context.Context) (string, error) {
		pods, err := l.pods(ctx, which)
		if err != nil {
			return "", err
		}
		waiting := ""
		placed = nil
		for _, pod := range pods {
			if pod.Spec.NodeName != "" {
				placed = append(placed, pod)
				continue
			}
			waiting = fmt.Sprintf("; %s: %s", pod.Name, scheduled(&pod).Message)
		}
		if len(placed) == n {
			return "", nil
		}
		return fmt.Sprintf("%d of %d%s", len(placed), len(pods), waiting), nil
	})
	return placed
}

// node waits until a pod is bound and returns its node's name.
func (l *lab) node(name string) string {
	l.Helper()
	return l.bound(named(name), 1)[0].Spec.NodeName
}

// pending waits until exactly n of some pods are not bound and the messages of all of these begin as given.
// kube-scheduler's message continues with preemption.
func (l *lab) pending(which metav1.ListOptions, n int, message string) {
	l.Helper()
	what := fmt.Sprintf("%d pods with %s are Pending: %s", n, describe(which), message)
	l.eventually(within, what, func(ctx context.Context) (string, error) {
		pods, err := l.pods(ctx, which)
		if err != nil {
			return "", err
		}
		waiting, other := 0, ""
		for i := range pods {
			if pods[i].Spec.NodeName != "" {
				continue
			}
			waiting++
			c := scheduled(&pods[i])
			if c.Reason != corev1.PodReasonUnschedulable || !strings.HasPrefix(c.Message, message) {
				other = fmt.Sprintf("; %s: %s: %s", pods[i].Name, c.Reason, c.Message)
			}
		}
		if waiting == n && other == "" {
			return "", nil
		}
		return fmt.Sprintf("%d of %d%s", waiting, len(pods), other), nil
	})
}

// scheduled is a pod's condition PodScheduled.
func scheduled(pod *corev1.Pod) corev1.PodCondition { return condition(pod, corev1.PodScheduled) }

func condition(pod *corev1.Pod, kind corev1.PodConditionType) corev1.PodCondition {
	for _, c := range pod.Status.Conditions {
		if c.Type == kind {
			return c
		}
	}
	return corev1.PodCondition{}
}

// byNode counts pods by their node.
func byNode(pods []corev1.Pod) map[string]int {
	counts := map[string]int{}
	for _, pod := range pods {
		counts[pod.Spec.NodeName]++
	}
	return counts
}

// byZone counts pods by the zone of their node.
func (l *lab) byZone(pods []corev1.Pod) map[string]int {
	l.Helper()
	zones, counts := l.zones(), map[string]int{}
	for _, pod := range pods {
		counts[zones[pod.Spec.NodeName]]++
	}
	return counts
}

// zones are the zones of all nodes that have one, by the node's name.
func (l *lab) zones() map[string]string {
	l.Helper()
	list, err := l.client.CoreV1().Nodes().List(l.Context(), metav1.ListOptions{})
	l.must(err)
	zones := map[string]string{}
	for _, node := range list.Items {
		if zone := node.Labels[corev1.LabelTopologyZone]; zone != "" {
			zones[node.Name] = zone
		}
	}
	return zones
}

// counted compares counts of pods with the expected ones.
func (l *lab) counted(what string, got, want map[string]int) {
	l.Helper()
	if !maps.Equal(got, want) {
		l.Errorf("%s: %v, want %v", what, got, want)
	}
}

// events lists the events about a pod.
func (l *lab) events(pod string) []corev1.Event {
	l.Helper()
	list, err := l.client.CoreV1().Events(metav1.NamespaceAll).List(l.Context(), metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("involvedObject.name", pod).String(),
	})
	l.must(err)
	return list.Items
}

// now is the resourceVersion of the API server's present state of pods.
func (l *lab) now() string {
	l.Helper()
	list, err := l.client.CoreV1().Pods(metav1.NamespaceAll).List(l.Context(), metav1.ListOptions{})
	l.must(err)
	return list.ResourceVersion
}

// firstDeleted waits for the first pod that was deleted after a resourceVersion and returns its final state.
func (l *lab) firstDeleted(since string) *corev1.Pod {
	l.Helper()
	ctx, cancel := context.WithTimeout(l.Context(), within)
	defer cancel()
	stream, err := l.client.CoreV1().Pods(metav1.NamespaceAll).Watch(ctx, metav1.ListOptions{ResourceVersion: since})
	l.must(err)
	defer stream.Stop()
	for event := range stream.ResultChan() {
		pod, ok := event.Object.(*corev1.Pod)
		if !ok {
			l.Fatalf("the watch of pods sent %s: %+v", event.Type, event.Object)
		}
		if event.Type == watch.Deleted {
			return pod
		}
	}
	l.Fatal("no pod was deleted")
	return nil
}
