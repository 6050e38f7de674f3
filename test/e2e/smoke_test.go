//go:build e2e

package e2e_test

import (
	"context"
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/test/e2e/harness"
)

// sixtyNodes is the node file of the demonstration: 60 nodes of 8 CPU in three zones.
const sixtyNodes = "tools/cluster/examples/demo-nodes.yaml"

// A Deployment, a StatefulSet and a batch of Jobs on 60 nodes: every pod runs, each was placed
// once, and nothing is overcommitted.
func TestSmoke(t *testing.T) {
	t.Parallel()
	s := newStack(t, sixtyNodes)
	s.up(harness.UpConfig{Shards: 2, Binders: 2})
	ns := s.namespace("smoke")
	const web, db, jobs, podsPerJob = 60, 6, 10, 3
	s.deployment(ns, "web", web)
	s.statefulSet(ns, "db", db)
	for i := range jobs {
		s.job(ns, fmt.Sprintf("job-%d", i), podsPerJob)
	}

	s.eventually(placedWithin, "the workloads report their pods", func(ctx context.Context) (string, error) {
		return s.workloadsMissing(ctx, ns, web, db, jobs)
	})
	pods := s.pods(ns)
	if want := web + db + jobs*podsPerJob; len(pods) != want {
		t.Errorf("%d pods, want %d", len(pods), want)
	}
	for i := range pods {
		if c := conditionOf(&pods[i]); c.Status != corev1.ConditionTrue {
			t.Errorf("pod %s: PodScheduled is %s", pods[i].Name, c.Status)
		}
	}
	s.boundOnce(ns)
	s.audit()
}

func (s *stack) workloadsMissing(ctx context.Context, ns string, web, db, jobs int32) (string, error) {
	deployment, err := s.client.AppsV1().Deployments(ns).Get(ctx, "web", metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	set, err := s.client.AppsV1().StatefulSets(ns).Get(ctx, "db", metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	list, err := s.client.BatchV1().Jobs(ns).List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", err
	}
	var done int32
	for _, job := range list.Items {
		if job.Status.CompletionTime != nil {
			done++
		}
	}
	if deployment.Status.ReadyReplicas == web && set.Status.ReadyReplicas == db && done == jobs {
		return "", nil
	}
	return fmt.Sprintf("web %d of %d ready, db %d of %d, jobs %d of %d complete",
		deployment.Status.ReadyReplicas, web, set.Status.ReadyReplicas, db, done, jobs), nil
}

func template(app, cpu string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": app}}, Spec: podSpec(cpu),
	}
}

func labelled(app string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}
}

func (s *stack) deployment(ns, name string, replicas int32) {
	s.Helper()
	_, err := s.client.AppsV1().Deployments(ns).Create(s.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Selector: labelled(name), Template: template(name, "500m"),
		},
	}, metav1.CreateOptions{})
	s.must(err)
}

func (s *stack) statefulSet(ns, name string, replicas int32) {
	s.Helper()
	_, err := s.client.AppsV1().StatefulSets(ns).Create(s.Context(), &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.StatefulSetSpec{
			Replicas: &replicas, Selector: labelled(name), Template: template(name, "1"), ServiceName: name,
		},
	}, metav1.CreateOptions{})
	s.must(err)
}

func (s *stack) job(ns, name string, pods int32) {
	s.Helper()
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       batchv1.JobSpec{Parallelism: &pods, Completions: &pods, Template: template(name, "250m")},
	}
	job.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
	_, err := s.client.BatchV1().Jobs(ns).Create(s.Context(), job, metav1.CreateOptions{})
	s.must(err)
}
