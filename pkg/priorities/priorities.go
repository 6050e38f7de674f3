package priorities

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	podresource "k8s.io/component-helpers/resource"
)

const (
	// inflatedShare is the share of all requests from which on the highest priority is reported as inflated: nine
	// tenths can then be preempted by system pods only.
	inflatedShare = 0.9
	// highestUserPriority bounds the priorities that users can give (k8s.io/kubernetes pkg/apis/scheduling,
	// HighestUserDefinablePriority). Above it are system pods, which are expected to be the most important.
	highestUserPriority = 1_000_000_000
)

// Band counts all pods of one priority and PriorityClass. Classes of equal value are bands of their own.
type Band struct {
	Priority int32 `json:"priority"`
	// Class is the name of the PriorityClass, empty for pods without one.
	Class string `json:"class"`
	// Pods counts the pods on nodes and those that wait for one, Waiting only the latter. Pods that wait for a
	// scheduling gate, and pods that have ended, are not counted at all.
	Pods    int `json:"pods"`
	Waiting int `json:"waiting"`
	// MilliCPU and MemoryBytes are the requests of the pods on nodes; pods that wait use nothing.
	MilliCPU    int64 `json:"milliCPU"`
	MemoryBytes int64 `json:"memoryBytes"`
	// PodShare, CPUShare and MemoryShare are parts of the sums over all bands, 0 to 1; 0 if the sum is 0.
	PodShare    float64 `json:"podShare"`
	CPUShare    float64 `json:"cpuShare"`
	MemoryShare float64 `json:"memoryShare"`
}

// Quota is one resource of a ResourceQuota whose scope selects PriorityClasses.
type Quota struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Scope is the selector, such as "PriorityClass In [high]".
	Scope    string `json:"scope"`
	Resource string `json:"resource"`
	Used     string `json:"used"`
	Hard     string `json:"hard"`
	// Full reports that nothing is left.
	Full bool `json:"full"`
}

// Report describes how priorities are used. It is part of the output of `berth status -o json`.
type Report struct {
	// Bands are in the order of importance, the highest priority first.
	Bands  []Band  `json:"bands"`
	Quotas []Quota `json:"quotas,omitempty"`
	// Warnings are for people.
	Warnings []string `json:"warnings,omitempty"`
}

// Of returns the report for all pods and quotas of a cluster. Its order does not depend on that of its arguments.
func Of(pods []corev1.Pod, quotas []corev1.ResourceQuota) Report {
	bands := map[string]*Band{}
	for i := range pods {
		addPod(bands, &pods[i])
	}
	var r Report
	for _, key := range slices.Sorted(maps.Keys(bands)) {
		r.Bands = append(r.Bands, *bands[key])
	}
	slices.SortStableFunc(r.Bands, func(a, b Band) int { return cmp.Compare(b.Priority, a.Priority) })
	r.computeShares()
	r.Quotas = scopedQuotas(quotas)
	r.Warnings = append(r.preemptionWarnings(), r.inflationWarnings()...)
	r.Warnings = append(r.Warnings, quotaWarnings(r.Quotas)...)
	return r
}

// addPod adds a pod to the band of its priority and class. The key sorts bands of equal priority by class.
func addPod(bands map[string]*Band, pod *corev1.Pod) {
	ended := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
	if ended || len(pod.Spec.SchedulingGates) > 0 {
		return
	}
	var priority int32
	if pod.Spec.Priority != nil {
		priority = *pod.Spec.Priority
	}
	key := fmt.Sprintf("%011d %s", priority, pod.Spec.PriorityClassName)
	b := bands[key]
	if b == nil {
		b = &Band{Priority: priority, Class: pod.Spec.PriorityClassName}
		bands[key] = b
	}
	b.Pods++
	if pod.Spec.NodeName == "" {
		b.Waiting++
		return
	}
	requests := podresource.PodRequests(pod, podresource.PodResourcesOptions{})
	b.MilliCPU += requests.Cpu().MilliValue()
	b.MemoryBytes += requests.Memory().Value()
}

// computeShares fills in the shares of all bands.
func (r *Report) computeShares() {
	var all Band
	for _, b := range r.Bands {
		all.Pods += b.Pods
		all.MilliCPU += b.MilliCPU
		all.MemoryBytes += b.MemoryBytes
	}
	// A cluster without requests has no shares.
	part := func(some, of int64) float64 {
		if of == 0 {
			return 0
		}
		return float64(some) / float64(of)
	}
	for i := range r.Bands {
		b := &r.Bands[i]
		b.PodShare = part(int64(b.Pods), int64(all.Pods))
		b.CPUShare = part(b.MilliCPU, all.MilliCPU)
		b.MemoryShare = part(b.MemoryBytes, all.MemoryBytes)
	}
}

