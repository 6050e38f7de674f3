package conformance

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	resourceinformers "k8s.io/client-go/informers/resource/v1"
	resourcebetainformers "k8s.io/client-go/informers/resource/v1beta2"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/component-base/featuregate"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	resourceslicetracker "k8s.io/dynamic-resource-allocation/resourceslice/tracker"
	"k8s.io/kubernetes/pkg/features"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/placement/names"
	"github.com/berth-scheduler/berth/pkg/placement/placementtest"
	"github.com/berth-scheduler/berth/pkg/state"
)

// objectGates are gates that are off by default, and that we follow wherever objects have their fields.
var objectGates = []featuregate.Feature{
	features.TaintTolerationComparisonOperators, features.VolumeLimitScaling, features.DRAListTypeAttributes,
	features.DRADeviceTaintRules,
}

// withObjectGates turns these gates on for upstream, until the test ends.
func withObjectGates(t *testing.T) {
	t.Helper()
	for _, gate := range objectGates {
		featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate, gate, true)
	}
}

// alpha returns a size of clusters whose objects use the features of objectGates.
func alpha(size placementtest.Size) placementtest.Size {
	size.Alpha = true
	return size
}

// alphaReasons are parts of reasons that clusters with these features must give.
var alphaReasons = []string{"CSI driver is not installed on the node"}

// TestAlpha is TestPlacement with features that are off by default, on both sides.
func TestAlpha(t *testing.T) {
	withObjectGates(t)
	compareHistories(t, alpha(placementtest.Small))
}

// TestAlphaVolumes is TestVolumes with features that are off by default.
func TestAlphaVolumes(t *testing.T) {
	withObjectGates(t)
	seen := compareHistories(t, alpha(withVolumes))
	for _, part := range alphaReasons {
		if n := seen.reasonsWith(part); n == 0 && *comparisons >= 2000 {
			lacks(t, "no %q", part)
		} else {
			t.Logf("%.1f%% %s", seen.percent(n), part)
		}
	}
}

// TestAlphaDevices is TestDevices with features that are off by default.
func TestAlphaDevices(t *testing.T) {
	withObjectGates(t)
	compareHistories(t, alpha(withDevices))
}

// TestAlphaHints is TestHints with features that are off by default.
func TestAlphaHints(t *testing.T) {
	withObjectGates(t)
	compareAllHints(t, alpha(placementtest.Small))
}

// TestAlphaVolumeHints is TestVolumeHints with features that are off by default.
func TestAlphaVolumeHints(t *testing.T) {
	withObjectGates(t)
	compareAllHints(t, alpha(withVolumes))
}

// waitsForDriver is a cluster of one node where the driver disk.example.com is not registered, and a pod with a claim
// to a volume of it.
func waitsForDriver() (*placementtest.Cluster, *corev1.Pod) {
	yes, class := true, "disk"
	c := zoned()
	c.Nodes = c.Nodes[:1]
	node := c.Nodes[0].Name
	for kind, obj := range map[events.Kind]state.APIObject{
		events.KindCSIDriver: &storagev1.CSIDriver{
			ObjectMeta: metav1.ObjectMeta{Name: "disk.example.com", UID: "uid-driver"},
			Spec:       storagev1.CSIDriverSpec{PreventPodSchedulingIfMissing: &yes},
		},
		events.KindStorageClass: &storagev1.StorageClass{
			ObjectMeta: metav1.ObjectMeta{Name: class, UID: "uid-class"}, Provisioner: "disk.example.com",
			VolumeBindingMode: new(storagev1.VolumeBindingWaitForFirstConsumer),
		},
		events.KindVolumeClaim: &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "data", UID: "uid-data"},
			Spec:       corev1.PersistentVolumeClaimSpec{StorageClassName: &class},
		},
		events.KindCSINode: &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: node, UID: "uid-csinode"}},
	} {
		c.Apply(placementtest.Event{Kind: kind, New: obj})
	}
	pod := labelled("default", "new", "web", "")
	pod.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"},
	}}}
	return c, pod
}

