package state_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	podresource "k8s.io/component-helpers/resource"
	"pgregory.net/rapid"

	_ "github.com/berth-scheduler/berth/pkg/seedtest" // seed of rapid
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/pkg/state/resources"
	"github.com/berth-scheduler/berth/pkg/state/statetest"
)

// TestDemand: what a pod takes, and what it counts as, agrees with component-helpers, with sidecars, resizes in
// progress and infeasible ones, overhead, pod-level requests, and devices that take resources of the node.
func TestDemand(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		obj := drawDemand(t)
		pod := state.NewPod(obj)
		options := podresource.PodResourcesOptions{
			UseStatusResources: true, InPlacePodLevelResourcesVerticalScalingEnabled: true,
			UseDRANodeAllocatableResourceClaimStatus: true,
		}
		requests := podresource.PodRequests(obj, options)
		want := resources.NewResources(requests)
		want.Pods = 1
		options.NonMissingContainerRequests = state.DefaultRequests()
		if podresource.IsPodLevelRequestsSet(obj) {
			for name := range requests {
				delete(options.NonMissingContainerRequests, name)
			}
		}
		filled := resources.NewResources(podresource.PodRequests(obj, options))
		nonZero := resources.Resources{MilliCPU: filled.MilliCPU, Memory: filled.Memory}
		if !pod.Requests.Equal(want) || !pod.NonZero.Equal(nonZero) {
			t.Fatalf("requests %v, counts as %v, want %v and %v", pod.Requests, pod.NonZero, want, nonZero)
		}
	})
}

func drawDemand(t *rapid.T) *corev1.Pod {
	list := rapid.Custom(func(t *rapid.T) corev1.ResourceList {
		all := statetest.List("cpu", "1", "memory", "64Mi", "example.com/gpu", "2")
		for name := range statetest.List("cpu", "0", "memory", "0", "example.com/gpu", "0") {
			switch rapid.IntRange(0, 3).Draw(t, string(name)) {
			case 0:
				delete(all, name)
			case 1:
				all[name] = statetest.List("x", "0")["x"]
			}
		}
		return all
	})
	always := corev1.ContainerRestartPolicyAlways
	obj := statetest.Pod("default", "a")
	obj.Spec.Containers = nil
	for i := range rapid.IntRange(0, 3).Draw(t, "containers") {
		name := fmt.Sprint("c", i)
		c := corev1.Container{Name: name, Resources: corev1.ResourceRequirements{Requests: list.Draw(t, name)}}
		s := corev1.ContainerStatus{Name: name}
		if rapid.Bool().Draw(t, name+" was given") {
			s.Resources = &corev1.ResourceRequirements{Requests: list.Draw(t, name+" given")}
			s.AllocatedResources = list.Draw(t, name+" allocated")
		}
		switch rapid.IntRange(0, 3).Draw(t, name+" is") {
		case 0:
			c.RestartPolicy = &always
			fallthrough
		case 1:
			obj.Spec.InitContainers = append(obj.Spec.InitContainers, c)
			obj.Status.InitContainerStatuses = append(obj.Status.InitContainerStatuses, s)
		default:
			obj.Spec.Containers = append(obj.Spec.Containers, c)
			obj.Status.ContainerStatuses = append(obj.Status.ContainerStatuses, s)
		}
	}
	if rapid.IntRange(0, 3).Draw(t, "pod level") == 0 {
		obj.Spec.Resources = &corev1.ResourceRequirements{Requests: list.Draw(t, "pod")}
	}
	if rapid.IntRange(0, 3).Draw(t, "overhead") == 0 {
		obj.Spec.Overhead = list.Draw(t, "overhead list")
	}
	if rapid.IntRange(0, 2).Draw(t, "infeasible") == 0 {
		obj.Status.Conditions = []corev1.PodCondition{{
			Type: corev1.PodResizePending, Status: corev1.ConditionTrue, Reason: corev1.PodReasonInfeasible,
		}}
	}
	if rapid.IntRange(0, 3).Draw(t, "takes of the node by devices") == 0 {
		obj.Status.NodeAllocatableResourceClaimStatuses = []corev1.NodeAllocatableResourceClaimStatus{{
			ResourceClaimName: "claim", Resources: list.Draw(t, "by devices"),
		}}
	}
	return obj
}
