package docs_test

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/berth-scheduler/berth/pkg/descheduling/policy"
	"github.com/berth-scheduler/berth/pkg/placement/config"
)

const (
	examples = "../../examples"
	// schedulerConfig and deschedulerPolicy are the names of these files, in labs too.
	schedulerConfig   = "scheduler-config.yaml"
	deschedulerPolicy = "descheduler-policy.yaml"
)

func TestExampleConfigurationsAreAccepted(t *testing.T) {
	loaded, err := config.Load(filepath.Join(examples, schedulerConfig))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, profile := range loaded.Profiles {
		names = append(names, profile.SchedulerName)
	}
	if len(names) != 2 || names[0] != "berth" || names[1] != "berth-binpack" {
		t.Errorf("profiles %v, want berth and berth-binpack", names)
	}
	if _, err := policy.Load(filepath.Join(examples, deschedulerPolicy)); err != nil {
		t.Error(err)
	}
}

// Every manifest of a lab is one the API server would take: known kinds, known fields only.
func TestLabManifestsAreValid(t *testing.T) {
	decoder := serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict).UniversalDeserializer()
	found := 0
	err := fs.WalkDir(os.DirFS(examples), "labs", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || path.Ext(name) != ".yaml" {
			return err
		}
		switch path.Base(name) {
		case schedulerConfig:
			_, err := config.Load(filepath.Join(examples, name))
			return err
		case deschedulerPolicy, "soft-policy.yaml", "open-policy.yaml":
			_, err := policy.LoadStrict(filepath.Join(examples, name))
			return err
		case "v1alpha1.yaml": // shows how it is refused
			return nil
		}
		content, err := os.ReadFile(filepath.Join(examples, name))
		if err != nil {
			return err
		}
		reader := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(content)))
		for {
			document, err := reader.Read()
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err != nil {
				return err
			}
			if _, _, err := decoder.Decode(document, nil, nil); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			found++
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if found == 0 {
		t.Error("no manifests were found")
	}
}
