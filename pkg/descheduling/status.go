package descheduling

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/pkg/descheduling/policy"
)

// This file holds the strategies that depend only on a pod's status: RemovePodsHavingTooManyRestarts,
// RemoveFailedPods and PodLifeTime. They first test what pods share (state.Pod.Status); times and counts of
// restarts are specific to each pod and cost more.

// statuses lists the statuses of containers that a strategy considers.
func statuses(s *corev1.PodStatus, initContainers, ephemeral bool) []corev1.ContainerStatus {
	all := s.ContainerStatuses
	if initContainers {
		all = slices.Concat(all, s.InitContainerStatuses)
	}
	if ephemeral {
		all = slices.Concat(all, s.EphemeralContainerStatuses)
	}
	return all
}

func waitingFor(list []corev1.ContainerStatus, reasons []string) bool {
	return slices.ContainsFunc(list, func(c corev1.ContainerStatus) bool {
		return c.State.Waiting != nil && slices.Contains(reasons, c.State.Waiting.Reason)
	})
}

func terminatedWith(list []corev1.ContainerStatus, reasons []string) bool {
	return slices.ContainsFunc(list, func(c corev1.ContainerStatus) bool {
		return c.State.Terminated != nil && slices.Contains(reasons, c.State.Terminated.Reason)
	})
}

func exitedWith(list []corev1.ContainerStatus, codes []int32) bool {
	return slices.ContainsFunc(list, func(c corev1.ContainerStatus) bool {
		return c.State.Terminated != nil && slices.Contains(codes, c.State.Terminated.ExitCode)
	})
}

// tooManyRestarts evicts, node by node, the pods that restarted most often first.
func (p *pass) tooManyRestarts(args *policy.TooManyRestarts) {
	inState := func(pod *Pod) bool {
		s := pod.Status()
		return len(args.States) == 0 || slices.Contains(args.States, string(s.Phase)) ||
			waitingFor(statuses(s, args.InitContainers, false), args.States)
	}
	for _, n := range p.view.selected {
		var picked []*Pod
		restarts := map[*Pod]int32{}
		for _, pod := range n.Pods {
			if !args.Has(pod.Namespace, pod.Template.Labels) || !inState(pod) {
				continue
			}
			own := pod.Object().Status
			sum := int32(0)
			for _, c := range statuses(&own, args.InitContainers, false) {
				sum += c.RestartCount
			}
			if sum >= args.Threshold {
				picked, restarts[pod] = append(picked, pod), sum
			}
		}
		slices.SortStableFunc(picked, func(a, b *Pod) int { return cmp.Compare(restarts[b], restarts[a]) })
		as := func(pod *Pod) Candidate {
			return Candidate{Pod: pod, Reason: fmt.Sprintf("restarted %d times", restarts[pod])}
		}
		if !p.tryAll(picked, as) {
			return
		}
	}
}

// failedPods evicts pods in phase Failed.
func (p *pass) failedPods(args *policy.FailedPods) {
	// An empty reason matches nothing, whatever the list contains.
	reasons := slices.DeleteFunc(slices.Clone(args.Reasons), func(r string) bool { return r == "" })
	picks := func(pod *Pod) bool {
		s := pod.Status()
		if s.Phase != corev1.PodFailed || !args.Has(pod.Namespace, pod.Template.Labels) ||
			ownedBy(pod.Template.OwnerReferences, args.ExcludeOwnerKinds) {
			return false
		}
		list := statuses(s, args.InitContainers, false)
		reason := len(args.Reasons) == 0 || slices.Contains(reasons, s.Reason) ||
			waitingFor(list, reasons) || terminatedWith(list, reasons)
		return reason && (len(args.ExitCodes) == 0 || exitedWith(list, args.ExitCodes)) &&
			olderThan(p.view.age(pod), args.MinSeconds)
	}
	for _, n := range p.view.selected {
		picked := selectPods(n.Pods, picks)
		as := func(pod *Pod) Candidate {
			return Candidate{Pod: pod, Reason: "failed: " + cmp.Or(pod.Status().Reason, "no reason given")}
		}
		if !p.tryAll(picked, as) {
			return
		}
	}
}

