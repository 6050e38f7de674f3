package perf

import (
	"context"
	"fmt"
	"path"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/test/perf/bench"
	"github.com/berth-scheduler/berth/test/perf/perfconfig"
)

// createDevices publishes devices for the nodes that match, as a driver would. No kubelet prepares them: none runs the
// pods. The devices are upstream's (test/integration/scheduler_perf/dra.go resourceSlice).
func (s *stage) createDevices(ctx context.Context, op *perfconfig.Op) error {
	model, family, version := "A100", "GPU", "1.2.3"
	var devices []resourcev1.Device
	for i := range int64(op.Count) {
		devices = append(devices, resourcev1.Device{
			Name: fmt.Sprintf("instance-%d", i),
			Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{
				"model": {StringValue: &model}, "family": {StringValue: &family},
				"driverVersion": {VersionValue: &version}, "dra.example.com/numa": {IntValue: &i},
			},
			Capacity: map[resourcev1.QualifiedName]resourcev1.DeviceCapacity{"memory": {Value: resource.MustParse("1Gi")}},
		})
	}
	return bench.PublishDevices(ctx, s.client, op.DriverName, devices, func(node string) bool {
		match, err := path.Match(op.NodePattern, node)
		return err == nil && match
	})
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
