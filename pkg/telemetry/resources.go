package telemetry

import (
	"iter"
	"net/http"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-base/metrics"
	resourcehelper "k8s.io/component-helpers/resource"
)

// PodResources is the input of the resource metrics about one pod. Spec is only read, and must not change during a
// scrape.
type PodResources struct {
	Namespace, Name, Node string
	// Ended reports that the phase is Succeeded or Failed. A pod that has ended on a node is left out.
	Ended bool
	// Spec may lack nodeName.
	Spec *corev1.PodSpec
}

// resourceLabels are upstream's (pkg/scheduler/metrics/resources/resources.go).
var resourceLabels = []string{"namespace", "pod", "node", "scheduler", "priority", "resource", "unit"}

// ResourcesHandler serves the requests and limits of pods, under kube-scheduler's names, labels and stability, and
// nothing else. It calls pods for each request, from any goroutine.
func ResourcesHandler(pods func() iter.Seq[PodResources]) http.Handler {
	registry := metrics.NewKubeRegistry()
	registry.CustomMustRegister(newResources(pods))
	return metrics.HandlerWithReset(registry, metrics.HandlerOpts{})
}

// resources is a collector: the values are computed for each scrape. A large cluster has hundreds of thousands of
// these series; keeping them up to date with every fact would cost more than computing them at a scrape.
type resources struct {
	metrics.BaseStableCollector
	pods             func() iter.Seq[PodResources]
	requests, limits *metrics.Desc
}

// newResources returns the collector of the pods that pods yields.
func newResources(pods func() iter.Seq[PodResources]) *resources {
	return &resources{
		pods: pods,
		requests: metrics.NewDesc("kube_pod_resource_request",
			"Resources that pods request, by resource, in the unit of the resource.", resourceLabels, nil, metrics.STABLE, ""),
		limits: metrics.NewDesc("kube_pod_resource_limit",
			"Resource limits of pods, by resource, in the unit of the resource.", resourceLabels, nil, metrics.STABLE, ""),
	}
}

// DescribeWithStability implements metrics.StableCollector.
func (r *resources) DescribeWithStability(ch chan<- *metrics.Desc) {
	ch <- r.requests
	ch <- r.limits
}

// CollectWithStability implements metrics.StableCollector. A pod that waits is included, with an empty node, as in
// kube-scheduler.
func (r *resources) CollectWithStability(ch chan<- metrics.Metric) {
	options := resourcehelper.PodResourcesOptions{Reuse: corev1.ResourceList{}}
	for p := range r.pods() {
		if p.Node != "" && p.Ended {
			continue
		}
		pod := &corev1.Pod{Spec: *p.Spec}
		emit(ch, r.requests, p, resourcehelper.PodRequests(pod, options))
		emit(ch, r.limits, p, resourcehelper.PodLimits(pod, options))
	}
}

// emit writes a series for each resource of a pod, in its unit. Resources of zero are left out, as upstream does.
func emit(ch chan<- metrics.Metric, desc *metrics.Desc, p PodResources, list corev1.ResourceList) {
	var priority string
	if p.Spec.Priority != nil {
		priority = strconv.Itoa(int(*p.Spec.Priority))
	}
	for name, amount := range list {
		if amount.IsZero() {
			continue
		}
		ch <- metrics.NewLazyConstMetric(desc, metrics.GaugeValue, amount.AsApproximateFloat64(),
			p.Namespace, p.Name, p.Node, p.Spec.SchedulerName, priority, string(name), unitOf(name))
	}
}

// unitOf returns the unit of a resource; empty for a resource that Kubernetes does not define.
func unitOf(name corev1.ResourceName) string {
	switch {
	case name == corev1.ResourceCPU:
		return "cores"
	case name == corev1.ResourceMemory, name == corev1.ResourceStorage, name == corev1.ResourceEphemeralStorage,
		strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix):
		return "bytes"
	case strings.HasPrefix(string(name), corev1.ResourceAttachableVolumesPrefix):
		return "integer"
	}
	return ""
}
