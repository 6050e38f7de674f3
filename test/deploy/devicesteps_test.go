//go:build e2e

package deploy_test

import (
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// allocatesDevices: a pod's claim gets the device of the run's node, which takes reading the claim, its
// finalizer, and its status; the pod is bound afterwards.
func (b *bench) allocatesDevices(r run) error {
	ctx, driver := r.Context(), r.ns+".example.com"
	_, err := r.client.ResourceV1().DeviceClasses().Create(ctx, &resourcev1.DeviceClass{
		ObjectMeta: named("class-" + r.ns),
		Spec: resourcev1.DeviceClassSpec{Selectors: []resourcev1.DeviceSelector{{
			CEL: &resourcev1.CELDeviceSelector{Expression: `device.driver == "` + driver + `"`},
		}}},
	}, metav1.CreateOptions{})
	r.no(err)
	node := r.node
	_, err = r.client.ResourceV1().ResourceSlices().Create(ctx, &resourcev1.ResourceSlice{
		ObjectMeta: named("slice-" + r.ns),
		Spec: resourcev1.ResourceSliceSpec{
			Driver: driver, NodeName: &node,
			Pool:    resourcev1.ResourcePool{Name: r.ns, ResourceSliceCount: 1},
			Devices: []resourcev1.Device{{Name: "device"}},
		},
	}, metav1.CreateOptions{})
	r.no(err)
	_, err = r.client.ResourceV1().ResourceClaims(r.ns).Create(ctx, &resourcev1.ResourceClaim{
		ObjectMeta: named("one"),
		Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{{
			Name: "one", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "class-" + r.ns},
		}}}},
	}, metav1.CreateOptions{})
	r.no(err)
	r.pod("device", "100m", func(p *corev1.Pod) {
		claim := "one"
		p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "device", ResourceClaimName: &claim}}
	})
	return r.see("device", "it is bound", placed)
}
