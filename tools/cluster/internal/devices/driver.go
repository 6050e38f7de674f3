package devices

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"

	"github.com/berth-scheduler/berth/tools/cluster/internal/poll"
)

// Driver publishes the devices that nodes' annotations name.
type Driver struct {
	// Name is the driver's, in slices and before the slash of annotations.
	Name   string
	Client kubernetes.Interface
	Logger *slog.Logger
}

// Run publishes until ctx ends. It continues when the cluster cannot be reached.
func (d Driver) Run(ctx context.Context) { poll.Run(ctx, d.Logger, d.pass) }

// pass compares all nodes with all slices once. What one node lacks keeps no other from its devices.
func (d Driver) pass(ctx context.Context) error {
	nodes, err := d.Client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("list nodes: %w", err)
	}
	slices, err := d.Client.ResourceV1().ResourceSlices().List(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector(resourcev1.ResourceSliceSelectorDriver, d.Name).String(),
	})
	if err != nil {
		return fmt.Errorf("list resource slices: %w", err)
	}
	there := map[string]*resourcev1.ResourceSlice{}
	for i := range slices.Items {
		there[slices.Items[i].Name] = &slices.Items[i]
	}
	var failed error
	for i := range nodes.Items {
		node := &nodes.Items[i]
		wanted, err := d.slice(node)
		if err == nil {
			err = d.publish(ctx, wanted, there[wanted.Name])
		}
		failed = errors.Join(failed, err)
	}
	return failed
}

// slice describes the devices of a node, perhaps none.
func (d Driver) slice(node *corev1.Node) (*resourcev1.ResourceSlice, error) {
	devices, err := describe(d.Name, node)
	if err != nil {
		return nil, err
	}
	return &resourcev1.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{
			Name: node.Name + "-" + d.Name,
			// It is deleted with its node.
			OwnerReferences: []metav1.OwnerReference{
				{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID},
			},
		},
		Spec: resourcev1.ResourceSliceSpec{
			Driver: d.Name, NodeName: &node.Name, Devices: devices,
			Pool: resourcev1.ResourcePool{Name: node.Name, Generation: 1, ResourceSliceCount: 1},
		},
	}, nil
}

// publish replaces the existing slice, if any, by the wanted one. A pool that changes gets a new generation, so that
// readers never combine the devices of two generations.
func (d Driver) publish(ctx context.Context, wanted, there *resourcev1.ResourceSlice) error {
	client := d.Client.ResourceV1().ResourceSlices()
	var err error
	switch {
	case there == nil && len(wanted.Spec.Devices) == 0:
		return nil
	case there == nil:
		_, err = client.Create(ctx, wanted, metav1.CreateOptions{})
	case len(wanted.Spec.Devices) == 0 || there.OwnerReferences[0].UID != wanted.OwnerReferences[0].UID:
		err = client.Delete(ctx, there.Name, metav1.DeleteOptions{})
	case sameDevices(there.Spec.Devices, wanted.Spec.Devices):
		return nil
	default:
		changed := there.DeepCopy()
		changed.Spec.Devices = wanted.Spec.Devices
		changed.Spec.Pool.Generation++
		_, err = client.Update(ctx, changed, metav1.UpdateOptions{})
	}
	if err != nil {
		return fmt.Errorf("resource slice %s: %w", wanted.Name, err)
	}
	d.Logger.Info("published", "slice", wanted.Name, "devices", len(wanted.Spec.Devices))
	return nil
}

// sameDevices looks past what the API server adds: when a taint was set.
func sameDevices(there, wanted []resourcev1.Device) bool {
	if len(there) != len(wanted) {
		return false
	}
	for i := range there {
		device := there[i].DeepCopy()
		for t := range device.Taints {
			device.Taints[t].TimeAdded = nil
		}
		if !equality.Semantic.DeepEqual(*device, wanted[i]) {
			return false
		}
	}
	return true
}
