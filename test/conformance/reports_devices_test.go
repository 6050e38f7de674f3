package conformance

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/placement/names"
	"github.com/berth-scheduler/berth/services/binder/decide/basis"
	"github.com/berth-scheduler/berth/services/binder/decide/effect"
)

const (
	// deviceReportShare: of so many comparisons, one is such a case, in which upstream may wait for deviceTimeout.
	deviceReportShare = 20
	// deviceTimeout is the shortest time that both sides accept for binding conditions.
	deviceTimeout = time.Second
	deviceDriver  = "gpu.example.com"
)

// What the driver of the devices reports after an allocation: that its conditions hold, that one of failure does, or
// nothing.
const (
	driverReady  = "ready"
	driverBroken = "broken"
	driverSilent = "silent"
)

// deviceExceptions are the differences in attempts with devices that are chosen and then not prepared.
var deviceExceptions = []reportException{deallocationException, generationException, {
	name: "another node prepared", why: "which of the best nodes it is, is compared elsewhere",
	take: func(_ *corev1.Pod, want, got *reports) bool {
		pending := func(e report) bool { return e.Reason == "BindingConditionsPending" }
		w, g := slices.IndexFunc(want.Events, pending), slices.IndexFunc(got.Events, pending)
		if w < 0 || g < 0 || want.Events[w].Note == got.Events[g].Note {
			return false
		}
		theirs := strings.Fields(want.Events[w].Note)
		ours := strings.Fields(got.Events[g].Note)
		if !slices.Equal(theirs[:len(theirs)-1], ours[:len(ours)-1]) {
			return false
		}
		got.Events[g].Note = want.Events[w].Note
		return true
	},
}, {
	name: "not prepared",
	why: "upstream's event quotes its plugin, ours the binder; the place is taken back before the pod is tried again, " +
		"and a condition written in between would make the next bind fail: that attempt writes it",
	take: func(pod *corev1.Pod, want, got *reports) bool {
		const theirs, ours = `running PreBind plugin "DynamicResources": device binding `, "binding to node "
		event := func(prefix string) func(report) bool {
			return func(e report) bool { return e.Reason == "FailedScheduling" && strings.HasPrefix(e.Note, prefix) }
		}
		i := slices.IndexFunc(want.Conditions, isScheduled)
		if i < 0 || want.Conditions[i].Reason != corev1.PodReasonSchedulerError ||
			!slices.ContainsFunc(want.Events, event(theirs)) || !slices.ContainsFunc(got.Events, event(ours)) {
			return false
		}
		kept := func(c corev1.PodCondition) bool { return slices.ContainsFunc(pod.Status.Conditions, equalTo(c)) }
		if g := slices.IndexFunc(got.Conditions, isScheduled); g >= 0 && !kept(got.Conditions[g]) {
			return false
		}
		want.Events = slices.DeleteFunc(want.Events, event(theirs))
		got.Events = slices.DeleteFunc(got.Events, event(ours))
		want.Conditions = slices.DeleteFunc(want.Conditions, isScheduled)
		got.Conditions = slices.DeleteFunc(got.Conditions, func(c corev1.PodCondition) bool {
			// The mark of the fence makes earlier binds fail.
			return isScheduled(c) || c.Type == effect.ConditionFence || c.Type == effect.ConditionAttempt
		})
		return true
	},
}}

func equalTo(c corev1.PodCondition) func(corev1.PodCondition) bool {
	return func(o corev1.PodCondition) bool { return cmp.Equal(c, o) }
}

// TestReportsOfDevices is TestReports for pods with claims to devices, some of which have to be prepared before the
// pod is bound.
func TestReportsOfDevices(t *testing.T) {
	prepareUpstream()
	first, seen := firstSeed(t), map[string]int{}
	for i := range uint64(max(*comparisons/deviceReportShare, 1)) {
		compareDeviceReports(t, first+i, seen)
		if t.Failed() {
			t.Fatalf("replay this one with -run '^%s$' -args -seed=%d -comparisons=1", t.Name(), first+i)
		}
	}
	t.Log(seen)
	for _, kind := range []string{
		"placed", "unplaceable", "waited for", driverReady, driverBroken, driverSilent, "not prepared",
	} {
		if *comparisons >= 2000 && seen[kind] == 0 {
			lacks(t, "no case of %q in %v", kind, seen)
		}
	}
}

func compareDeviceReports(t *testing.T, seed uint64, seen map[string]int) {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 4))
	c, driver := newDeviceCase(rng)
	c.number()
	given := configv1.KubeSchedulerConfiguration{Profiles: []configv1.KubeSchedulerProfile{{
		PluginConfig: []configv1.PluginConfig{{
			Name: names.DynamicResources, Args: runtime.RawExtension{Object: &configv1.DynamicResourcesArgs{
				BindingTimeout: &metav1.Duration{Duration: deviceTimeout},
			}},
		}},
	}}}
	want, err := c.upstreamReports(t.Context(), given, func(client *fake.Clientset) {
		client.PrependReactor("update", "resourceclaims", func(a clienttesting.Action) (bool, runtime.Object, error) {
			if claim, ok := a.(clienttesting.UpdateAction).GetObject().(*resourcev1.ResourceClaim); ok {
				reportDevices(claim, driver)
			}
			return false, nil, nil
		})
	})
	if err != nil {
		t.Fatalf("seed %d: upstream: %v", seed, err)
	}
	profile, err := placement.NewProfile(extendedProfile(nil))
	if err != nil {
		t.Fatal(err)
	}
	limits := basis.DefaultLimits()
	limits.Devices.Deadline = deviceTimeout
	got, err := c.ourReports(t.Context(), profile, limits, func(client *fake.Clientset, result effect.Result) error {
		if result != effect.Waiting {
			return nil
		}
		return reportAllDevices(t.Context(), client, driver)
	})
	if err != nil {
		t.Fatalf("seed %d: ours: %v", seed, err)
	}
	c.countReports(want, seen)
	if slices.ContainsFunc(want.Events, func(e report) bool { return e.Reason == "BindingConditionsPending" }) {
		seen["waited for"]++
		seen[driver]++
	}
	if diff := c.compareReports(want, got, deviceExceptions, seen); diff != "" {
		t.Errorf("seed %d, driver %s: upstream (-) and ours (+) differ:\n%s\nfor %s", seed, driver, diff, c)
	}
}

