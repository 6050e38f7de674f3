//go:build e2e

package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	resourcev1beta2 "k8s.io/api/resource/v1beta2"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/pkg/explain"
	"github.com/berth-scheduler/berth/pkg/placement/gates"
	"github.com/berth-scheduler/berth/test/e2e/harness"
)

// offByDefault are the gates of 1.36 that concern scheduling and are off by default.
var offByDefault = []string{
	"DRADeviceTaintRules", "DRAListTypeAttributes", "DRANodeAllocatableResources", "DRAWorkloadResourceClaims",
	"GangScheduling", "GenericWorkload", "MutablePVNodeAffinity", "StorageCapacityScoring",
	"TaintTolerationComparisonOperators", "TopologyAwareWorkloadScheduling", "VolumeLimitScaling",
	"WorkloadAwarePreemption", "WorkloadWithJob",
}

// wokenWithin bounds how long a pod waits for a change that helps it. It takes less than a second; without a hint it
// would take five minutes.
const wokenWithin = 20 * time.Second

// With every feature on that is off by default: each that Berth does not follow has one line in the log and one warning
// in the status, and pods that need it say so; the others work, wherever objects use them.
func TestFeatureGates(t *testing.T) {
	t.Parallel()
	s := newStackOf(t, harness.ClusterConfig{
		RuntimeConfig: "resource.k8s.io/v1beta2=true,scheduling.k8s.io/v1alpha2=true",
		FeatureGates:  strings.Join(offByDefault, "=true,") + "=true",
	})
	s.up(harness.UpConfig{Shards: 2, Binders: 1, Args: []string{"--log-format", "json"}})
	for i, test := range []struct {
		name string
		run  func(*stack, string)
	}{
		{"what is not followed is said", unfollowedGates},
		{"tolerations compare numbers", numericTolerations},
		{"a driver is required", requiredDriver},
		{"rules taint devices with lists of values", taintedDevices},
		{"devices that take resources of the node are refused", mappedDevices},
	} {
		t.Run(test.name, func(t *testing.T) {
			inner := *s
			inner.T = t
			test.run(&inner, inner.namespace(fmt.Sprintf("gates-%d", i)))
			inner.audit()
		})
	}
}

// unfollowedGates compares the status and the log with the lists.
func unfollowedGates(s *stack, _ string) {
	want := gates.Unfollowed(offByDefault)
	if len(want) < 4 {
		s.Fatalf("not followed are %v", want)
	}
	s.eventually(placedWithin, "the status has a warning for each", func(ctx context.Context) (string, error) {
		r, err := programs.Command(ctx, "status", "--data-dir", filepath.Join(s.dir, "data"), "-o", "json")
		if err != nil {
			return "", err
		}
		var status struct{ Services explain.Overview }
		if err := json.Unmarshal([]byte(r.Stdout), &status); err != nil {
			return "", err
		}
		for _, g := range want {
			if !slices.Contains(status.Services.Warnings, g.String()) {
				return fmt.Sprintf("%s is not among %q", g.Name, status.Services.Warnings), nil
			}
		}
		return "", nil
	})
	log, err := os.ReadFile(filepath.Join(s.dir, "berth.log"))
	s.must(err)
	for _, name := range offByDefault {
		expected := 0
		if slices.ContainsFunc(want, func(g gates.Gate) bool { return g.Name == name }) {
			expected = 1
		}
		if n := strings.Count(string(log), `"featureGate":"`+name+`"`); n != expected {
			s.Errorf("the log has %d lines about %s, want %d", n, name, expected)
		}
	}
}