// olderThan compares in whole seconds. A pod created in the future counts as young. (The age that upstream computes
// for it depends on the processor.)
func olderThan(age time.Duration, seconds uint) bool {
	return uint(max(age, 0).Seconds()) >= seconds
}

// podLifeTime evicts the oldest pods first, whatever their nodes.
func (p *pass) podLifeTime(args *policy.PodLifeTime) {
	type old struct {
		*Pod
		created int64
	}
	var picked []old
	for _, n := range p.view.selected {
		for _, pod := range n.Pods {
			if p.view.exceedsLifetime(args, pod) {
				picked = append(picked, old{pod, pod.Created().Unix()})
			}
		}
	}
	slices.SortStableFunc(picked, func(a, b old) int { return cmp.Compare(a.created, b.created) })
	for _, o := range picked {
		if p.try(o.Pod, "is "+p.view.age(o.Pod).Truncate(time.Second).String()+" old") == Done {
			return
		}
	}
}

func (v *View) exceedsLifetime(args *policy.PodLifeTime, pod *Pod) bool {
	s := pod.Status()
	switch {
	case !args.Has(pod.Namespace, pod.Template.Labels) || !ownerKind(args.OwnerKinds, pod.Template.OwnerReferences):
		return false
	case len(args.States) > 0 && !inLifeState(args, s):
		return false
	case len(args.ExitCodes) > 0 && !exitedWith(statuses(s, args.InitContainers, false), args.ExitCodes):
		return false
	case args.MaxSeconds != nil && !v.olderThanMax(pod, *args.MaxSeconds):
		return false
	default:
		return len(args.Conditions) == 0 || v.hasCondition(args.Conditions, pod)
	}
}

// ownerKind reports whether the kinds of a pod's owners are selected; a pod without owners is, unless kinds are
// required.
func ownerKind(kinds policy.OwnerKinds, owners []metav1.OwnerReference) bool {
	if len(kinds.Include) > 0 {
		return ownedBy(owners, kinds.Include)
	}
	return !ownedBy(owners, kinds.Exclude)
}

func inLifeState(args *policy.PodLifeTime, s *corev1.PodStatus) bool {
	list := statuses(s, args.InitContainers, args.EphemeralContainers)
	return slices.Contains(args.States, string(s.Phase)) || slices.Contains(args.States, s.Reason) ||
		waitingFor(list, args.States) || terminatedWith(list, args.States)
}

// olderThanMax reports whether a pod exceeds an age. A pod created in the future is not old.
func (v *View) olderThanMax(pod *Pod, seconds uint) bool {
	age := v.age(pod)
	return age >= 0 && uint(age.Seconds()) > seconds
}

func (v *View) hasCondition(wanted []policy.PodCondition, pod *Pod) bool {
	var own []corev1.PodCondition // with times, which the shared status does not have
	for i, c := range pod.Status().Conditions {
		for _, w := range wanted {
			if !conditionIs(&c, &w) {
				continue
			}
			if w.MinSeconds == nil {
				return true
			}
			if own == nil {
				own = pod.Object().Status.Conditions
			}
			since := own[i].LastTransitionTime
			idle := v.now.Sub(since.Time)
			if !since.IsZero() && idle >= 0 && uint(idle.Seconds()) >= *w.MinSeconds {
				return true
			}
		}
	}
	return false
}

// conditionIs reports whether a condition has everything that a filter names.
func conditionIs(c *corev1.PodCondition, w *policy.PodCondition) bool {
	agrees := func(want, is string) bool { return want == "" || want == is }
	return agrees(w.Type, string(c.Type)) && agrees(w.Status, string(c.Status)) && agrees(w.Reason, c.Reason)
}
