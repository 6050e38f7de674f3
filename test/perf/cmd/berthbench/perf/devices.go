package perf

import (
	"context"
	"fmt"
	"path"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/test/perf/perfconfig"
)

// createDevices publishes devices for nodes, as a driver would. Nobody prepares them: nobody runs the pods.
// What a device says of itself is upstream's (test/integration/scheduler_perf/dra.go resourceSlice).
func (s *stage) createDevices(ctx context.Context, op *perfconfig.Op) error {
	nodes, err := s.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(makers)
	for i := range nodes.Items {
		name := nodes.Items[i].Name
		if match, err := path.Match(op.NodePattern, name); err != nil || !match {
			continue
		}
		group.Go(func() error {
			_, err := s.client.ResourceV1().ResourceSlices().Create(ctx, deviceSlice(op, name), metav1.CreateOptions{})
			return err
		})
	}
	return group.Wait()
}

func deviceSlice(op *perfconfig.Op, node string) *resourcev1.ResourceSlice {
	slice := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: node}, Spec: resourcev1.ResourceSliceSpec{
		Driver: op.DriverName, NodeName: &node, Pool: resourcev1.ResourcePool{Name: node, ResourceSliceCount: 1},
	}}
	model, family, version := "A100", "GPU", "1.2.3"
	for i := range int64(op.Count) {
		slice.Spec.Devices = append(slice.Spec.Devices, resourcev1.Device{
			Name: fmt.Sprintf("instance-%d", i),
			Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{
				"model": {StringValue: &model}, "family": {StringValue: &family},
				"driverVersion": {VersionValue: &version}, "dra.example.com/numa": {IntValue: &i},
			},
			Capacity: map[resourcev1.QualifiedName]resourcev1.DeviceCapacity{"memory": {Value: resource.MustParse("1Gi")}},
		})
	}
	return slice
}

// auditDevices checks that no device is in two claims, and that pods which are bound have their claims'.
func (s *stage) auditDevices(ctx context.Context, pods []corev1.Pod) error {
	claims, err := s.client.ResourceV1().ResourceClaims(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	owners, users := map[string]string{}, map[string]int{}
	for i := range claims.Items {
		c := &claims.Items[i]
		if c.Status.Allocation == nil {
			continue
		}
		for _, r := range c.Status.Allocation.Devices.Results {
			device := r.Driver + "/" + r.Pool + "/" + r.Device
			if other, taken := owners[device]; taken {
				return fmt.Errorf("audit: device %s is in claims %s and %s", device, other, c.Name)
			}
			owners[device] = c.Name
		}
		for _, u := range c.Status.ReservedFor {
			users[string(u.UID)]++
		}
	}
	for i := range pods {
		p := &pods[i]
		if p.Spec.NodeName != "" && users[string(p.UID)] < len(p.Spec.ResourceClaims) {
			return fmt.Errorf("audit: pod %s/%s is bound and has devices for %d of its %d claims",
				p.Namespace, p.Name, users[string(p.UID)], len(p.Spec.ResourceClaims))
		}
	}
	return nil
}