// reportDevices writes what a driver reports about the devices that a claim has got into its status. It reports whether
// that is something.
func reportDevices(claim *resourcev1.ResourceClaim, driver string) bool {
	if claim.Status.Allocation == nil || len(claim.Status.Devices) > 0 || driver == driverSilent {
		return false
	}
	for _, r := range claim.Status.Allocation.Devices.Results {
		if len(r.BindingConditions) > 0 {
			claim.Status.Devices = append(claim.Status.Devices, resourcev1.AllocatedDeviceStatus{
				Driver: r.Driver, Pool: r.Pool, Device: r.Device, Conditions: []metav1.Condition{{
					Type: driver, Status: metav1.ConditionTrue, Reason: "Reported", Message: "by its driver",
					LastTransitionTime: longAgo,
				}},
			})
		}
	}
	return len(claim.Status.Devices) > 0
}

// reportAllDevices does so for all claims of an API server.
func reportAllDevices(ctx context.Context, client *fake.Clientset, driver string) error {
	claims, err := client.ResourceV1().ResourceClaims(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range claims.Items {
		claim := &claims.Items[i]
		if !reportDevices(claim, driver) {
			continue
		}
		_, err := client.ResourceV1().ResourceClaims(claim.Namespace).UpdateStatus(ctx, claim, metav1.UpdateOptions{})
		if err != nil {
			return err
		}
	}
	return nil
}

// newDeviceCase is a cluster with devices on some nodes, a pod with claims, and what the driver reports.
func newDeviceCase(rng *rand.Rand) (c *extendedCase, driver string) {
	chance := func(percent int) bool { return rng.IntN(100) < percent }
	c = &extendedCase{pod: extendedPod("p", "1")}
	c.tryBefore(rng)
	add := func(kind events.Kind, obj runtime.Object) { c.others = append(c.others, otherObject{kind, obj}) }
	add(events.KindDeviceClass, &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "any", UID: "uid-any"}})
	prepared := chance(75) // all or none: upstream's choice among the best nodes is not known
	for i := range 1 + rng.IntN(3) {
		n := deviceNode(fmt.Sprint("n", i))
		c.nodes = append(c.nodes, n)
		if chance(85) {
			add(events.KindResourceSlice, deviceSlice(n.Name, 1+rng.IntN(2), prepared))
		}
	}
	for i := range 1 + rng.IntN(2) {
		name := fmt.Sprint("claim-", i)
		c.pod.Spec.ResourceClaims = append(c.pod.Spec.ResourceClaims, corev1.PodResourceClaim{
			Name: name, ResourceClaimName: &name,
		})
		if chance(95) {
			add(events.KindResourceClaim, claimOf(c.pod.Namespace, name, int64(1+rng.IntN(2))))
		}
	}
	switch n := rng.IntN(100); {
	case n < 60:
		driver = driverReady
	case n < 85:
		driver = driverBroken
	default:
		driver = driverSilent
	}
	return c, driver
}

func deviceNode(name string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: name, UID: types.UID("uid-" + name), ResourceVersion: "10",
		Labels: map[string]string{corev1.LabelHostname: name},
	}}
	n.Status.Allocatable = extendedPod("", "4").Spec.Containers[0].Resources.Requests
	n.Status.Allocatable[corev1.ResourcePods] = resource.MustParse("110")
	n.Status.Capacity = n.Status.Allocatable
	return n
}

func deviceSlice(node string, devices int, prepared bool) *resourcev1.ResourceSlice {
	s := &resourcev1.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Name: "slice-" + node, UID: types.UID("uid-slice-" + node)},
		Spec: resourcev1.ResourceSliceSpec{
			Driver: deviceDriver, NodeName: &node,
			Pool: resourcev1.ResourcePool{Name: node, Generation: 1, ResourceSliceCount: 1},
		},
	}
	for i := range devices {
		d := resourcev1.Device{Name: fmt.Sprint("gpu-", i)}
		if prepared {
			d.BindingConditions, d.BindingFailureConditions = []string{driverReady}, []string{driverBroken}
		}
		s.Spec.Devices = append(s.Spec.Devices, d)
	}
	return s
}

func claimOf(namespace, name string, count int64) *resourcev1.ResourceClaim {
	return &resourcev1.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID("uid-" + name)},
		Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{{
			Name: "r", Exactly: &resourcev1.ExactDeviceRequest{
				DeviceClassName: "any", AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: count,
			},
		}}}},
	}
}
