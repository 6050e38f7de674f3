package manifest

import (
	"bytes"
	"testing"
)

// FuzzRead: whatever a file of manifests contains, reading it ends in pods and nodes or in an error.
func FuzzRead(f *testing.F) {
	f.Add([]byte("apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n---\napiVersion: v1\nkind: Node\nmetadata: {name: n}\n"))
	f.Add([]byte("apiVersion: v1\nkind: List\nitems:\n- apiVersion: apps/v1\n  kind: Deployment\n  spec: {replicas: 3}\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		content, err := Read(bytes.NewReader(data))
		if n := len(content.Pods); err == nil && n > maxPods {
			t.Errorf("%d pods", n)
		}
	})
}
