package provisioner

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// AnnotationLimit, after the provisioner's name and a slash, is how many volumes of its can be
	// attached to a node, as in "2".
	AnnotationLimit = "limit"
	// AnnotationCapacity, after the provisioner's name and a slash, is how much it can make on a
	// node, as in "10Gi". What it has made there is taken off.
	AnnotationCapacity = "capacity"
	// capacityNamespace is where capacities lie.
	capacityNamespace = metav1.NamespaceSystem
)

// view holds the objects that one pass has read.
type view struct {
	// classes are those that name the provisioner, by their name.
	classes map[string]*storagev1.StorageClass
	nodes   []corev1.Node
	volumes []corev1.PersistentVolume
}

// hostname returns a node's label of its host name, which need not be its name; its name if it has none.
func (v view) hostname(node string) string {
	for i := range v.nodes {
		if n := &v.nodes[i]; n.Name == node && n.Labels[corev1.LabelHostname] != "" {
			return n.Labels[corev1.LabelHostname]
		}
	}
	return node
}

// publish says of each node what its annotations say.
func (p Provisioner) publish(ctx context.Context, v view) error {
	var failed error
	for i := range v.nodes {
		node := &v.nodes[i]
		failed = errors.Join(failed, p.limit(ctx, node), p.capacities(ctx, v, node))
	}
	return failed
}

// limit publishes a CSINode.
func (p Provisioner) limit(ctx context.Context, node *corev1.Node) error {
	text := node.Annotations[p.Name+"/"+AnnotationLimit]
	if text == "" {
		return nil
	}
	count, err := strconv.ParseInt(text, 10, 32)
	if err != nil || count < 0 {
		return fmt.Errorf("node %s: annotation %s/%s: %q: want a number from 0 to %d",
			node.Name, p.Name, AnnotationLimit, text, math.MaxInt32)
	}
	limit := int32(count)
	mine := storagev1.CSINodeDriver{
		Name: p.Name, NodeID: node.Name, TopologyKeys: []string{corev1.LabelHostname},
		Allocatable: &storagev1.VolumeNodeResources{Count: &limit},
	}
	client := p.Client.StorageV1().CSINodes()
	there, err := client.Get(ctx, node.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		_, err = client.Create(ctx, &storagev1.CSINode{
			ObjectMeta: metav1.ObjectMeta{Name: node.Name, OwnerReferences: owned(node)},
			Spec:       storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{mine}},
		}, metav1.CreateOptions{})
		return err
	}
	if err != nil {
		return err
	}
	others := slices.DeleteFunc(slices.Clone(there.Spec.Drivers), func(d storagev1.CSINodeDriver) bool {
		return d.Name == p.Name
	})
	wanted := append(others, mine)
	if equality.Semantic.DeepEqual(there.Spec.Drivers, wanted) {
		return nil
	}
	there.Spec.Drivers = wanted
	_, err = client.Update(ctx, there, metav1.UpdateOptions{})
	return err
}

// owned lets an object go with its node.
func owned(node *corev1.Node) []metav1.OwnerReference {
	return []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID}}
}

// capacities publishes the remaining capacity of a node, for each class.
func (p Provisioner) capacities(ctx context.Context, v view, node *corev1.Node) error {
	text := node.Annotations[p.Name+"/"+AnnotationCapacity]
	if text == "" {
		return nil
	}
	left, err := resource.ParseQuantity(text)
	if err != nil {
		return fmt.Errorf("node %s: annotation %s/%s: %q: %w", node.Name, p.Name, AnnotationCapacity, text, err)
	}
	for i := range v.volumes {
		if volume := &v.volumes[i]; p.made(volume) && volume.Annotations[madeFor] == node.Name {
			left.Sub(volume.Spec.Capacity[corev1.ResourceStorage])
		}
	}
	if left.Sign() < 0 {
		left = resource.Quantity{}
	}
	var failed error
	for name := range v.classes {
		failed = errors.Join(failed, p.capacity(ctx, node, name, left))
	}
	return failed
}

// capacity publishes one CSIStorageCapacity.
func (p Provisioner) capacity(ctx context.Context, node *corev1.Node, class string, left resource.Quantity) error {
	client := p.Client.StorageV1().CSIStorageCapacities(capacityNamespace)
	name := class + "-" + node.Name
	there, err := client.Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		_, err = client.Create(ctx, &storagev1.CSIStorageCapacity{
			ObjectMeta:       metav1.ObjectMeta{Name: name, OwnerReferences: owned(node)},
			StorageClassName: class, Capacity: &left,
			NodeTopology: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelHostname: node.Name}},
		}, metav1.CreateOptions{})
		return err
	}
	if err != nil || there.Capacity != nil && there.Capacity.Cmp(left) == 0 {
		return err
	}
	there.Capacity = &left
	_, err = client.Update(ctx, there, metav1.UpdateOptions{})
	return err
}

// made reports whether the provisioner has made a volume.
func (p Provisioner) made(volume *corev1.PersistentVolume) bool {
	return volume.Annotations[provisionedBy] == p.Name
}

// reclaim deletes volumes whose claims were deleted, if their classes demand that.
func (p Provisioner) reclaim(ctx context.Context, v view) error {
	var failed error
	for i := range v.volumes {
		volume := &v.volumes[i]
		if !p.made(volume) || volume.Status.Phase != corev1.VolumeReleased || volume.DeletionTimestamp != nil ||
			volume.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimDelete {
			continue
		}
		err := p.Client.CoreV1().PersistentVolumes().Delete(ctx, volume.Name, metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			failed = errors.Join(failed, err)
		}
	}
	return failed
}
