package conformance

import (
	"context"
	"fmt"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	toolscache "k8s.io/client-go/tools/cache"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/placement/placementtest"
)

// upstreamState is the memory that upstream's scheduler has of a cluster: its cache, the snapshot of it that is
// updated before every decision, and its listers. Changes are applied to it as its event handlers do.
type upstreamState struct {
	cache    cache.Cache
	snapshot *cache.Snapshot
	listers  informers.SharedInformerFactory
	// cluster is the result of the changes so far.
	cluster placementtest.Cluster
	// raw leaves upstream's memory as it is: see mendPorts and mendImages.
	raw bool
	// claims follows the claims to devices in their lister.
	claims  *informer
	version int
	// classes is the second follower of device classes: the cache that maps extended resources to them.
	classes *informer
	// slices and rules are followed by the tracker that patches the taints of DeviceTaintRules onto slices.
	slices, rules *informer
}

// informer delivers changes to one of upstream's caches, as an informer does.
type informer struct {
	handler toolscache.ResourceEventHandler
}

// AddEventHandler implements assumecache.Informer.
func (f *informer) AddEventHandler(
	h toolscache.ResourceEventHandler,
) (toolscache.ResourceEventHandlerRegistration, error) {
	f.handler = h
	return nil, nil
}

func (f *informer) deliver(old, now any) {
	switch {
	case now == nil:
		f.handler.OnDelete(old)
	case old == nil:
		f.handler.OnAdd(now, false)
	default:
		f.handler.OnUpdate(old, now)
	}
}

// withoutDevices is for frameworks that have no device manager: without one, lookups of resources that device classes
// may back would fail. There are no DeviceClasses in its callers, so that it changes no answer.
func withoutDevices(t *testing.T) {
	t.Helper()
	prepareUpstream()
	featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate, features.DRAExtendedResource, false)
}

// deliverEvent delivers an event, if there is one and a handler listens.
func (f *informer) deliverEvent(e placementtest.Event) {
	switch {
	case f.handler == nil || e.Old == nil && e.New == nil:
	case e.New == nil:
		f.deliver(e.Old, nil)
	case e.Old == nil:
		f.deliver(nil, e.New)
	default:
		f.deliver(e.Old, e.New)
	}
}

func newUpstreamState(ctx context.Context) *upstreamState {
	return &upstreamState{
		cache:    cache.New(ctx, nil, false),
		snapshot: cache.NewEmptySnapshot(),
		listers:  informers.NewSharedInformerFactory(fake.NewClientset(), 0),
		claims:   &informer{},
		classes:  &informer{},
		slices:   &informer{},
		rules:    &informer{},
	}
}

// apply makes one change.
func (u *upstreamState) apply(ctx context.Context, e placementtest.Event) error {
	e = u.cluster.Apply(e)
	switch e.Kind {
	case events.KindNode:
		return u.applyNode(ctx, e)
	case events.KindPod:
		return u.applyPod(ctx, e)
	default:
		return u.applyOther(e)
	}
}

func (u *upstreamState) applyNode(ctx context.Context, e placementtest.Event) error {
	logger := klog.FromContext(ctx)
	switch before, after := e.Nodes(); {
	case before == nil && after == nil:
		return nil
	case after == nil:
		return u.cache.RemoveNode(logger, before)
	case before == nil:
		u.cache.AddNode(logger, after.DeepCopy())
	default:
		u.cache.UpdateNode(logger, before, after.DeepCopy())
	}
	return nil
}

// applyPod keeps to upstream's handlers (pkg/scheduler/eventhandlers.go): pods that have
// ended are filtered out, and a pod under a known name with another UID is another pod.
func (u *upstreamState) applyPod(ctx context.Context, e placementtest.Event) error {
	logger := klog.FromContext(ctx)
	before, after := withoutEnded(e)
	if before != nil && after != nil && before.UID == after.UID && before.Spec.NodeName == after.Spec.NodeName {
		return u.cache.UpdatePod(logger, before, after.DeepCopy())
	}
	if before != nil {
		if err := u.cache.RemovePod(logger, before); err != nil {
			return err
		}
		if err := u.fixPorts(ctx, before); err != nil {
			return err
		}
	}
	if after != nil {
		return u.cache.AddPod(logger, after.DeepCopy())
	}
	return nil
}

