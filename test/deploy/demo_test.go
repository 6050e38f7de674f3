//go:build e2e

package deploy_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// sixtyNodes is the demo's cluster.
	sixtyNodes = "tools/cluster/examples/demo-nodes.yaml"
	// placedWithin bounds the wait for pods that have room.
	placedWithin = 90 * time.Second
	// scheduler is the name that the manifests' configuration serves.
	scheduler = "berth"
)

// TestDemoAsShipped does the demo's work with everything as the manifests of the ha variant
// say: three members of each store with TLS and rights, two queues, three shards, two
// binders, two deschedulers, each under its own service account.
func TestDemoAsShipped(t *testing.T) {
	s := newSystem(t, sixtyNodes)
	s.install("overlays/ha")
	s.certificates()
	s.startStores()
	members := s.startAll()
	t.Run("workloads are placed", func(t *testing.T) { s.workloads("demo") })
	t.Run("metrics are for those who may", func(t *testing.T) {
		for name, m := range members {
			_, status, err := m.get(t.Context(), "/metrics")
			if err != nil || status != 200 {
				t.Errorf("%s: prometheus gets %d, %v", name, status, err)
			}
			m.client = s.reader("")
			if _, status, err = m.get(t.Context(), "/metrics"); err != nil || status != 401 {
				t.Errorf("%s: somebody without a certificate gets %d, %v", name, status, err)
			}
			m.client = s.reader("prometheus")
		}
	})
	t.Run("any member may be lost", func(t *testing.T) { s.losses(t, members) })
	t.Run("nothing was refused", func(t *testing.T) { s.noRefusals(t, members) })
}

// workloads creates a Deployment, a StatefulSet and Jobs in a new namespace and waits until
// all their pods are bound.
func (s *system) workloads(ns string) { s.workloadsWhile(ns, func() {}) }

// workloadsWhile does something in the middle of it.
func (s *system) workloadsWhile(ns string, meanwhile func()) {
	s.Helper()
	const web, db, jobs, podsPerJob, some = 60, 9, 20, 3, 10
	s.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}})
	ctx, options := s.Context(), metav1.CreateOptions{}
	_, err := s.client.AppsV1().Deployments(ns).Create(ctx, &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec:       appsv1.DeploymentSpec{Replicas: ptr(web), Selector: labels("web"), Template: template("web", "500m")},
	}, options)
	s.no(err)
	_, err = s.client.AppsV1().StatefulSets(ns).Create(ctx, &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: "db"},
		Spec: appsv1.StatefulSetSpec{
			Replicas: ptr(db), Selector: labels("db"), Template: template("db", "1"), ServiceName: "db",
			PodManagementPolicy: appsv1.ParallelPodManagement,
		},
	}, options)
	s.no(err)
	s.bound(ns, some, placedWithin)
	meanwhile()
	for i := range jobs {
		job := &batchv1.Job{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("batch-%02d", i)},
			Spec: batchv1.JobSpec{
				Parallelism: ptr(podsPerJob), Completions: ptr(podsPerJob), Template: template("batch", "250m"),
			},
		}
		job.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
		_, err = s.client.BatchV1().Jobs(ns).Create(ctx, job, options)
		s.no(err)
	}
	s.bound(ns, web+db+jobs*podsPerJob, placedWithin)
}

// bound waits until that many pods of a namespace have a node.
func (s *system) bound(ns string, want int, within time.Duration) {
	s.Helper()
	s.eventually(within, fmt.Sprintf("%d pods of %s are bound", want, ns), func(ctx context.Context) (string, error) {
		pods, err := s.client.CoreV1().Pods(ns).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err.Error(), nil
		}
		n := 0
		for _, p := range pods.Items {
			if p.Spec.NodeName != "" {
				n++
			}
		}
		if n < want {
			return fmt.Sprintf("%d of %d", n, want), nil
		}
		return "", nil
	})
}

func ptr(n int32) *int32 { return &n }

func labels(app string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}
}

func template(app, cpu string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": app}},
		Spec: corev1.PodSpec{SchedulerName: scheduler, Containers: []corev1.Container{{
			Name: app, Image: "example.com/" + app + ":1",
			Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)},
			},
		}}},
	}
}