// TestDriverRequired: no pod is placed where a required driver is not registered, and the registration wakes it.
// Upstream says the same about the node, and wakes the pod only if the driver registers with a limit.
func TestDriverRequired(t *testing.T) {
	prepareUpstream()
	withObjectGates(t)
	both := mustSides(t.Context(), t, singlePluginProfile(names.NodeVolumeLimits))
	c, pod := waitsForDriver()
	both.mustApply(t, c.Events()...)
	if want, diff := both.compare(t.Context(), pod, 1); diff != "" || want.Nodes["one"].Code != "Unschedulable" {
		t.Fatalf("%s, upstream says %+v, want Unschedulable of both", diff, want)
	}
	plugins := []string{names.NodeVolumeLimits}
	bare := c.Others[events.KindCSINode][0]
	driver := c.Others[events.KindCSIDriver][0]
	with := func(drivers ...storagev1.CSINodeDriver) state.APIObject {
		return &storagev1.CSINode{
			ObjectMeta: metav1.ObjectMeta{Name: bare.GetName(), UID: bare.GetUID()},
			Spec:       storagev1.CSINodeSpec{Drivers: drivers},
		}
	}
	optional := &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: driver.GetName(), UID: driver.GetUID()}}
	unlimited, limited := storagev1.CSINodeDriver{Name: driver.GetName()}, storagev1.CSINodeDriver{
		Name: driver.GetName(), Allocatable: &storagev1.VolumeNodeResources{Count: new(int32(5))},
	}
	for name, test := range map[string]struct {
		change         placementtest.Event
		upstream, ours bool
	}{
		"registers without a limit": {objectEvent(events.KindCSINode, bare, with(unlimited)), false, true},
		"registers with a limit":    {objectEvent(events.KindCSINode, bare, with(limited)), true, true},
		"another registers": {
			objectEvent(events.KindCSINode, bare, with(storagev1.CSINodeDriver{Name: "other.example.com"})), false, false,
		},
		"leaves":                  {objectEvent(events.KindCSINode, with(unlimited), bare), false, false},
		"new CSINode":             {objectEvent(events.KindCSINode, nil, with(unlimited)), true, true},
		"is no longer required":   {objectEvent(events.KindCSIDriver, driver, optional), false, true},
		"CSIDriver is gone":       {objectEvent(events.KindCSIDriver, driver, nil), false, true},
		"is required from now on": {objectEvent(events.KindCSIDriver, optional, driver), false, false},
	} {
		theirs := upstreamWakes(t, extension(t, both.upstream, names.NodeVolumeLimits), pod, test.change)
		if theirs != test.upstream {
			t.Errorf("%s: upstream wakes the pod: %v, want %v; if this is mended, the exception can go",
				name, theirs, test.upstream)
		}
		got := both.profile.Wakes(state.NewPod(pod.DeepCopy()), plugins, ourChange(test.change, both.view.Objects()))
		if got != test.ours {
			t.Errorf("%s: we wake the pod: %v, want %v", name, got, test.ours)
		}
	}
	both.mustApply(t, objectEvent(events.KindCSINode, bare, with(unlimited)))
	if want, diff := both.compare(t.Context(), pod, 1); diff != "" || want.Only != "one" {
		t.Fatalf("%s, upstream says %+v, want node one of both", diff, want)
	}
}

