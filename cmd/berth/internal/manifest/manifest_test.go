package manifest_test

import (
	"strings"
	"testing"

	"github.com/berth-scheduler/berth/cmd/berth/internal/manifest"
)

const file = `# a pod, a workload and a node
apiVersion: v1
kind: Pod
metadata: {name: alone, namespace: shop}
spec: {containers: [{name: app, image: example.com/app:1}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: app, image: example.com/app:1}]}
---
apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: Node
  metadata: {name: node-9}
---
# nothing here
`

func TestRead(t *testing.T) {
	c, err := manifest.Read(strings.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Pods) != 4 || len(c.Nodes) != 1 || c.Nodes[0].Name != "node-9" {
		t.Fatalf("%d pods and %d nodes, want 4 and node-9", len(c.Pods), len(c.Nodes))
	}
	p := c.Pods[3]
	if p.Name != "web-2" || p.Namespace != "shop" || p.Labels["app"] != "web" || len(p.OwnerReferences) != 1 {
		t.Errorf("the last pod is %+v, want web-2 of the Deployment", p.ObjectMeta)
	}
}

func TestReadRefuses(t *testing.T) {
	for name, text := range map[string]string{
		"kind Service: want Pod":  "apiVersion: v1\nkind: Service\nmetadata: {name: web}\n",
		"document 2":              "apiVersion: v1\nkind: Node\nmetadata: {name: node-9}\n---\nkind: [\n",
		"-1 replicas: want 0 to":  "apiVersion: apps/v1\nkind: ReplicaSet\nmetadata: {name: web}\nspec: {replicas: -1}\n",
		"item 1: kind Secret: wa": "apiVersion: v1\nkind: List\nitems: [{apiVersion: v1, kind: Secret}]\n",
	} {
		if _, err := manifest.Read(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%q: %v, want an error with %q", text, err, name)
		}
	}
}
