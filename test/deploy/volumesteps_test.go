//go:build e2e

package deploy_test

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// claim makes a claim of a class whose volumes are bound with the pod.
func (r run) claim(provisioner string) string {
	r.Helper()
	class, wait := "class-"+r.ns, storagev1.VolumeBindingWaitForFirstConsumer
	_, err := r.client.StorageV1().StorageClasses().Create(r.Context(), &storagev1.StorageClass{
		ObjectMeta: named(class), Provisioner: provisioner, VolumeBindingMode: &wait,
	}, metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) {
		r.must(err)
	}
	_, err = r.client.CoreV1().PersistentVolumeClaims(r.ns).Create(r.Context(), &corev1.PersistentVolumeClaim{
		ObjectMeta: named("data"),
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: &class, AccessModes: onePod, Resources: corev1.VolumeResourceRequirements{Requests: gibibyte},
		},
	}, metav1.CreateOptions{})
	r.must(err)
	return class
}

var gibibyte = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}

func withData(p *corev1.Pod) {
	p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "data", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"},
	}})
}

// bindsVolumes: the claim gets a volume that there is.
func (b *bench) bindsVolumes(r run) error {
	class := r.claim("kubernetes.io/no-provisioner")
	_, err := r.client.CoreV1().PersistentVolumes().Create(r.Context(), &corev1.PersistentVolume{
		ObjectMeta: named("volume-" + r.ns),
		Spec: corev1.PersistentVolumeSpec{
			Capacity: gibibyte, AccessModes: onePod, StorageClassName: class,
			PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/x"}},
		},
	}, metav1.CreateOptions{})
	r.must(err)
	r.pod("stateful", "100m", withData)
	return r.see("stateful", "it is bound", placed)
}

// selectsNodes: no provisioner makes the volume, but it is requested.
func (b *bench) selectsNodes(r run) error {
	r.claim("disk.example.com")
	r.pod("stateful", "100m", withData)
	return r.within(r.limit, "a node is selected", func(ctx context.Context) (string, error) {
		claim, err := r.client.CoreV1().PersistentVolumeClaims(r.ns).Get(ctx, "data", metav1.GetOptions{})
		if err != nil {
			return "", err
		}
		if claim.Annotations["volume.kubernetes.io/selected-node"] != r.node {
			return fmt.Sprint(claim.Annotations), nil
		}
		return "", nil
	})
}
