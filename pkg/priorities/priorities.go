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
	// inflatedShare is the share of all requests from which on the highest priority is said to be
	// inflated: nine tenths cannot be preempted by anybody but system pods.
	inflatedShare = 0.9
	// highestUserPriority bounds the priorities that users can give (k8s.io/kubernetes
	// pkg/apis/scheduling, HighestUserDefinablePriority). Above it are system pods, which are
	// expected to be the most important.
	highestUserPriority = 1_000_000_000
)

// Band is all pods of one priority and PriorityClass.
type Band struct {
	Priority int32 `json:"priority"`
	// Class is the name of the PriorityClass, empty for pods without one.
	Class string `json:"class"`
	// Pods that stand on nodes or wait for one, and those of them that wait. Pods that wait for
	// a scheduling gate do not count at all.
	Pods    int `json:"pods"`
	Waiting int `json:"waiting"`
	// MilliCPU and MemoryBytes are what the pods on nodes ask for.
	MilliCPU    int64 `json:"milliCPU"`
	MemoryBytes int64 `json:"memoryBytes"`
	// PodShare, CPUShare and MemoryShare are parts of the sums over all bands, 0 to 1.
	PodShare    float64 `json:"podShare"`
	CPUShare    float64 `json:"cpuShare"`
	MemoryShare float64 `json:"memoryShare"`
}

// Quota is one resource of a ResourceQuota that is about PriorityClasses.
type Quota struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Scope is what it is about, such as "PriorityClass In [high]".
	Scope    string `json:"scope"`
	Resource string `json:"resource"`
	Used     string `json:"used"`
	Hard     string `json:"hard"`
	// Full says that nothing is left.
	Full bool `json:"full"`
}

// Report is how priorities are used.
type Report struct {
	// Bands are in the order of importance.
	Bands  []Band  `json:"bands"`
	Quotas []Quota `json:"quotas,omitempty"`
	// Warnings are for people.
	Warnings []string `json:"warnings,omitempty"`
}

// Of makes the report from all pods and quotas of a cluster.
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

func (r *Report) computeShares() {
	var all Band
	for _, b := range r.Bands {
		all.Pods += b.Pods
		all.MilliCPU += b.MilliCPU
		all.MemoryBytes += b.MemoryBytes
	}
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

// preemptionWarnings warns of pods that wait while nothing less important stands anywhere.
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

// inflationWarnings warns when nearly everything has the highest priority of users.
func (r *Report) inflationWarnings() []string {
	i := slices.IndexFunc(r.Bands, func(b Band) bool { return b.Priority <= highestUserPriority })
	if i < 0 || r.Bands[i].Priority == r.Bands[len(r.Bands)-1].Priority && r.Bands[i].Priority <= 0 {
		return nil // nobody uses priorities
	}
	top := r.Bands[i].Priority
	var sum Band
	for _, b := range r.Bands {
		if b.Priority == top {
			sum.CPUShare, sum.MemoryShare = sum.CPUShare+b.CPUShare, sum.MemoryShare+b.MemoryShare
		}
	}
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

func (b Band) name() string {
	return fmt.Sprintf("priority %d (%s)", b.Priority, cmp.Or(b.Class, "no class"))
}

// scopedQuotas are the quotas that are about PriorityClasses.
func scopedQuotas(quotas []corev1.ResourceQuota) []Quota {
	var out []Quota
	for i := range quotas {
		q := &quotas[i]
		scope := scopeOf(q)
		if scope == "" {
			continue
		}
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
