//go:build e2e

package e2e_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/test/e2e/harness"
)

// deviceDriver is the driver in whose name the test publishes devices.
const deviceDriver = "gpu.example.com"

// deviceResource is the extended resource that the devices back on nodes that do not list it.
const deviceResource = "example.com/gpu"

// Pods start with their devices, where these can be used, and no device is in two claims, however
// many shards give them away.
func TestDevices(t *testing.T) {
	t.Parallel()
	s := newStack(t, "")
	_, err := s.client.ResourceV1().DeviceClasses().Create(s.Context(), &resourcev1.DeviceClass{
		ObjectMeta: metav1.ObjectMeta{Name: "gpu"},
		Spec: resourcev1.DeviceClassSpec{
			Selectors: []resourcev1.DeviceSelector{{
				CEL: &resourcev1.CELDeviceSelector{Expression: `device.driver == "` + deviceDriver + `"`},
			}},
			ExtendedResourceName: new(deviceResource),
		},
	}, metav1.CreateOptions{})
	s.must(err)
	s.up(harness.UpConfig{Shards: 4, Binders: 2})
	forResources := devicesForResources
	if programs.Kubernetes != "" {
		forResources = noDevicesForResources
	}
	for i, test := range []struct {
		name string
		run  func(*stack, string)
	}{
		{"devices of nodes", devicesOfNodes},
		{"devices of less important pods", devicesOfVictims},
		{"devices for resources", forResources},
		{"devices that all nodes reach", devicesOfAll},
	} {
		if !t.Run(test.name, func(t *testing.T) {
			inner := *s
			inner.T = t
			test.run(&inner, inner.namespace(fmt.Sprintf("devices-%d", i)))
			inner.audit()
		}) {
			return
		}
	}
}

// publish makes a pool of devices, of a node or of all.
func (s *stack) publish(pool, node string, devices int) {
	s.Helper()
	slice := &resourcev1.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Name: pool},
		Spec: resourcev1.ResourceSliceSpec{
			Driver: deviceDriver, Pool: resourcev1.ResourcePool{Name: pool, ResourceSliceCount: 1},
		},
	}
	if all := true; node == "" {
		slice.Spec.AllNodes = &all
	} else {
		slice.Spec.NodeName = &node
	}
	for i := range devices {
		slice.Spec.Devices = append(slice.Spec.Devices, resourcev1.Device{Name: fmt.Sprintf("gpu-%d", i)})
	}
	_, err := s.client.ResourceV1().ResourceSlices().Create(s.Context(), slice, metav1.CreateOptions{})
	s.must(err)
}

// oneDevice is a template of claims to one device.
func (s *stack) oneDevice(ns string) {
	s.Helper()
	_, err := s.client.ResourceV1().ResourceClaimTemplates(ns).Create(s.Context(), &resourcev1.ResourceClaimTemplate{
		ObjectMeta: metav1.ObjectMeta{Name: "one"},
		Spec: resourcev1.ResourceClaimTemplateSpec{Spec: resourcev1.ResourceClaimSpec{
			Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{{
				Name: "gpu", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "gpu"},
			}}},
		}},
	}, metav1.CreateOptions{})
	s.must(err)
}

func withDevice(p *corev1.Pod) {
	template := "one"
	p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimTemplateName: &template}}
}

// devicesSuit checks that every bound pod's claim has a device of its own, which can be used on the
// pod's node, and names the pod.
func (s *stack) devicesSuit(ns string, pods []corev1.Pod) {
	s.Helper()
	claims, err := s.client.ResourceV1().ResourceClaims(ns).List(s.Context(), metav1.ListOptions{})
	s.must(err)
	owners, of := map[string]string{}, map[string]resourcev1.ResourceClaim{}
	for _, claim := range claims.Items {
		of[claim.Name] = claim
		if claim.Status.Allocation == nil {
			continue
		}
		for _, r := range claim.Status.Allocation.Devices.Results {
			device := r.Driver + "/" + r.Pool + "/" + r.Device
			if other, taken := owners[device]; taken {
				s.Errorf("device %s is in claims %s and %s", device, other, claim.Name)
			}
			owners[device] = claim.Name
		}
	}
	for _, pod := range pods {
		if len(pod.Status.ResourceClaimStatuses) != 1 || pod.Status.ResourceClaimStatuses[0].ResourceClaimName == nil {
			s.Errorf("pod %s was bound without a claim", pod.Name)
			continue
		}
		claim := of[*pod.Status.ResourceClaimStatuses[0].ResourceClaimName]
		users := claim.Status.ReservedFor
		if claim.Status.Allocation == nil || len(users) != 1 || users[0].UID != pod.UID {
			s.Errorf("pod %s was bound, and its claim has %+v", pod.Name, claim.Status)
			continue
		}
		pool := claim.Status.Allocation.Devices.Results[0].Pool
		if claim.Status.Allocation.NodeSelector != nil && pool != pod.Spec.NodeName {
			s.Errorf("pod %s is on node %s, its device on %s", pod.Name, pod.Spec.NodeName, pool)
		}
	}
}

