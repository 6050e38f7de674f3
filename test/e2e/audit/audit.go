package audit

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	schedulinghelpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"
)

// Check returns the violations, one sentence each: pods on nodes that do not exist, that they do not select, whose
// taints they do not tolerate or whose ports are taken, and nodes whose pods request more than their allocatable.
// Pods that have finished are not counted.
//
// Nodes and pods that were changed after the bind can make a correct bind look wrong; callers leave those out.
func Check(nodes []corev1.Node, pods []corev1.Pod) []string {
	books := map[string]*book{}
	for i := range nodes {
		books[nodes[i].Name] = &book{node: &nodes[i], used: corev1.ResourceList{}, ports: map[port]string{}}
	}
	var findings []string
	for i := range pods {
		pod := &pods[i]
		if pod.Spec.NodeName == "" || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
			continue
		}
		b := books[pod.Spec.NodeName]
		if b == nil {
			findings = append(findings, fmt.Sprintf("%s is on node %s, which does not exist", name(pod), pod.Spec.NodeName))
			continue
		}
		findings = append(findings, b.place(pod)...)
	}
	for _, node := range slices.Sorted(maps.Keys(books)) {
		findings = append(findings, books[node].balance()...)
	}
	return findings
}

// book is the account of one node.
type book struct {
	node  *corev1.Node
	used  corev1.ResourceList
	pods  int64
	ports map[port]string
}

type port struct {
	protocol corev1.Protocol
	ip       string
	number   int32
}

func (b *book) place(pod *corev1.Pod) []string {
	add(b.used, Requests(pod))
	b.pods++
	var findings []string
	if fits, err := nodeaffinity.GetRequiredNodeAffinity(pod).Match(b.node); err != nil || !fits {
		findings = append(findings, fmt.Sprintf("%s stands on %s, which it does not select (selector %s, error %v)",
			name(pod), b.node.Name, labels.Set(pod.Spec.NodeSelector), err))
	}
	counts := func(t *corev1.Taint) bool { return t.Effect != corev1.TaintEffectPreferNoSchedule }
	taint, found := schedulinghelpers.FindMatchingUntoleratedTaint(
		klog.Logger{}, b.node.Spec.Taints, pod.Spec.Tolerations, counts, true)
	if found {
		findings = append(findings, fmt.Sprintf("%s stands on %s and does not tolerate %s",
			name(pod), b.node.Name, taint.ToString()))
	}
	for _, wanted := range hostPorts(pod) {
		for _, taken := range slices.Collect(maps.Keys(b.ports)) {
			if clash(wanted, taken) {
				findings = append(findings, fmt.Sprintf("%s and %s both have port %d of %s",
					name(pod), b.ports[taken], wanted.number, b.node.Name))
			}
		}
		b.ports[wanted] = name(pod)
	}
	return findings
}

func (b *book) balance() []string {
	var findings []string
	room := b.node.Status.Allocatable
	for _, kind := range slices.Sorted(maps.Keys(b.used)) {
		used, have := b.used[kind], room[kind]
		if used.Cmp(have) > 0 {
			findings = append(findings, fmt.Sprintf("%s: pods ask for %s of %s, allocatable is %s",
				b.node.Name, used.String(), kind, have.String()))
		}
	}
	if have := room.Pods().Value(); b.pods > have {
		findings = append(findings, fmt.Sprintf("%s: %d pods, allocatable are %d", b.node.Name, b.pods, have))
	}
	return findings
}

// Requests is a pod's request to a node: the larger of the containers that keep running (containers and sidecars) and
// each init container on top of the sidecars started before it, or the pod-level request, plus overhead. Source: the
// API's documentation of spec.initContainers[].restartPolicy and spec.resources (KEP-753, KEP-2837). A resource that
// is satisfied by devices is not requested from the node (KEP-5004).
func Requests(pod *corev1.Pod) corev1.ResourceList {
	running, sidecars, peak := corev1.ResourceList{}, corev1.ResourceList{}, corev1.ResourceList{}
	for _, c := range pod.Spec.Containers {
		add(running, c.Resources.Requests)
	}
	for _, c := range pod.Spec.InitContainers {
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			add(running, c.Resources.Requests)
			add(sidecars, c.Resources.Requests)
			raise(peak, sidecars)
			continue
		}
		start := sidecars.DeepCopy()
		add(start, c.Resources.Requests)
		raise(peak, start)
	}
	raise(running, peak)
	if pod.Spec.Resources != nil {
		for kind, amount := range pod.Spec.Resources.Requests {
			running[kind] = amount.DeepCopy()
		}
	}
	add(running, pod.Spec.Overhead)
	if devices := pod.Status.ExtendedResourceClaimStatus; devices != nil {
		for _, m := range devices.RequestMappings {
			delete(running, corev1.ResourceName(m.ResourceName))
		}
	}
	return running
}

func add(sum, more corev1.ResourceList) {
	for kind, amount := range more {
		total := sum[kind]
		total.Add(amount)
		sum[kind] = total
	}
}

func raise(sum, floor corev1.ResourceList) {
	for kind, amount := range floor {
		if have, ok := sum[kind]; !ok || have.Cmp(amount) < 0 {
			sum[kind] = amount.DeepCopy()
		}
	}
}

func hostPorts(pod *corev1.Pod) []port {
	var all []port
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		for _, p := range c.Ports {
			if p.HostPort > 0 {
				all = append(all, port{protocol: p.Protocol, ip: p.HostIP, number: p.HostPort})
			}
		}
	}
	return all
}

func clash(a, b port) bool {
	wild := func(ip string) bool { return ip == "" || ip == "0.0.0.0" }
	return a.number == b.number && a.protocol == b.protocol && (a.ip == b.ip || wild(a.ip) || wild(b.ip))
}

func name(pod *corev1.Pod) string { return "pod " + pod.Namespace + "/" + pod.Name }