// numericTolerations places pods by the reliability that a taint gives their node.
func numericTolerations(s *stack, ns string) {
	s.addNodes(nodeSpec{name: "sla", capacity: "4", taints: []corev1.Taint{
		{Key: "example.com/sla", Value: "950", Effect: corev1.TaintEffectNoSchedule},
	}})
	above := func(value string) podOption {
		return func(p *corev1.Pod) {
			p.Spec.NodeSelector = map[string]string{corev1.LabelHostname: "sla"}
			p.Spec.Tolerations = []corev1.Toleration{
				{Key: "example.com/sla", Operator: corev1.TolerationOpGt, Value: value},
			}
		}
	}
	s.create(newPod(ns, "modest", "100m", above("900")), newPod(ns, "demanding", "100m", above("990")))
	if node := s.nodeOf(ns, "modest"); node != "sla" {
		s.Errorf("the pod is on %s, want sla", node)
	}
	s.waitsFor(ns, "demanding", "untolerated taint")
	s.woken(ns, "demanding", func() {
		_, err := s.client.CoreV1().Nodes().Patch(s.Context(), "sla", types.MergePatchType,
			[]byte(`{"spec":{"taints":[{"key":"example.com/sla","value":"999","effect":"NoSchedule"}]}}`), metav1.PatchOptions{})
		s.must(err)
	})
}

// requiredDriver places no pod where the driver of its volume is not registered.
func requiredDriver(s *stack, ns string) {
	const driver, node = "required.example.com", "undriven"
	s.addNodes(nodeSpec{name: node, capacity: "4", labels: map[string]string{"volumes": "here"}})
	_, err := s.client.StorageV1().CSIDrivers().Create(s.Context(), &storagev1.CSIDriver{
		ObjectMeta: metav1.ObjectMeta{Name: driver},
		Spec:       storagev1.CSIDriverSpec{PreventPodSchedulingIfMissing: new(true)},
	}, metav1.CreateOptions{})
	s.must(err)
	volume := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "required"},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:    corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				CSI: &corev1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: "v"},
			},
			ClaimRef: &corev1.ObjectReference{Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: ns, Name: "data"},
		},
	}
	_, err = s.client.CoreV1().PersistentVolumes().Create(s.Context(), volume, metav1.CreateOptions{})
	s.must(err)
	spec := claimSpec("", corev1.ReadWriteOnce)
	spec.VolumeName = volume.Name
	_, err = s.client.CoreV1().PersistentVolumeClaims(ns).Create(s.Context(), &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "data"}, Spec: spec,
	}, metav1.CreateOptions{})
	s.must(err)
	s.create(newPod(ns, "user", "100m", withClaim("data"), func(p *corev1.Pod) {
		p.Spec.NodeSelector = map[string]string{"volumes": "here"}
	}))
	s.waitsFor(ns, "user", driver+" CSI driver is not installed on the node")
	csi, err := s.client.StorageV1().CSINodes().Create(s.Context(),
		&storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: node}}, metav1.CreateOptions{})
	s.must(err)
	s.waitsFor(ns, "user", driver+" CSI driver is not installed on the node")
	s.woken(ns, "user", func() {
		csi.Spec.Drivers = []storagev1.CSINodeDriver{{Name: driver, NodeID: node}}
		_, err := s.client.StorageV1().CSINodes().Update(s.Context(), csi, metav1.UpdateOptions{})
		s.must(err)
	})
}

// gateClass makes a class with a selector.
func (s *stack) gateClass(name, expression string) {
	s.Helper()
	_, err := s.client.ResourceV1().DeviceClasses().Create(s.Context(), &resourcev1.DeviceClass{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: resourcev1.DeviceClassSpec{Selectors: []resourcev1.DeviceSelector{
			{CEL: &resourcev1.CELDeviceSelector{Expression: expression}},
		}},
	}, metav1.CreateOptions{})
	s.must(err)
}

// gateClaim makes a claim to one device of a class, and returns the option for pods that use it.
func (s *stack) gateClaim(ns, name, class string) podOption {
	s.Helper()
	_, err := s.client.ResourceV1().ResourceClaims(ns).Create(s.Context(), &resourcev1.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name},
		Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{{
			Name: "one", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: class},
		}}}},
	}, metav1.CreateOptions{})
	s.must(err)
	return func(p *corev1.Pod) {
		p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "device", ResourceClaimName: &name}}
		p.Spec.Containers[0].Resources.Claims = []corev1.ResourceClaim{{Name: "device"}}
	}
}