// Every node has two devices, and as many pods come at once as there are devices.
func devicesOfNodes(s *stack, ns string) {
	const nodes, each = 6, 2
	s.diskNodes(ns, nodes)
	for i := range nodes {
		node := fmt.Sprintf("%s-%d", ns, i)
		s.publish(node, node, each)
	}
	s.oneDevice(ns)
	s.create(newPods(ns, "p", nodes*each, "10m", selecting(lab, ns), withDevice)...)
	s.devicesSuit(ns, s.bound(ns, nodes*each, placedWithin))
}

// All devices are in use when pods come that are more important: as many go as are needed, and their
// devices are in two claims at no time (which the audit of the recording says).
func devicesOfVictims(s *stack, ns string) {
	const nodes, each, urgent = 3, 2, 3
	s.priorityClass("devices-low", 10)
	s.priorityClass("devices-high", 1000)
	s.diskNodes(ns, nodes)
	for i := range nodes {
		node := fmt.Sprintf("%s-%d", ns, i)
		s.publish(node, node, each)
	}
	s.oneDevice(ns)
	s.create(newPods(ns, "low", nodes*each, "10m", selecting(lab, ns), withDevice, ofPriority("devices-low"))...)
	s.bound(ns, nodes*each, placedWithin)
	s.create(newPods(ns, "high", urgent, "10m", selecting(lab, ns), withDevice, ofPriority("devices-high"))...)
	var pods []corev1.Pod
	s.eventually(placedWithin, "the important pods are bound", func(context.Context) (string, error) {
		pods = s.pods(ns)
		bound := 0
		for _, p := range pods {
			if strings.HasPrefix(p.Name, "high") && p.Spec.NodeName != "" {
				bound++
			}
		}
		if bound == urgent {
			return "", nil
		}
		return fmt.Sprintf("%d of %d, of %d pods", bound, urgent, len(pods)), nil
	})
	if left := s.left(ns, "low"); left != nodes*each-urgent {
		s.Errorf("%d of %d less important pods are left, want %d to have gone", left, nodes*each, urgent)
	}
	s.devicesSuit(ns, slices.DeleteFunc(pods, func(p corev1.Pod) bool { return p.DeletionTimestamp != nil }))
}

// Three devices for eight pods: each pod that ends frees its device for the next.
func devicesOfAll(s *stack, ns string) {
	const devices, pods = 3, 8
	s.diskNodes(ns, 4)
	s.publish(ns, "", devices)
	s.oneDevice(ns)
	s.create(newPods(ns, "p", pods, "10m", selecting(lab, ns), withDevice)...)
	for left := pods; left > 0; left -= devices {
		bound := s.bound(ns, min(left, devices), placedWithin)
		if len(bound) > devices {
			s.Fatalf("%d pods have %d devices", len(bound), devices)
		}
		s.devicesSuit(ns, bound)
		for _, p := range bound {
			var now int64
			s.must(s.client.CoreV1().Pods(ns).Delete(s.Context(), p.Name, metav1.DeleteOptions{GracePeriodSeconds: &now}))
		}
	}
}

func wantingGPU(p *corev1.Pod) { wanting(deviceResource)(p) }

// wanting has a pod ask for one of a resource.
func wanting(name corev1.ResourceName) podOption {
	return func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources.Requests[name] = resource.MustParse("1")
		p.Spec.Containers[0].Resources.Limits = corev1.ResourceList{name: resource.MustParse("1")}
	}
}

