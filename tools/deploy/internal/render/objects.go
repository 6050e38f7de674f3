package render

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// Objects parses a stream of YAML documents, sorted by Name. A mistake such as a key that is
// given twice is an error.
func Objects(text string) ([]*unstructured.Unstructured, error) {
	reader := utilyaml.NewYAMLReader(bufio.NewReader(strings.NewReader(text)))
	var objects []*unstructured.Unstructured
	for {
		raw, err := reader.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		object := map[string]any{}
		if err := yaml.UnmarshalStrict(raw, &object); err != nil {
			return nil, fmt.Errorf("%w in\n%s", err, raw)
		}
		if len(object) == 0 {
			continue
		}
		objects = append(objects, &unstructured.Unstructured{Object: object})
	}
	slices.SortFunc(objects, func(a, b *unstructured.Unstructured) int { return cmp.Compare(Name(a), Name(b)) })
	for i := 1; i < len(objects); i++ {
		if Name(objects[i]) == Name(objects[i-1]) {
			return nil, fmt.Errorf("%s: duplicate object", Name(objects[i]))
		}
	}
	return objects, nil
}

// Name identifies an object within one variant.
func Name(o *unstructured.Unstructured) string {
	return strings.Join([]string{o.GroupVersionKind().GroupKind().String(), o.GetNamespace(), o.GetName()}, "/")
}