// TestConstraintOverLists: two devices that share a value of a list match. Upstream's plugin does not turn the feature
// on for its allocator, so that no constraint over lists is satisfied.
func TestConstraintOverLists(t *testing.T) {
	prepareUpstream()
	withObjectGates(t)
	both := mustSides(t.Context(), t, singlePluginProfile(names.DynamicResources))
	c := zoned()
	c.Nodes = c.Nodes[:1]
	node, attribute := c.Nodes[0].Name, resourcev1.FullyQualifiedName("gpu.example.com/numa")
	device := func(name string, numa ...int64) resourcev1.Device {
		return resourcev1.Device{Name: name, Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{
			"numa": {IntValues: numa},
		}}
	}
	for kind, obj := range map[events.Kind]state.APIObject{
		events.KindDeviceClass: &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "any", UID: "uid-any"}},
		events.KindResourceSlice: &resourcev1.ResourceSlice{
			ObjectMeta: metav1.ObjectMeta{Name: "slice", UID: "uid-slice"},
			Spec: resourcev1.ResourceSliceSpec{
				Driver: "gpu.example.com", NodeName: &node,
				Pool:    resourcev1.ResourcePool{Name: node, Generation: 1, ResourceSliceCount: 1},
				Devices: []resourcev1.Device{device("one", 0, 1), device("two", 1, 2)},
			},
		},
		events.KindResourceClaim: &resourcev1.ResourceClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "claim", UID: "uid-claim"},
			Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{
				Requests: []resourcev1.DeviceRequest{{Name: "r", Exactly: &resourcev1.ExactDeviceRequest{
					DeviceClassName: "any", AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 2,
				}}},
				Constraints: []resourcev1.DeviceConstraint{{MatchAttribute: &attribute}},
			}},
		},
	} {
		c.Apply(placementtest.Event{Kind: kind, New: obj})
	}
	both.mustApply(t, c.Events()...)
	pod := labelled("default", "new", "web", "")
	pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "d", ResourceClaimName: new("claim")}}
	if got := both.upstream.decide(t.Context(), pod).Nodes["one"].Code; got != "UnschedulableAndUnresolvable" {
		t.Errorf("upstream says %s of node one; if this is mended, generate constraints over lists", got)
	}
	if got := both.ours(pod).Nodes["one"].Code; got != "Success" {
		t.Errorf("node one: %s, want Success", got)
	}
}

// objectEvent is a change of an object of any kind; a nil before or after is an addition or removal.
func objectEvent(k events.Kind, before, after state.APIObject) placementtest.Event {
	return placementtest.Event{What: "change", Kind: k, Old: before, New: after}
}

// tracker returns upstream's view of slices. With DRADeviceTaintRules it follows slices and rules.
func (u *upstreamState) tracker(ctx context.Context) (*resourceslicetracker.Tracker, error) {
	resource := u.listers.Resource()
	options := resourceslicetracker.Options{SliceInformer: resource.V1().ResourceSlices()}
	if utilfeature.DefaultFeatureGate.Enabled(features.DRADeviceTaintRules) {
		options.EnableDeviceTaintRules, options.EnableConsumableCapacity = true, true
		options.SliceInformer = followedSlices{resource.V1().ResourceSlices(), u.slices}
		options.TaintInformer = followedRules{resource.V1beta2().DeviceTaintRules(), u.rules}
		options.ClassInformer = resource.V1().DeviceClasses()
	}
	return resourceslicetracker.StartTracker(ctx, options)
}

// followed is an informer that is not started; the tests deliver changes to its follower by hand.
type followed struct {
	toolscache.SharedIndexInformer
	by *informer
}

// AddEventHandler implements cache.SharedInformer.
func (f followed) AddEventHandler(
	h toolscache.ResourceEventHandler,
) (toolscache.ResourceEventHandlerRegistration, error) {
	f.by.handler = h
	return f.SharedIndexInformer.AddEventHandler(h)
}

type followedSlices struct {
	resourceinformers.ResourceSliceInformer
	by *informer
}

// Informer implements informers.ResourceSliceInformer.
func (f followedSlices) Informer() toolscache.SharedIndexInformer {
	return followed{f.ResourceSliceInformer.Informer(), f.by}
}

type followedRules struct {
	resourcebetainformers.DeviceTaintRuleInformer
	by *informer
}

// Informer implements informers.DeviceTaintRuleInformer.
func (f followedRules) Informer() toolscache.SharedIndexInformer {
	return followed{f.DeviceTaintRuleInformer.Informer(), f.by}
}
