package neighbours

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/test/e2e/harness"
)

// clusterAutoscaler is Cluster Autoscaler with its provider for simulated nodes.
func clusterAutoscaler() Neighbour {
	const name = "cluster-autoscaler"
	return Neighbour{
		Name:     name,
		Version:  "Cluster Autoscaler 1.36.1 (`k8s.io/autoscaler/cluster-autoscaler`) with its provider `kwok`",
		Programs: []string{name},
		Scenarios: autoscaler{start: startClusterAutoscaler}.scenarios(map[string]string{
			"script":              "a node in quarantine counts as room for the autoscaler.",
			"name-of-no-node":     "Berth does not clear a name that it did not write.",
			"name-of-a-full-node": "Berth does not clear a name that it did not write.",
			"slow-volume":         "Berth does not write a name while a volume is made.",
		}),
	}
}

// kwokConfig makes each value of the label of pools that a template has a group of nodes.
const kwokConfig = `apiVersion: v1alpha1
readNodesFrom: configmap
nodegroups:
  fromNodeLabelKey: ` + poolLabel + `
nodes:
  skipTaint: true
configmap:
  name: kwok-provider-templates
`

// startClusterAutoscaler starts it with the elastic pool as its only group of nodes.
func startClusterAutoscaler(ctx context.Context, s *Scene) error {
	template := elasticNode()
	template.Name = elastic
	template.Annotations = map[string]string{
		"cluster-autoscaler.kwok.nodegroup/max-count": fmt.Sprint(mostNodes),
	}
	// The provider accepts a single node only in a list.
	templates, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "List", "items": []any{template}})
	if err != nil {
		return err
	}
	for name, data := range map[string]map[string]string{
		"kwok-provider-config": {"config": kwokConfig}, "kwok-provider-templates": {"templates": string(templates)},
	} {
		_, err := s.Client.CoreV1().ConfigMaps(metav1.NamespaceDefault).Create(ctx, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Data: data,
		}, metav1.CreateOptions{})
		if err != nil {
			return err
		}
	}
	address, err := harness.FreeAddress()
	if err != nil {
		return err
	}
	env := []string{
		"KUBECONFIG=" + s.Cluster.Kubeconfig, "KWOK_PROVIDER_MODE=local", "POD_NAMESPACE=" + metav1.NamespaceDefault,
	}
	p, err := s.Start("cluster-autoscaler", "cluster-autoscaler", env,
		"--kubeconfig="+s.Cluster.Kubeconfig, "--namespace="+metav1.NamespaceDefault, "--cloud-provider=kwok",
		"--address="+address, "--leader-elect=false", "--scan-interval=2s", "--v=4",
		"--kube-client-qps=200", "--kube-client-burst=400",
		"--scale-down-delay-after-add="+unneeded.String(), "--scale-down-unneeded-time="+unneeded.String(),
		"--scale-down-utilization-threshold=1", "--unremovable-node-recheck-timeout=10s",
		"--max-drain-parallelism=5", "--max-scale-down-parallelism=20")
	if err != nil {
		return err
	}
	return answers(ctx, s, p, "http://"+address+"/health-check")
}

// answers waits until a program answers a request with 200.
func answers(ctx context.Context, s *Scene, p *harness.Process, url string) error {
	return s.Eventually(ctx, worksWithin, p.Name+" answers "+url, func(ctx context.Context) (string, error) {
		if err := p.Ended(); err != nil {
			return "", err
		}
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return "", err
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return err.Error(), nil
		}
		defer func() { _ = response.Body.Close() }() // nothing of it is read
		if response.StatusCode != http.StatusOK {
			return response.Status, nil
		}
		return "", nil
	})
}
