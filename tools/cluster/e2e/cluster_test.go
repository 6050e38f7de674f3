//go:build cluster

package e2e

import (
	"context"
	"slices"
	"syscall"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/berth-scheduler/berth/tools/cluster/internal/process"
)

const lingering = "pod-delete.stage.kwok.x-k8s.io/delay"

// TestCluster covers the life of a cluster once: nodes become ready, controllers and kubelets do their work, and
// nothing is left at the end.
func TestCluster(t *testing.T) {
	d := newDriver(t)
	state, client := d.up("--nodes", "../examples/demo-nodes.yaml")
	if state.Cluster.Version != "v1.36.3" {
		t.Errorf("the API server calls itself %s, want v1.36.3", state.Cluster.Version)
	}
	d.state(d.run("status"))
	t.Run("nodes are ready", func(t *testing.T) { nodesAreReady(t, client, 60) })
	t.Run("a deployment runs", func(t *testing.T) { deploymentRuns(t, client) })
	t.Run("a job completes", func(t *testing.T) { jobCompletes(t, client) })
	t.Run("a deleted pod lingers as long as it asks for", func(t *testing.T) { podLingers(t, client) })
	t.Run("a pod without a node waits", func(t *testing.T) { podWaits(t, client) })
}

// TestPlainNodes checks that nodes without KWOK are schedulable at once.
func TestPlainNodes(t *testing.T) {
	d := newDriver(t)
	_, client := d.up("--kwok=false", "--nodes", "../examples/demo-nodes.yaml")
	nodesAreReady(t, client, 60)
	if again := d.run("nodes", "-f", "../examples/demo-nodes.yaml"); again != `{"created":0,"existing":60}`+"\n" {
		t.Errorf("a second creation reports %s", again)
	}
}

// TestNothingOutlivesTheSupervisor kills the supervisor, which then has no
// chance to stop anything.
func TestNothingOutlivesTheSupervisor(t *testing.T) {
	d := newDriver(t)
	state, _ := d.up("--controllers=none", "--kwok=false")
	if _, _, err := d.try("up", "--detach"); err == nil {
		t.Error("a second cluster came up in the same directory")
	}
	if err := syscall.Kill(state.SupervisorPID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := process.WaitGone(ctx, d.dir); err != nil {
		t.Error("processes survive their supervisor:", err)
	}
	if _, _, err := d.try("status"); err == nil {
		t.Error("status calls a dead cluster ready")
	}
}

// TestStores brings each store up twice in the same directory.
func TestStores(t *testing.T) {
	for _, name := range []string{"etcd", "nats"} {
		t.Run(name, func(t *testing.T) {
			d := newDriver(t)
			for range 2 {
				if state := d.state(d.run("store", name, "--detach")); len(state.URLs) != 1 {
					t.Errorf("the addresses are %q, want one", state.URLs)
				}
				d.run("down")
			}
		})
	}
}

func nodesAreReady(t *testing.T, client kubernetes.Interface, want int) {
	list, err := client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(list.Items) != want {
		t.Errorf("there are %d nodes, want %d", len(list.Items), want)
	}
	zones := map[string]int{}
	for _, node := range list.Items {
		ready := slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
			return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
		})
		if !ready || len(node.Spec.Taints) > 0 {
			t.Errorf("%s is not fit: ready %t, taints %v", node.Name, ready, node.Spec.Taints)
		}
		if cpu := node.Status.Allocatable.Cpu().String(); cpu != "8" {
			t.Errorf("%s has %s CPU allocatable, want 8", node.Name, cpu)
		}
		zones[node.Labels[corev1.LabelTopologyZone]]++
	}
	for zone, count := range zones {
		if count != want/3 {
			t.Errorf("zone %q has %d nodes, want %d", zone, count, want/3)
		}
	}
}

func template(name, node string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": name}},
		Spec: corev1.PodSpec{
			NodeName:   node,
			Containers: []corev1.Container{{Name: "main", Image: "example.com/none"}},
		},
	}
}

func deploymentRuns(t *testing.T, client kubernetes.Interface) {
	replicas := int32(10)
	deployment := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
			Template: template("web", "demo-0007"),
		},
	}
	api := client.AppsV1().Deployments("default")
	if _, err := api.Create(t.Context(), deployment, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "all replicas are available", func(ctx context.Context) (bool, error) {
		current, err := api.Get(ctx, "web", metav1.GetOptions{})
		return err == nil && current.Status.AvailableReplicas == replicas, err
	})
	if err := api.Delete(t.Context(), "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the garbage collector and the kubelets have removed them", func(ctx context.Context) (bool, error) {
		pods, err := client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{LabelSelector: "app=web"})
		return err == nil && len(pods.Items) == 0, err
	})
}

func jobCompletes(t *testing.T, client kubernetes.Interface) {
	pod := template("sum", "demo-0011")
	pod.Spec.RestartPolicy = corev1.RestartPolicyNever
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "sum"}, Spec: batchv1.JobSpec{Template: pod}}
	api := client.BatchV1().Jobs("default")
	if _, err := api.Create(t.Context(), job, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the job is complete", func(ctx context.Context) (bool, error) {
		current, err := api.Get(ctx, "sum", metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		return slices.ContainsFunc(current.Status.Conditions, func(c batchv1.JobCondition) bool {
			return c.Type == batchv1.JobComplete && c.Status == corev1.ConditionTrue
		}), nil
	})
}

func podLingers(t *testing.T, client kubernetes.Interface) {
	spec := template("slow", "demo-0013")
	pod := &corev1.Pod{ObjectMeta: spec.ObjectMeta, Spec: spec.Spec}
	pod.Name, pod.Annotations = "slow", map[string]string{lingering: "3s"}
	api := client.CoreV1().Pods("default")
	if _, err := api.Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the pod runs", func(ctx context.Context) (bool, error) {
		current, err := api.Get(ctx, "slow", metav1.GetOptions{})
		return err == nil && current.Status.Phase == corev1.PodRunning, err
	})
	began := time.Now()
	if err := api.Delete(t.Context(), "slow", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the pod is gone", func(ctx context.Context) (bool, error) {
		_, err := api.Get(ctx, "slow", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return true, nil
		}
		return false, err
	})
	if took := time.Since(began); took < 2500*time.Millisecond {
		t.Errorf("the pod was gone after %s, it asked for 3s", took)
	}
}

// podWaits makes sure that nothing in the cluster schedules.
func podWaits(t *testing.T, client kubernetes.Interface) {
	spec := template("waiting", "")
	pod := &corev1.Pod{ObjectMeta: spec.ObjectMeta, Spec: spec.Spec}
	pod.Name = "waiting"
	created, err := client.CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if created.Spec.NodeName != "" || created.Status.Phase != corev1.PodPending {
		t.Errorf("the pod is %s on %q, want Pending on none", created.Status.Phase, created.Spec.NodeName)
	}
}
