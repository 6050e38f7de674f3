package render

import (
	"fmt"
	"path/filepath"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// Dir is a variant's folder.
func (v Variant) Dir(root string) string {
	if v.Name == Base {
		return filepath.Join(root, "deploy", "k8s", Base)
	}
	return filepath.Join(root, "deploy", "k8s", "overlays", v.Name)
}

// Kustomization builds the variant's folder.
func Kustomization(root string, v Variant) (string, error) { return Kustomize(v.Dir(root)) }

// Kustomize builds a folder, as `kubectl apply -k` does.
func Kustomize(dir string) (string, error) {
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), dir)
	if err != nil {
		return "", fmt.Errorf("kustomization %s: %w", dir, err)
	}
	out, err := resources.AsYaml()
	if err != nil {
		return "", fmt.Errorf("kustomization %s: %w", dir, err)
	}
	return string(out), nil
}