// preemptionWarnings warns of pods that wait while no pod of a lower priority is on any node: preemption has no
// candidates. It does not consider whether a victim would help, which needs the rules of placement.
func (r *Report) preemptionWarnings() []string {
	var out []string
	for _, b := range r.Bands {
		victim := func(o Band) bool { return o.Priority < b.Priority && o.Pods > o.Waiting }
		if b.Waiting == 0 || slices.ContainsFunc(r.Bands, victim) {
			continue
		}
		out = append(out, fmt.Sprintf(
			"preemption cannot help the %d pending pod(s) of %s: no node has pods of lower priority", b.Waiting, b.name()))
	}
	return out
}

// inflationWarnings warns when nearly everything has the highest priority of users. It is silent where priorities are
// not used: all pods have one priority, which is 0 or less.
func (r *Report) inflationWarnings() []string {
	i := slices.IndexFunc(r.Bands, func(b Band) bool { return b.Priority <= highestUserPriority })
	if i < 0 || r.Bands[i].Priority == r.Bands[len(r.Bands)-1].Priority && r.Bands[i].Priority <= 0 {
		return nil // priorities are not used
	}
	// Several classes may have the highest value: their bands count together.
	top := r.Bands[i].Priority
	var sum Band
	for _, b := range r.Bands {
		if b.Priority == top {
			sum.CPUShare, sum.MemoryShare = sum.CPUShare+b.CPUShare, sum.MemoryShare+b.MemoryShare
		}
	}
	// The resource with the larger share decides.
	share, what := sum.CPUShare, "CPU"
	if sum.MemoryShare > share {
		share, what = sum.MemoryShare, "memory"
	}
	if share < inflatedShare {
		return nil
	}
	return []string{fmt.Sprintf("%.0f %% of the requested %s has the highest priority in use, %s, so its pods can hardly "+
		"preempt anything; limit it with a ResourceQuota for its PriorityClass", 100*share, what, r.Bands[i].name())}
}

// name returns the band as words of a sentence.
func (b Band) name() string {
	return fmt.Sprintf("priority %d (%s)", b.Priority, cmp.Or(b.Class, "no class"))
}

// scopedQuotas returns the resources of the quotas whose scope selects PriorityClasses, sorted by namespace, name and
// resource.
func scopedQuotas(quotas []corev1.ResourceQuota) []Quota {
	var out []Quota
	for i := range quotas {
		q := &quotas[i]
		scope := scopeOf(q)
		if scope == "" {
			continue
		}
		// The order of this map does not matter, as the result is sorted.
		for resource, hard := range q.Spec.Hard {
			used := q.Status.Used[resource]
			out = append(out, Quota{
				Namespace: q.Namespace, Name: q.Name, Scope: scope, Resource: string(resource),
				Used: used.String(), Hard: hard.String(), Full: used.Cmp(hard) >= 0,
			})
		}
	}
	slices.SortFunc(out, func(a, b Quota) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name),
			strings.Compare(a.Resource, b.Resource))
	})
	return out
}

// scopeOf returns the selector of PriorityClasses of a quota as text; empty for a quota without one.
func scopeOf(q *corev1.ResourceQuota) string {
	if q.Spec.ScopeSelector == nil {
		return ""
	}
	for _, e := range q.Spec.ScopeSelector.MatchExpressions {
		if e.ScopeName != corev1.ResourceQuotaScopePriorityClass {
			continue
		}
		text := fmt.Sprintf("%s %s", e.ScopeName, e.Operator)
		if len(e.Values) > 0 {
			text += fmt.Sprintf(" %v", e.Values)
		}
		return text
	}
	return ""
}

// quotaWarnings warns of exhausted quotas: the API server refuses further pods of these classes, which then do not
// even wait.
func quotaWarnings(quotas []Quota) []string {
	var out []string
	for _, q := range quotas {
		if q.Full {
			out = append(out, fmt.Sprintf("quota %s/%s (%s) is full: %s %s of %s; the API server refuses more of these pods",
				q.Namespace, q.Name, q.Scope, q.Resource, q.Used, q.Hard))
		}
	}
	return out
}
