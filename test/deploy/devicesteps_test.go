//go:build e2e

package deploy_test

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// allocatesDevices: a pod's claim gets the device of the run's node, which takes its finalizer and its status; the
// pod is bound afterwards.
func (b *bench) allocatesDevices(r run) error {
	r.device("")
	r.uses()
	return r.see("device", "it is bound", placed)
}

// freesDevices: a claim has got its device, and the bind is refused. The place is taken back, and the device with it.
func (b *bench) freesDevices(r run) error {
	r.device("")
	r.noBinds()
	had := false
	freed := func(_ watch.Event, claim *resourcev1.ResourceClaim) bool {
		has := claim.Status.Allocation != nil
		had = had || has
		return had && !has
	}
	return r.watchClaims(r.uses, "the claim gives its device back", freed)
}

// makesClaims: a pod requests a resource that the run's device backs.
func (b *bench) makesClaims(r run) error {
	r.asks()
	return r.see("device", "it is bound", placed)
}

// deletesMadeClaims: as freesDevices, with a claim that was made for a resource: it is deleted.
func (b *bench) deletesMadeClaims(r run) error {
	r.noBinds()
	return r.watchClaims(r.asks, "the claim that was made goes", func(e watch.Event, _ *resourcev1.ResourceClaim) bool {
		return e.Type == watch.Deleted
	})
}

// watchClaims watches the ResourceClaims in the run's namespace, calls begin, and returns when is accepts a change. A
// poll could miss an allocation that the binder takes back within milliseconds.
func (r run) watchClaims(begin func(), what string, is func(watch.Event, *resourcev1.ResourceClaim) bool) error {
	r.Helper()
	ctx, cancel := context.WithTimeout(r.Context(), r.limit)
	defer cancel()
	changes, err := r.client.ResourceV1().ResourceClaims(r.ns).Watch(ctx, metav1.ListOptions{})
	r.must(err)
	defer changes.Stop()
	begin()
	last := "no claim"
	for e := range changes.ResultChan() {
		claim, ok := e.Object.(*resourcev1.ResourceClaim)
		if !ok {
			return fmt.Errorf("%s: the watch of claims ended: %v", what, e.Object)
		}
		if is(e, claim) {
			return nil
		}
		last = fmt.Sprintf("%s %s, with a device: %t", e.Type, claim.Name, claim.Status.Allocation != nil)
	}
	return fmt.Errorf("%s: not within %s; last seen: %s", what, r.limit, last)
}

// noBinds has the API server refuse all binds of the run.
func (r run) noBinds() {
	r.Helper()
	r.deny("pods/binding", "false", func(ctx context.Context) error {
		return r.client.CoreV1().Pods(r.ns).Bind(ctx, &corev1.Binding{
			ObjectMeta: metav1.ObjectMeta{Name: "nobody", Namespace: r.ns},
			Target:     corev1.ObjectReference{Kind: "Node", Name: r.node},
		}, metav1.CreateOptions{})
	})
}

// asks makes a pod that requests a resource, and the device that backs it.
func (r run) asks() {
	r.Helper()
	name := "example.com/" + r.ns
	r.device(name)
	r.pod("device", "100m", func(p *corev1.Pod) {
		one := resource.MustParse("1")
		container := &p.Spec.Containers[0]
		if container.Resources.Limits == nil {
			container.Resources.Limits = corev1.ResourceList{}
		}
		container.Resources.Requests[corev1.ResourceName(name)] = one
		container.Resources.Limits[corev1.ResourceName(name)] = one
	})
}

// uses makes a claim to the run's device and a pod that uses it.
func (r run) uses() {
	r.Helper()
	_, err := r.client.ResourceV1().ResourceClaims(r.ns).Create(r.Context(), &resourcev1.ResourceClaim{
		ObjectMeta: named("one"),
		Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{{
			Name: "one", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "class-" + r.ns},
		}}}},
	}, metav1.CreateOptions{})
	r.must(err)
	r.pod("device", "100m", func(p *corev1.Pod) {
		claim := "one"
		p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "device", ResourceClaimName: &claim}}
	})
}

// device makes the device of the run's node and its class, which backs an extended resource if one is named.
func (r run) device(forResource string) {
	r.Helper()
	ctx, driver := r.Context(), r.ns+".example.com"
	class := &resourcev1.DeviceClass{
		ObjectMeta: named("class-" + r.ns),
		Spec: resourcev1.DeviceClassSpec{Selectors: []resourcev1.DeviceSelector{{
			CEL: &resourcev1.CELDeviceSelector{Expression: `device.driver == "` + driver + `"`},
		}}},
	}
	if forResource != "" {
		class.Spec.ExtendedResourceName = &forResource
	}
	_, err := r.client.ResourceV1().DeviceClasses().Create(ctx, class, metav1.CreateOptions{})
	r.must(err)
	node := r.node
	_, err = r.client.ResourceV1().ResourceSlices().Create(ctx, &resourcev1.ResourceSlice{
		ObjectMeta: named("slice-" + r.ns),
		Spec: resourcev1.ResourceSliceSpec{
			Driver: driver, NodeName: &node,
			Pool:    resourcev1.ResourcePool{Name: r.ns, ResourceSliceCount: 1},
			Devices: []resourcev1.Device{{Name: "device"}},
		},
	}, metav1.CreateOptions{})
	r.must(err)
}
