//go:build cluster

package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

const schedulerConfig = `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection:
  qps: 500
  burst: 500
`

const deschedulerPolicy = `apiVersion: descheduler/v1alpha2
kind: DeschedulerPolicy
profiles:
- name: cordoned
  pluginConfig:
  - name: DefaultEvictor
    args:
      minReplicas: 1
  - name: RemovePodsViolatingNodeAffinity
    args:
      nodeAffinityType: [requiredDuringSchedulingIgnoredDuringExecution]
  plugins:
    deschedule:
      enabled: [RemovePodsViolatingNodeAffinity]
`

// TestPeers has kube-scheduler place 100 pods, with and without a
// configuration file, and the descheduler make one pass over them.
func TestPeers(t *testing.T) {
	d := newDriver(t)
	_, client := d.up("--nodes", "../examples/demo-nodes.yaml")
	files := t.TempDir()
	config, policy := filepath.Join(files, "scheduler.yaml"), filepath.Join(files, "policy.yaml")
	for path, content := range map[string]string{config: schedulerConfig, policy: deschedulerPolicy} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	d.state(d.run("peer", "kube-scheduler", "--detach", "--config", config))
	hundredPodsRun(t, client, "configured")
	d.run("peer", "descheduler", "--policy", policy, "--v", "2")
	peer := driver{t: t, path: d.path, dir: filepath.Join(d.dir, "peers", "kube-scheduler")}
	peer.run("down")
	d.state(d.run("peer", "kube-scheduler", "--detach"))
	hundredPodsRun(t, client, "default")
}

func hundredPodsRun(t *testing.T, client kubernetes.Interface, name string) {
	t.Helper()
	for i := range 100 {
		spec := template(name, "")
		pod := &corev1.Pod{ObjectMeta: spec.ObjectMeta, Spec: spec.Spec}
		pod.Name = fmt.Sprintf("%s-%d", name, i)
		if _, err := client.CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "100 pods run", func(ctx context.Context) (bool, error) {
		pods, err := client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{LabelSelector: "app=" + name})
		if err != nil {
			return false, err
		}
		running := 0
		for _, pod := range pods.Items {
			if pod.Status.Phase == corev1.PodRunning {
				running++
			}
		}
		return running == 100, nil
	})
}