// withoutEnded leaves out pods that have ended.
func withoutEnded(e placementtest.Event) (before, after *corev1.Pod) {
	before, after = e.Pods()
	if before != nil && ended(before) {
		before = nil
	}
	if after != nil && ended(after) {
		after = nil
	}
	return before, after
}

func ended(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
}

func (u *upstreamState) applyOther(e placementtest.Event) error {
	core, apps, storage := u.listers.Core().V1(), u.listers.Apps().V1(), u.listers.Storage().V1()
	var informer toolscache.SharedIndexInformer
	switch e.Kind {
	case events.KindNamespace:
		informer = core.Namespaces().Informer()
	case events.KindService:
		informer = core.Services().Informer()
	case events.KindReplicaSet:
		informer = apps.ReplicaSets().Informer()
	case events.KindStatefulSet:
		informer = apps.StatefulSets().Informer()
	case events.KindReplicationController:
		informer = core.ReplicationControllers().Informer()
	case events.KindDisruptionBudget:
		informer = u.listers.Policy().V1().PodDisruptionBudgets().Informer()
	case events.KindPersistentVolume:
		informer = core.PersistentVolumes().Informer()
	case events.KindVolumeClaim:
		informer = core.PersistentVolumeClaims().Informer()
	case events.KindStorageClass:
		informer = storage.StorageClasses().Informer()
	case events.KindCSINode:
		informer = storage.CSINodes().Informer()
	case events.KindCSIDriver:
		informer = storage.CSIDrivers().Informer()
	case events.KindStorageCapacity:
		informer = storage.CSIStorageCapacities().Informer()
	case events.KindVolumeAttachment:
		informer = storage.VolumeAttachments().Informer()
	case events.KindResourceClaim:
		if e.Old != nil || e.New != nil {
			u.deliverClaim(e)
		}
		return nil
	case events.KindResourceSlice:
		defer u.slices.deliverEvent(e)
		informer = u.listers.Resource().V1().ResourceSlices().Informer()
	case events.KindDeviceTaintRule:
		defer u.rules.deliverEvent(e)
		informer = u.listers.Resource().V1beta2().DeviceTaintRules().Informer()
	case events.KindDeviceClass:
		u.classes.deliverEvent(e)
		informer = u.listers.Resource().V1().DeviceClasses().Informer()
	default:
		return fmt.Errorf("no lister of kind %s", e.Kind)
	}
	switch {
	case e.New != nil:
		return informer.GetIndexer().Update(e.New)
	case e.Old != nil:
		return informer.GetIndexer().Delete(e.Old)
	default:
		return nil
	}
}

// deliverClaim stamps versions, by which upstream detects outdated events. A claim that is given other devices is first
// without any, as in a cluster: upstream does not compare with its previous devices.
func (u *upstreamState) deliverClaim(e placementtest.Event) {
	old, _ := e.Old.(*resourcev1.ResourceClaim)
	now, _ := e.New.(*resourcev1.ResourceClaim)
	if now == nil {
		u.claims.deliver(old, nil)
		return
	}
	if old != nil {
		between := old.DeepCopy()
		between.Status.Allocation = nil
		u.claims.deliver(old, u.versioned(between))
		u.claims.deliver(between, u.versioned(now.DeepCopy()))
		return
	}
	u.claims.deliver(nil, u.versioned(now.DeepCopy()))
}

func (u *upstreamState) versioned(c *resourcev1.ResourceClaim) *resourcev1.ResourceClaim {
	u.version++
	c.ResourceVersion = strconv.Itoa(u.version)
	return c
}

// refresh brings the snapshot up to date, as upstream does before every decision.
func (u *upstreamState) refresh(ctx context.Context) error {
	if err := u.cache.UpdateSnapshot(klog.FromContext(ctx), u.snapshot); err != nil {
		return err
	}
	return u.fixImages()
}
