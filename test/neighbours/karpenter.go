package neighbours

import (
	"context"
	"fmt"
	"net"
	"path/filepath"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berth-scheduler/berth/test/e2e/harness"
)

const (
	karpenterModule = "sigs.k8s.io/karpenter"
	karpenterPins   = "tools/neighbours/karpenter"
)

// karpenter is Karpenter with its provider for simulated nodes.
func karpenter() Neighbour {
	const name = "karpenter"
	return Neighbour{
		Name:      name,
		Version:   "Karpenter 1.14.1 (`" + karpenterModule + "`) with its provider `kwok`",
		Programs:  []string{name},
		Scenarios: autoscaler{start: startKarpenter}.scenarios(unmetByAutoscalers),
	}
}

// instanceTypes is the only type of nodes: the provider takes 100m of its CPU and 10Mi of its memory away.
var instanceTypes = fmt.Sprintf(`[{
  "name": "elastic-%d", "architecture": "amd64", "operatingSystems": ["linux"],
  "resources": {"cpu": "%d100m", "memory": "32778Mi", "pods": "110"},
  "offerings": [{"Price": 1, "Available": true, "Requirements": [
    {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
    {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["zone-a"]}
  ]}]
}]`, nodeCPU, nodeCPU)

// nodePool is the elastic pool.
var nodePool = fmt.Sprintf(`apiVersion: karpenter.kwok.sh/v1alpha1
kind: KWOKNodeClass
metadata:
  name: default
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata:
  name: elastic
spec:
  template:
    metadata:
      labels: {%s: %s}
    spec:
      requirements:
      - {key: kubernetes.io/arch, operator: In, values: [amd64]}
      - {key: kubernetes.io/os, operator: In, values: [linux]}
      - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
      nodeClassRef: {group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}
      expireAfter: Never
  limits: {cpu: "%d"}
  disruption:
    consolidationPolicy: WhenEmptyOrUnderutilized
    consolidateAfter: %s
    budgets:
    - nodes: "100%%"
`, poolLabel, elastic, mostNodes*(nodeCPU+1), unneeded)

// startKarpenter starts it with the elastic pool as its only pool.
func startKarpenter(ctx context.Context, s *Scene) error {
	apply, err := s.Applier()
	if err != nil {
		return err
	}
	dir, err := s.ModuleDir(ctx, karpenterPins, karpenterModule)
	if err != nil {
		return err
	}
	definitions, err := filepath.Glob(filepath.Join(dir, "pkg", "apis", "crds", "*.yaml"))
	if err != nil {
		return err
	}
	definitions = append(definitions, filepath.Join(dir, "kwok", "apis", "crds", "karpenter.kwok.sh_kwoknodeclasses.yaml"))
	if err := apply.Files(ctx, definitions...); err != nil {
		return err
	}
	types, err := s.File("instance-types.json", instanceTypes)
	if err != nil {
		return err
	}
	metrics, health, err := twoPorts()
	if err != nil {
		return err
	}
	env := []string{"KUBECONFIG=" + s.Cluster.Kubeconfig, "SYSTEM_NAMESPACE=" + metav1.NamespaceDefault}
	p, err := s.Start("karpenter", "karpenter", env, "--disable-leader-election=true", "--metrics-port="+metrics,
		"--health-probe-port="+health, "--instance-types-file-path="+types, "--batch-idle-duration=1s")
	if err != nil {
		return err
	}
	if err := answers(ctx, s, p, "http://"+net.JoinHostPort("127.0.0.1", health)+"/readyz"); err != nil {
		return err
	}
	if err := apply.Text(ctx, nodePool); err != nil {
		return err
	}
	return s.Eventually(ctx, worksWithin, "the pool is ready", func(ctx context.Context) (string, error) {
		return poolReady(ctx, apply)
	})
}

func twoPorts() (one, two string, err error) {
	var ports []string
	for range 2 {
		address, err := harness.FreeAddress()
		if err != nil {
			return "", "", err
		}
		_, port, err := net.SplitHostPort(address)
		if err != nil {
			return "", "", err
		}
		ports = append(ports, port)
	}
	return ports[0], ports[1], nil
}

// poolReady returns what the pool lacks to be ready.
func poolReady(ctx context.Context, apply *Applier) (missing string, err error) {
	pool := &unstructured.Unstructured{}
	pool.SetAPIVersion("karpenter.sh/v1")
	pool.SetKind("NodePool")
	in, err := apply.In(pool)
	if meta.IsNoMatchError(err) {
		return err.Error(), nil
	}
	if err != nil {
		return "", err
	}
	if pool, err = in.Get(ctx, elastic, metav1.GetOptions{}); err != nil {
		return "", err
	}
	conditions, _, err := unstructured.NestedSlice(pool.Object, "status", "conditions")
	if err != nil {
		return "", err
	}
	for _, c := range conditions {
		if c, ok := c.(map[string]any); ok && c["type"] == "Ready" && c["status"] == "True" {
			return "", nil
		}
	}
	return fmt.Sprint(conditions), nil
}
