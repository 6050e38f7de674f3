package provisioner

import (
	"log/slog"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/utils/ptr"
)

const name = "disk.example.com"

func node(annotations map[string]string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "n-uid", Annotations: annotations}}
}

// A node's limit and the rest of its capacity are published; a claim for which the node was selected reduces the
// rest, and restores it when the claim is deleted.
func TestCapacityOfNodesIsPublished(t *testing.T) {
	class := &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: "disk"}, Provisioner: name,
		VolumeBindingMode: ptr.To(storagev1.VolumeBindingWaitForFirstConsumer),
	}
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: "c", UID: "c-uid", Annotations: map[string]string{selectedNode: "n"},
		},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: ptr.To("disk"),
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("4Gi")},
			},
		},
	}
	client := fake.NewClientset(class, claim, node(map[string]string{name + "/limit": "2", name + "/capacity": "10Gi"}))
	p := Provisioner{Name: name, Client: client, Logger: slog.New(slog.DiscardHandler)}
	left := func() string {
		t.Helper()
		if err := p.pass(t.Context()); err != nil {
			t.Fatal(err)
		}
		c, err := client.StorageV1().CSIStorageCapacities(capacityNamespace).Get(t.Context(), "disk-n", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return c.Capacity.String()
	}
	if got := left(); got != "10Gi" {
		t.Errorf("capacity %s, want 10Gi", got)
	}
	csi, err := client.StorageV1().CSINodes().Get(t.Context(), "n", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(csi.Spec.Drivers) != 1 || *csi.Spec.Drivers[0].Allocatable.Count != 2 {
		t.Errorf("drivers %+v, want one with two volumes", csi.Spec.Drivers)
	}
	if got := left(); got != "6Gi" {
		t.Errorf("capacity %s once a volume was made, want 6Gi", got)
	}
	volumes := client.CoreV1().PersistentVolumes()
	made, err := volumes.Get(t.Context(), "pvc-c-uid", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	claims := client.CoreV1().PersistentVolumeClaims("default")
	if err := claims.Delete(t.Context(), "c", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	made.Status.Phase = corev1.VolumeReleased
	if _, err := volumes.UpdateStatus(t.Context(), made, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	left()
	if got := left(); got != "10Gi" {
		t.Errorf("capacity %s once the volume has gone, want 10Gi", got)
	}
}

func TestAnnotationsThatMakeNoSense(t *testing.T) {
	p := Provisioner{Name: name, Client: fake.NewClientset(), Logger: slog.New(slog.DiscardHandler)}
	for annotation, text := range map[string]string{"limit": "many", "capacity": "10 gigabytes"} {
		v := view{nodes: []corev1.Node{*node(map[string]string{name + "/" + annotation: text})}}
		err := p.publish(t.Context(), v)
		if err == nil || !strings.Contains(err.Error(), name+"/"+annotation) || !strings.Contains(err.Error(), text) {
			t.Errorf("%s: %q: got %v, want an error that names both", annotation, text, err)
		}
	}
}
