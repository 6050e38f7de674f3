package neighbours

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/restmapper"

	"github.com/berth-scheduler/berth/test/e2e/harness"
)

const (
	// fieldManager is the name under which manifests are applied.
	fieldManager = "neighbours"
	// servedWithin bounds the time until the API server serves a kind whose definition was applied.
	servedWithin = 30 * time.Second
	// yamlBuffer is the largest document of a manifest.
	yamlBuffer = 1 << 20
)

// Applier applies manifests of any kind, also of kinds whose definitions it has applied a moment before.
type Applier struct {
	client dynamic.Interface
	mapper *restmapper.DeferredDiscoveryRESTMapper
}

// Applier returns one with the administrator's rights.
func (s *Scene) Applier() (*Applier, error) {
	client, err := dynamic.NewForConfig(s.Cluster.Rest)
	if err != nil {
		return nil, err
	}
	cached := memory.NewMemCacheClient(s.Client.Discovery())
	return &Applier{client: client, mapper: restmapper.NewDeferredDiscoveryRESTMapper(cached)}, nil
}

// Files applies the documents of YAML files, in order.
func (a *Applier) Files(ctx context.Context, paths ...string) error {
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err == nil {
			err = a.Text(ctx, string(text))
		}
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	return nil
}

// Text applies YAML documents, in order. Objects of namespaced kinds without a namespace go to "default".
func (a *Applier) Text(ctx context.Context, text string) error {
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader([]byte(text)), yamlBuffer)
	for {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(&object.Object)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if len(object.Object) == 0 {
			continue // a document of comments
		}
		if err := a.Object(ctx, object); err != nil {
			return err
		}
	}
}

// Object applies one object, and waits until its kind is served.
func (a *Applier) Object(ctx context.Context, object *unstructured.Unstructured) error {
	kind := object.GroupVersionKind()
	what := fmt.Sprintf("apply %s %s", kind.Kind, object.GetName())
	return harness.Eventually(ctx, servedWithin, what, func(ctx context.Context) (string, error) {
		in, err := a.In(object)
		if meta.IsNoMatchError(err) {
			a.mapper.Reset()
			return err.Error(), nil
		}
		if err != nil {
			return "", err
		}
		_, err = in.Apply(ctx, object.GetName(), object, metav1.ApplyOptions{FieldManager: fieldManager, Force: true})
		return "", err
	})
}

// In returns where objects of this one's kind and namespace are. The error is a NoMatch while the kind is not served.
func (a *Applier) In(object *unstructured.Unstructured) (dynamic.ResourceInterface, error) {
	kind := object.GroupVersionKind()
	mapping, err := a.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return nil, err
	}
	if mapping.Scope.Name() != meta.RESTScopeNameNamespace {
		return a.client.Resource(mapping.Resource), nil
	}
	namespace := object.GetNamespace()
	if namespace == "" {
		namespace = metav1.NamespaceDefault
	}
	return a.client.Resource(mapping.Resource).Namespace(namespace), nil
}
