package neighbours

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/berth-scheduler/berth/test/e2e/harness"
)

const (
	// lowClass and highClass are the priority classes of the scripts; low is the default of all pods.
	lowClass, highClass = "low", "high"
	// diskClass is the storage class whose volumes are made for the node that the scheduler selects.
	diskClass, diskDriver = "disk", "disk.example.com"
	// provisionerWithin bounds the start of the program that makes volumes.
	provisionerStops = 10 * time.Second
)

// workload is a Deployment, or a StatefulSet if its pods have volumes.
type workload struct {
	app      string
	replicas int
	cpu      string
	class    string
	disk     bool
}

func (w workload) template() corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": w.app}},
		Spec: corev1.PodSpec{
			PriorityClassName:             w.class,
			TerminationGracePeriodSeconds: ptr.To[int64](1),
			Containers: []corev1.Container{{
				Name: "app", Image: "example.com/app:1",
				Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
					corev1.ResourceCPU: resource.MustParse(w.cpu), corev1.ResourceMemory: resource.MustParse("64Mi"),
				}},
			}},
		},
	}
}

func (w workload) selector() *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{"app": w.app}}
}

// create creates the workload.
func (w workload) create(ctx context.Context, s *Scene) error {
	replicas := ptr.To(int32(w.replicas)) //nolint:gosec // a script has hundreds
	if !w.disk {
		_, err := s.Client.AppsV1().Deployments(namespace).Create(ctx, &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Name: w.app},
			Spec:       appsv1.DeploymentSpec{Replicas: replicas, Selector: w.selector(), Template: w.template()},
		}, metav1.CreateOptions{})
		return err
	}
	template := w.template()
	template.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}
	_, err := s.Client.AppsV1().StatefulSets(namespace).Create(ctx, &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: w.app},
		Spec: appsv1.StatefulSetSpec{
			Replicas: replicas, Selector: w.selector(), Template: template,
			PodManagementPolicy: appsv1.ParallelPodManagement,
			VolumeClaimTemplates: []corev1.PersistentVolumeClaim{{
				ObjectMeta: metav1.ObjectMeta{Name: "data"},
				Spec: corev1.PersistentVolumeClaimSpec{
					StorageClassName: ptr.To(diskClass), AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
					Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{
						corev1.ResourceStorage: resource.MustParse("1Gi"),
					}},
				},
			}},
		},
	}, metav1.CreateOptions{})
	return err
}

// scale sets the number of pods.
func (w workload) scale(ctx context.Context, s *Scene, replicas int) error {
	body := fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas)
	if w.disk {
		_, err := s.Client.AppsV1().StatefulSets(namespace).Patch(ctx, w.app, mergePatch, body, metav1.PatchOptions{})
		return err
	}
	_, err := s.Client.AppsV1().Deployments(namespace).Patch(ctx, w.app, mergePatch, body, metav1.PatchOptions{})
	return err
}

// budget lets so many pods of the workload be disrupted at once. Without a budget an autoscaler may take all of them.
func (w workload) budget(ctx context.Context, s *Scene, disrupted int) error {
	_, err := s.Client.PolicyV1().PodDisruptionBudgets(namespace).Create(ctx, &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: w.app},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MaxUnavailable: ptr.To(fromInt(disrupted)), Selector: w.selector(),
		},
	}, metav1.CreateOptions{})
	return err
}

// createClasses creates the classes of priority and of storage.
func createClasses(ctx context.Context, s *Scene) error {
	for _, class := range []*schedulingv1.PriorityClass{
		{ObjectMeta: metav1.ObjectMeta{Name: lowClass}, Value: 10, GlobalDefault: true},
		{ObjectMeta: metav1.ObjectMeta{Name: highClass}, Value: 1000},
	} {
		if _, err := s.Client.SchedulingV1().PriorityClasses().Create(ctx, class, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	_, err := s.Client.StorageV1().StorageClasses().Create(ctx, &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: diskClass}, Provisioner: diskDriver,
		VolumeBindingMode: ptr.To(storagev1.VolumeBindingWaitForFirstConsumer),
	}, metav1.CreateOptions{})
	return err
}

// startProvisioner starts what makes volumes for claims whose node was selected. Until then these wait.
func startProvisioner(s *Scene) error {
	p, err := harness.Start(s.Dir, "provision", s.Programs.Cluster,
		"provision", "--dir", s.Cluster.Dir, "--name", diskDriver)
	if err != nil {
		return err
	}
	s.AtEnd(func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, provisionerStops)
		defer cancel()
		return p.Stop(ctx)
	})
	return nil
}
