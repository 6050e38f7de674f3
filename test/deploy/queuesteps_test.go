//go:build e2e

package deploy_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourcev1 "k8s.io/api/resource/v1"
	resourcev1beta2 "k8s.io/api/resource/v1beta2"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/pkg/events/eventlog"
)

// queueSteps are the uses of each resource by a queue that starts.
func queueSteps() map[string]step {
	steps := map[string]step{"ready": {"the queue becomes ready", func(s *system, within time.Duration) error {
		queue := s.begin("queue", "queue-ready")
		defer queue.Kill()
		return s.within(within, "the queue is ready", queue.missing)
	}}, "gates": {"the queue knows which feature gates the API server has on", (*system).gatesAreRead}}
	for resource, create := range creators {
		steps[resource] = step{"facts of " + resource + " arrive", func(s *system, within time.Duration) error {
			return s.factsOf(create, within)
		}}
	}
	return steps
}

// gatesAreRead starts a queue and waits until its log says that it has read the feature gates.
func (s *system) gatesAreRead(within time.Duration) error {
	queue := s.begin("queue", fmt.Sprintf("queue-gates-%d", time.Now().UnixNano()))
	defer queue.Kill()
	return s.within(within, "feature gates are read", func(context.Context) (string, error) {
		log, err := os.ReadFile(queue.Log)
		if err != nil || strings.Contains(string(log), "feature gates of the API server were read") {
			return "", err
		}
		return "no line about them in the log", nil
	})
}

// factsOf creates an object, starts a queue, and creates another: facts of the first take a
// list, facts of the second a watch.
func (s *system) factsOf(create func(s *system, name string) (string, error), within time.Duration) error {
	ctx, cancel := context.WithTimeout(s.Context(), within)
	defer cancel()
	reader, done, err := s.factsFromNow(ctx)
	if err != nil {
		return err
	}
	defer done()
	listed, err := create(s, fmt.Sprintf("listed-%d", time.Now().UnixNano()))
	s.must(err)
	queue := s.begin("queue", "queue-facts")
	defer queue.Kill()
	if err := awaitFact(ctx, reader, listed); err != nil {
		return fmt.Errorf("what was there before the queue: %w", err)
	}
	watched, err := create(s, fmt.Sprintf("watched-%d", time.Now().UnixNano()))
	s.must(err)
	if err := awaitFact(ctx, reader, watched); err != nil {
		return fmt.Errorf("what came after it: %w", err)
	}
	return nil
}

// factsFromNow reads the facts that are still to come; done ends it.
func (s *system) factsFromNow(ctx context.Context) (reader eventlog.Reader, done func(), err error) {
	log, err := s.openLog("queue")
	if err != nil {
		return nil, nil, err
	}
	last, err := log.Last(ctx, eventlog.Facts)
	if err == nil {
		reader, err = log.Read(ctx, eventlog.Facts, last+1)
	}
	if err != nil {
		log.Close()
		return nil, nil, err
	}
	return reader, func() { reader.Close(); log.Close() }, nil
}

func awaitFact(ctx context.Context, reader eventlog.Reader, uid string) error {
	for {
		records, err := reader.Next(ctx)
		if err != nil {
			return err
		}
		for _, r := range records {
			if r.Header.Get(eventlog.HeaderUID) == uid {
				return nil
			}
		}
	}
}

// nodeless keeps pods of replicas out of the way.
var nodeless = map[string]string{"no-node": "has-this"}

func idle(app string) corev1.PodTemplateSpec {
	t := template(app, "1m")
	t.Spec.NodeSelector = nodeless
	return t
}

var onePod = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOncePod}