// slice publishes the devices of a node.
func (s *stack) slice(driver, node string, devices ...resourcev1.Device) {
	s.Helper()
	_, err := s.client.ResourceV1().ResourceSlices().Create(s.Context(), &resourcev1.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Name: node + "-" + driver},
		Spec: resourcev1.ResourceSliceSpec{
			Driver: driver, NodeName: &node, Pool: resourcev1.ResourcePool{Name: node, ResourceSliceCount: 1},
			Devices: devices,
		},
	}, metav1.CreateOptions{})
	s.must(err)
}

// taintedDevices gives the device that a list of values selects, but not while a rule taints it.
func taintedDevices(s *stack, ns string) {
	const driver = "list.example.com"
	s.addNodes(nodeSpec{name: "listed", capacity: "4"})
	s.gateClass("linked", `device.driver == "`+driver+`" && device.attributes["`+driver+`"].links.includes("b")`)
	links := func(values ...string) map[resourcev1.QualifiedName]resourcev1.DeviceAttribute {
		return map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{"links": {StringValues: values}}
	}
	s.slice(driver, "listed", resourcev1.Device{Name: "one", Attributes: links("a")},
		resourcev1.Device{Name: "two", Attributes: links("a", "b")})
	drain := &resourcev1beta2.DeviceTaintRule{
		ObjectMeta: metav1.ObjectMeta{Name: "drain"},
		Spec: resourcev1beta2.DeviceTaintRuleSpec{
			DeviceSelector: &resourcev1beta2.DeviceTaintSelector{Driver: new(driver), Device: new("two")},
			Taint: resourcev1beta2.DeviceTaint{
				Key: "example.com/drain", Effect: resourcev1beta2.DeviceTaintEffectNoSchedule,
			},
		},
	}
	rules := s.client.ResourceV1beta2().DeviceTaintRules()
	_, err := rules.Create(s.Context(), drain, metav1.CreateOptions{})
	s.must(err)
	s.create(newPod(ns, "linked", "100m", s.gateClaim(ns, "claim", "linked")))
	s.waitsFor(ns, "linked", "cannot allocate all claims")
	s.woken(ns, "linked", func() { s.must(rules.Delete(s.Context(), drain.Name, metav1.DeleteOptions{})) })
	claim, err := s.client.ResourceV1().ResourceClaims(ns).Get(s.Context(), "claim", metav1.GetOptions{})
	s.must(err)
	if results := claim.Status.Allocation.Devices.Results; len(results) != 1 || results[0].Device != "two" {
		s.Errorf("the claim has %v, want device two", results)
	}
}

// mappedDevices refuses pods whose devices would take cpu of their node, and names the gate.
func mappedDevices(s *stack, ns string) {
	const driver = "cpu.example.com"
	s.addNodes(nodeSpec{name: "mapped", capacity: "4"})
	s.gateClass("cpus", `device.driver == "`+driver+`"`)
	s.slice(driver, "mapped", resourcev1.Device{
		Name: "cpus",
		NodeAllocatableResourceMappings: map[corev1.ResourceName]resourcev1.NodeAllocatableResourceMapping{
			corev1.ResourceCPU: {AllocationMultiplier: new(resource.MustParse("2"))},
		},
	})
	s.create(newPod(ns, "user", "100m", s.gateClaim(ns, "claim", "cpus")))
	s.waitsFor(ns, "user", "DRANodeAllocatableResources")
}

// waitsFor waits until a pod's condition says Unschedulable with this part of a message.
func (s *stack) waitsFor(ns, name, part string) {
	s.Helper()
	s.eventually(placedWithin, "pod "+name+" waits: "+part, func(ctx context.Context) (string, error) {
		pod, err := s.client.CoreV1().Pods(ns).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return "", err
		}
		if pod.Spec.NodeName != "" {
			return "", fmt.Errorf("it is bound to %s", pod.Spec.NodeName)
		}
		c := conditionOf(pod)
		if c.Reason == corev1.PodReasonUnschedulable && strings.Contains(c.Message, part) {
			return "", nil
		}
		return c.Message, nil
	})
}

// woken makes a change and waits until the pod is bound.
func (s *stack) woken(ns, name string, change func()) {
	s.Helper()
	change()
	began := time.Now()
	s.bound(ns, len(s.pods(ns)), wokenWithin)
	s.Logf("%s was bound %s after the change that it waited for", name, time.Since(began).Round(time.Millisecond))
}
