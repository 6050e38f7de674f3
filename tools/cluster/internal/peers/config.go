package peers

import (
	"fmt"
	"os"
	"path/filepath"

	"sigs.k8s.io/yaml"
)

// completeSchedulerConfig returns the file's content with the kubeconfig of
// the cluster and without leader election, everything else as it was. The
// fields are set on the untyped document so that no field of a newer or older
// version is lost; the scheduler itself decodes it strictly.
func completeSchedulerConfig(path, kubeconfig string) ([]byte, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var document map[string]any
	if err := yaml.UnmarshalStrict(content, &document); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if kind := document["kind"]; kind != "KubeSchedulerConfiguration" {
		return nil, fmt.Errorf("%s: kind is %v, want KubeSchedulerConfiguration", path, kind)
	}
	connection, err := section(document, "clientConnection")
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if set, ok := connection["kubeconfig"]; ok && set != "" {
		return nil, fmt.Errorf("%s: clientConnection.kubeconfig is %v: want none, since --dir selects the cluster", path, set)
	}
	connection["kubeconfig"] = kubeconfig
	election, err := section(document, "leaderElection")
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	election["leaderElect"] = false
	return yaml.Marshal(document)
}

// section returns an object inside the document and creates it if missing.
func section(document map[string]any, name string) (map[string]any, error) {
	value, ok := document[name]
	if !ok || value == nil {
		fresh := map[string]any{}
		document[name] = fresh
		return fresh, nil
	}
	object, ok := value.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("%s is a %T, want an object", name, value)
	}
	return object, nil
}

func writeConfig(dir, name string, content []byte) (string, error) {
	path := filepath.Join(dir, name)
	return path, os.WriteFile(path, content, 0o600)
}