// creators make an object of each resource that the queue watches.
var creators = map[string]func(s *system, name string) (string, error){
	"pods": func(s *system, name string) (string, error) {
		o, err := s.client.CoreV1().Pods("default").Create(s.Context(),
			&corev1.Pod{ObjectMeta: named(name), Spec: idle(name).Spec}, metav1.CreateOptions{})
		return uid(o, err)
	},
	"nodes": func(s *system, name string) (string, error) {
		o, err := s.client.CoreV1().Nodes().Create(s.Context(),
			&corev1.Node{ObjectMeta: named(name)}, metav1.CreateOptions{})
		return uid(o, err)
	},
	"persistentvolumes": func(s *system, name string) (string, error) {
		o, err := s.client.CoreV1().PersistentVolumes().Create(s.Context(), &corev1.PersistentVolume{
			ObjectMeta: named(name),
			Spec: corev1.PersistentVolumeSpec{
				Capacity:               corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
				AccessModes:            onePod,
				PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/x"}},
			},
		}, metav1.CreateOptions{})
		return uid(o, err)
	},
	"persistentvolumeclaims": func(s *system, name string) (string, error) {
		o, err := s.client.CoreV1().PersistentVolumeClaims("default").Create(s.Context(), &corev1.PersistentVolumeClaim{
			ObjectMeta: named(name),
			Spec: corev1.PersistentVolumeClaimSpec{
				AccessModes: onePod,
				Resources: corev1.VolumeResourceRequirements{
					Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
				},
			},
		}, metav1.CreateOptions{})
		return uid(o, err)
	},
	"resourceclaims": func(s *system, name string) (string, error) {
		o, err := s.client.ResourceV1().ResourceClaims("default").Create(s.Context(), &resourcev1.ResourceClaim{
			ObjectMeta: named(name),
			Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{{
				Name: "any", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "none"},
			}}}},
		}, metav1.CreateOptions{})
		return uid(o, err)
	},
	"resourceslices": func(s *system, name string) (string, error) {
		all := true
		o, err := s.client.ResourceV1().ResourceSlices().Create(s.Context(), &resourcev1.ResourceSlice{
			ObjectMeta: named(name),
			Spec: resourcev1.ResourceSliceSpec{
				Driver: "none.example.com", AllNodes: &all,
				Pool:    resourcev1.ResourcePool{Name: name, ResourceSliceCount: 1},
				Devices: []resourcev1.Device{{Name: "device"}},
			},
		}, metav1.CreateOptions{})
		return uid(o, err)
	},
	"devicetaintrules": func(s *system, name string) (string, error) {
		o, err := s.client.ResourceV1beta2().DeviceTaintRules().Create(s.Context(), &resourcev1beta2.DeviceTaintRule{
			ObjectMeta: named(name),
			Spec: resourcev1beta2.DeviceTaintRuleSpec{
				DeviceSelector: &resourcev1beta2.DeviceTaintSelector{Driver: new("none.example.com")},
				Taint: resourcev1beta2.DeviceTaint{
					Key: "example.com/drain", Effect: resourcev1beta2.DeviceTaintEffectNoSchedule,
				},
			},
		}, metav1.CreateOptions{})
		return uid(o, err)
	},
	"podgroups": func(s *system, name string) (string, error) {
		o, err := s.client.SchedulingV1alpha2().PodGroups("default").Create(
			s.Context(), podGroup(name), metav1.CreateOptions{})
		return uid(o, err)
	},
	"deviceclasses": func(s *system, name string) (string, error) {
		o, err := s.client.ResourceV1().DeviceClasses().Create(s.Context(),
			&resourcev1.DeviceClass{ObjectMeta: named(name)}, metav1.CreateOptions{})
		return uid(o, err)
	},
	"storageclasses": func(s *system, name string) (string, error) {
		o, err := s.client.StorageV1().StorageClasses().Create(s.Context(),
			&storagev1.StorageClass{ObjectMeta: named(name), Provisioner: "example.com/disk"}, metav1.CreateOptions{})
		return uid(o, err)
	},
	"csinodes": func(s *system, name string) (string, error) {
		o, err := s.client.StorageV1().CSINodes().Create(s.Context(),
			&storagev1.CSINode{ObjectMeta: named(name)}, metav1.CreateOptions{})
		return uid(o, err)
	},
	"csidrivers": func(s *system, name string) (string, error) {
		o, err := s.client.StorageV1().CSIDrivers().Create(s.Context(),
			&storagev1.CSIDriver{ObjectMeta: named(name)}, metav1.CreateOptions{})
		return uid(o, err)
	},
	"csistoragecapacities": func(s *system, name string) (string, error) {
		o, err := s.client.StorageV1().CSIStorageCapacities("default").Create(s.Context(),
			&storagev1.CSIStorageCapacity{ObjectMeta: named(name), StorageClassName: "x"}, metav1.CreateOptions{})
		return uid(o, err)
	},
	"volumeattachments": func(s *system, name string) (string, error) {
		o, err := s.client.StorageV1().VolumeAttachments().Create(s.Context(), &storagev1.VolumeAttachment{
			ObjectMeta: named(name),
			Spec: storagev1.VolumeAttachmentSpec{
				Attacher: "example.com", NodeName: "n",
				Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &name},
			},
		}, metav1.CreateOptions{})
		return uid(o, err)
	},
	"namespaces": func(s *system, name string) (string, error) {
		o, err := s.client.CoreV1().Namespaces().Create(s.Context(),
			&corev1.Namespace{ObjectMeta: named(name)}, metav1.CreateOptions{})
		return uid(o, err)
	},
	"services": func(s *system, name string) (string, error) {
		o, err := s.client.CoreV1().Services("default").Create(s.Context(), &corev1.Service{
			ObjectMeta: named(name), Spec: corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone, Selector: nodeless},
		}, metav1.CreateOptions{})
		return uid(o, err)
	},
	"replicationcontrollers": func(s *system, name string) (string, error) {
		t := idle(name)
		o, err := s.client.CoreV1().ReplicationControllers("default").Create(s.Context(), &corev1.ReplicationController{
			ObjectMeta: named(name),
			Spec:       corev1.ReplicationControllerSpec{Replicas: ptr(0), Selector: t.Labels, Template: &t},
		}, metav1.CreateOptions{})
		return uid(o, err)
	},
	"replicasets": func(s *system, name string) (string, error) {
		o, err := s.client.AppsV1().ReplicaSets("default").Create(s.Context(), &appsv1.ReplicaSet{
			ObjectMeta: named(name),
			Spec:       appsv1.ReplicaSetSpec{Replicas: ptr(0), Selector: labels(name), Template: idle(name)},
		}, metav1.CreateOptions{})
		return uid(o, err)
	},
	"statefulsets": func(s *system, name string) (string, error) {
		o, err := s.client.AppsV1().StatefulSets("default").Create(s.Context(), &appsv1.StatefulSet{
			ObjectMeta: named(name),
			Spec: appsv1.StatefulSetSpec{
				Replicas: ptr(0), Selector: labels(name), Template: idle(name), ServiceName: name,
			},
		}, metav1.CreateOptions{})
		return uid(o, err)
	},
	"priorityclasses": func(s *system, name string) (string, error) {
		o, err := s.client.SchedulingV1().PriorityClasses().Create(s.Context(),
			&schedulingv1.PriorityClass{ObjectMeta: named(name), Value: 7}, metav1.CreateOptions{})
		return uid(o, err)
	},
	"poddisruptionbudgets": func(s *system, name string) (string, error) {
		o, err := s.client.PolicyV1().PodDisruptionBudgets("default").Create(s.Context(), &policyv1.PodDisruptionBudget{
			ObjectMeta: named(name), Spec: policyv1.PodDisruptionBudgetSpec{Selector: labels(name)},
		}, metav1.CreateOptions{})
		return uid(o, err)
	},
}

func named(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name} }

func uid(o metav1.Object, err error) (string, error) {
	if err != nil {
		return "", errors.Join(errors.New("create"), err)
	}
	return string(o.GetUID()), nil
}