// Pods ask for a resource, and get devices where nodes do not list it: a claim is made for each, and is deleted with
// its pod. Where a node lists it, no claim is made.
func devicesForResources(s *stack, ns string) {
	const nodes, each = 2, 2
	s.diskNodes(ns, nodes)
	for i := range nodes {
		node := fmt.Sprintf("%s-%d", ns, i)
		s.publish(node, node, each)
	}
	s.create(newPods(ns, "p", nodes*each+1, "10m", selecting(lab, ns), wantingGPU)...)
	bound := s.bound(ns, nodes*each, placedWithin)
	if len(bound) != nodes*each {
		s.Fatalf("%d pods have %d devices", len(bound), nodes*each)
	}
	s.resourcesSuit(ns, bound)
	var now int64
	s.must(s.client.CoreV1().Pods(ns).Delete(s.Context(), bound[0].Name, metav1.DeleteOptions{GracePeriodSeconds: &now}))
	s.eventually(placedWithin, "the last pod is bound", func(context.Context) (string, error) {
		pods := s.pods(ns)
		pods = slices.DeleteFunc(pods, func(p corev1.Pod) bool { return p.Spec.NodeName == "" })
		if len(pods) < nodes*each {
			return fmt.Sprintf("%d pods are bound", len(pods)), nil
		}
		s.resourcesSuit(ns, pods)
		return "", nil
	})

	s.addNodes(nodeSpec{name: ns + "-lists", labels: map[string]string{lab: ns + "-lists"}, extended: deviceResource})
	s.create(newPods(ns, "listed", 1, "10m", selecting(lab, ns+"-lists"), wantingGPU)...)
	bound = s.bound(ns, nodes*each+1, placedWithin)
	for _, p := range bound {
		if listed := strings.HasPrefix(p.Name, "listed"); listed != (p.Status.ExtendedResourceClaimStatus == nil) {
			s.Errorf("pod %s on node %s has the claim %+v", p.Name, p.Spec.NodeName, p.Status.ExtendedResourceClaimStatus)
		}
	}
}

// API servers before 1.36 have no such resources by default. They drop the resource's name from the class, so that
// pods wait for a node that lists it. They also drop the claim's name from the pod's status, so that a pod that asks
// for the class is not bound.
func noDevicesForResources(s *stack, ns string) {
	s.diskNodes(ns, 1)
	s.publish(ns+"-0", ns+"-0", 1)
	s.create(newPod(ns, "names-the-resource", "10m", selecting(lab, ns), wantingGPU))
	s.unschedulable(ns, "names-the-resource", "1 Insufficient "+deviceResource)
	s.create(newPod(ns, "names-the-class", "10m", selecting(lab, ns),
		wanting(corev1.ResourceName(resourcev1.ResourceDeviceClassPrefix+"gpu"))))
	s.eventually(placedWithin, "an event says what the API server lacks", func(ctx context.Context) (string, error) {
		events, err := s.client.EventsV1().Events(ns).List(ctx, metav1.ListOptions{})
		if err != nil {
			return "", err
		}
		for _, e := range events.Items {
			if e.Regarding.Name == "names-the-class" && e.Reason == "FailedScheduling" &&
				strings.Contains(e.Note, "enable the feature gate DRAExtendedResource") {
				return "", nil
			}
		}
		return fmt.Sprintf("none of %d events", len(events.Items)), nil
	})
	for _, name := range []string{"names-the-resource", "names-the-class"} {
		if node := s.pod(ns, name).Spec.NodeName; node != "" {
			s.Errorf("pod %s is on node %s", name, node)
		}
		s.must(s.client.CoreV1().Pods(ns).Delete(s.Context(), name, metav1.DeleteOptions{}))
	}
	s.eventually(placedWithin, "no claim is left", func(ctx context.Context) (string, error) {
		claims, err := s.client.ResourceV1().ResourceClaims(ns).List(ctx, metav1.ListOptions{})
		if err != nil || len(claims.Items) == 0 {
			return "", err
		}
		return fmt.Sprintf("%d claims", len(claims.Items)), nil
	})
}

// resourcesSuit checks that every pod has a claim with a device of its node, which no other claim has.
func (s *stack) resourcesSuit(ns string, pods []corev1.Pod) {
	s.Helper()
	owners := map[string]string{}
	for _, pod := range pods {
		status := pod.Status.ExtendedResourceClaimStatus
		if status == nil || len(status.RequestMappings) != 1 || status.RequestMappings[0].ResourceName != deviceResource {
			s.Errorf("pod %s is told of %+v", pod.Name, status)
			continue
		}
		claim, err := s.client.ResourceV1().ResourceClaims(ns).Get(s.Context(), status.ResourceClaimName, metav1.GetOptions{})
		s.must(err)
		users := claim.Status.ReservedFor
		if claim.Status.Allocation == nil || len(users) != 1 || users[0].UID != pod.UID {
			s.Errorf("pod %s was bound, and its claim has %+v", pod.Name, claim.Status)
			continue
		}
		device := claim.Status.Allocation.Devices.Results[0]
		if device.Request != status.RequestMappings[0].RequestName || device.Pool != pod.Spec.NodeName {
			s.Errorf("pod %s on node %s has device %+v for %+v", pod.Name, pod.Spec.NodeName, device, status)
		}
		name := device.Pool + "/" + device.Device
		if other, taken := owners[name]; taken {
			s.Errorf("device %s is in the claims of %s and %s", name, other, pod.Name)
		}
		owners[name] = pod.Name
	}
}
