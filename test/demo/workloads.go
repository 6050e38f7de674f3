package main

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

const (
	namespace   = "demo"
	webReplicas = 60
	dbReplicas  = 9
	jobs        = 20
	podsPerJob  = 3
	// workloadPods is how many pods that makes.
	workloadPods = webReplicas + dbReplicas + jobs*podsPerJob
)

// pace makes simulated kubelets take a second to start a pod and five to run a Job's pod. By default they
// take no time, which no real kubelet does: their status updates would then take most of the API server's time
// while it creates and binds pods.
var pace = map[string]string{
	"pod-ready.stage.kwok.x-k8s.io/delay":    "1s",
	"pod-complete.stage.kwok.x-k8s.io/delay": "5s",
}

// createWorkloads creates everything.
func createWorkloads(ctx context.Context, client kubernetes.Interface) error {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	if _, err := client.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{}); err != nil {
		return err
	}
	if _, err := client.AppsV1().Deployments(namespace).Create(ctx, web(), metav1.CreateOptions{}); err != nil {
		return err
	}
	if _, err := client.AppsV1().StatefulSets(namespace).Create(ctx, database(), metav1.CreateOptions{}); err != nil {
		return err
	}
	for i := range jobs {
		if _, err := client.BatchV1().Jobs(namespace).Create(ctx, job(i), metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	return nil
}

func template(app, cpu, memory string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": app}, Annotations: pace},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name:  app,
			Image: "example.com/" + app + ":1",
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
				corev1.ResourceCPU:    resource.MustParse(cpu),
				corev1.ResourceMemory: resource.MustParse(memory),
			}},
		}}},
	}
}

func selector(app string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}
}

func web() *appsv1.Deployment {
	replicas := int32(webReplicas)
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Selector: selector("web"), Template: template("web", "500m", "1Gi"),
		},
	}
}

// database prefers zone-a, so that the account shows a preference at work.
func database() *appsv1.StatefulSet {
	replicas := int32(dbReplicas)
	t := template("db", "1", "4Gi")
	t.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{
			Weight: 100,
			Preference: corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{
				Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: []string{"zone-a"},
			}}},
		}},
	}}
	return &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: "db"},
		Spec: appsv1.StatefulSetSpec{
			Replicas: &replicas, Selector: selector("db"), Template: t, ServiceName: "db",
			PodManagementPolicy: appsv1.ParallelPodManagement,
		},
	}
}

func job(i int) *batchv1.Job {
	n := int32(podsPerJob)
	t := template("batch", "250m", "512Mi")
	t.Spec.RestartPolicy = corev1.RestartPolicyNever
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("batch-%02d", i)},
		Spec:       batchv1.JobSpec{Parallelism: &n, Completions: &n, Template: t},
	}
}
