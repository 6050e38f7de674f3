package draduel

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"github.com/berth-scheduler/berth/test/e2e/harness"
	"github.com/berth-scheduler/berth/test/perf/bench"
)

const (
	namespace    = "draduel"
	deviceDriver = "gpu.example.com"
	class        = "gpu"
	template     = "one-gpu"
	storageClass = "by-hand"
	// deletions is how many pods are deleted at a time.
	deletions = 16
)

var schedulers = []string{"first", "second"}

// nodeFile describes the nodes to the cluster's driver.
func (o options) nodeFile() string {
	return fmt.Sprintf("groups:\n- namePrefix: node-\n  count: %d\n"+
		"  capacity: {cpu: 64, memory: 256Gi, pods: 110}\n", o.nodes)
}

// createObjects makes devices, classes, volumes and claims.
func (o options) createObjects(ctx context.Context, client kubernetes.Interface) error {
	_, err := client.ResourceV1().DeviceClasses().Create(ctx, &resourcev1.DeviceClass{
		ObjectMeta: metav1.ObjectMeta{Name: class},
		Spec: resourcev1.DeviceClassSpec{Selectors: []resourcev1.DeviceSelector{{
			CEL: &resourcev1.CELDeviceSelector{Expression: `device.driver == "` + deviceDriver + `"`},
		}}},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	_, err = client.ResourceV1().ResourceClaimTemplates(namespace).Create(ctx, &resourcev1.ResourceClaimTemplate{
		ObjectMeta: metav1.ObjectMeta{Name: template},
		Spec: resourcev1.ResourceClaimTemplateSpec{Spec: resourcev1.ResourceClaimSpec{
			Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{{
				Name: "gpu", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: class},
			}}},
		}},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	_, err = client.StorageV1().StorageClasses().Create(ctx, &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: storageClass}, Provisioner: "kubernetes.io/no-provisioner",
		VolumeBindingMode: ptr.To(storagev1.VolumeBindingImmediate),
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	if err := o.publish(ctx, client); err != nil {
		return err
	}
	return o.claims(ctx, client)
}

// publish gives every node its devices.
func (o options) publish(ctx context.Context, client kubernetes.Interface) error {
	var devices []resourcev1.Device
	for d := range o.devices {
		devices = append(devices, resourcev1.Device{Name: fmt.Sprintf("gpu-%d", d)})
	}
	return bench.PublishDevices(ctx, client, deviceDriver, devices, func(string) bool { return true })
}

func exclusiveName(i int) string { return fmt.Sprintf("one-%03d", i) }

// claims makes the claims that are for one pod, each with its volume, and waits until they are bound.
func (o options) claims(ctx context.Context, client kubernetes.Interface) error {
	size := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	modes := []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOncePod}
	for i := range o.exclusive {
		name := exclusiveName(i)
		_, err := client.CoreV1().PersistentVolumes().Create(ctx, &corev1.PersistentVolume{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: corev1.PersistentVolumeSpec{
				Capacity: size, AccessModes: modes, StorageClassName: storageClass,
				ClaimRef: &corev1.ObjectReference{Namespace: namespace, Name: name},
				PersistentVolumeSource: corev1.PersistentVolumeSource{
					CSI: &corev1.CSIPersistentVolumeSource{Driver: "disk.example.com", VolumeHandle: name},
				},
			},
		}, metav1.CreateOptions{})
		if err != nil {
			return err
		}
		_, err = client.CoreV1().PersistentVolumeClaims(namespace).Create(ctx, &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: corev1.PersistentVolumeClaimSpec{
				StorageClassName: ptr.To(storageClass), AccessModes: modes,
				Resources: corev1.VolumeResourceRequirements{Requests: size},
			},
		}, metav1.CreateOptions{})
		if err != nil {
			return err
		}
	}
	return harness.Eventually(ctx, o.limit, "claims have volumes", func(ctx context.Context) (string, error) {
		list, err := client.CoreV1().PersistentVolumeClaims(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return "", err
		}
		for i := range list.Items {
			if c := &list.Items[i]; c.Status.Phase != corev1.ClaimBound {
				return c.Name + " is " + string(c.Status.Phase), nil
			}
		}
		return "", nil
	})
}

// load is all pods: those that want devices, and among them the rivals for claims that are for one.
func (o options) load() []*corev1.Pod {
	var pods []*corev1.Pod
	for i := range o.pods() {
		p := pod(fmt.Sprintf("gpu-%05d", i), schedulers[i%len(schedulers)])
		p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimTemplateName: ptr.To(template)}}
		pods = append(pods, p)
		// Rivals come one after the other, so that both schedulers see them at about the same time.
		if i >= o.exclusive {
			continue
		}
		for r := range o.rivals {
			rival := pod(fmt.Sprintf("%s-%d", exclusiveName(i), r), schedulers[r%len(schedulers)])
			rival.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: exclusiveName(i)},
			}}}
			pods = append(pods, rival)
		}
	}
	return pods
}

func pod(name, scheduler string) *corev1.Pod {
	p := bench.Pod(namespace, name, "100m", "")
	p.Spec.SchedulerName, p.Spec.TerminationGracePeriodSeconds = scheduler, ptr.To(int64(0))
	return p
}
