package manifest

import (
	"bufio"
	"errors"
	"fmt"
	"io"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"
)

// wanted lists the kinds that are read, for errors.
const wanted = "Pod, Node, Deployment, ReplicaSet, StatefulSet, Job, or a List of them"

// maxPods bounds the pods of all workloads of a file; more is most likely a typing error, and would fill the memory
// before anything is placed.
const maxPods = 100_000

// Content holds the pods and nodes that a file describes, in its order.
type Content struct {
	Pods  []*corev1.Pod
	Nodes []*corev1.Node
}

// Read reads all documents of a file in YAML or JSON. An error names the document, counted from 1. A kind that is not
// one of wanted is an error: a manifest that is read in part would give a wrong prediction.
func Read(r io.Reader) (Content, error) {
	var c Content
	documents := yaml.NewYAMLReader(bufio.NewReader(r))
	for n := 1; ; n++ {
		text, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return c, nil
		}
		if err != nil {
			return c, fmt.Errorf("document %d: %w", n, err)
		}
		if err := c.document(text); err != nil {
			return c, fmt.Errorf("document %d: %w", n, err)
		}
	}
}

// document reads one document, or one item of a List.
func (c *Content) document(text []byte) error {
	asJSON, err := yaml.ToJSON(text)
	if err != nil {
		return err
	}
	if string(asJSON) == "null" {
		return nil // nothing but comments
	}
	obj, kind, err := scheme.Codecs.UniversalDeserializer().Decode(asJSON, nil, nil)
	if err != nil {
		return err
	}
	return c.add(obj, kind)
}

// add adds an object of one of the wanted kinds.
func (c *Content) add(obj runtime.Object, kind *schema.GroupVersionKind) error {
	switch o := obj.(type) {
	case *corev1.Pod:
		c.Pods = append(c.Pods, o)
	case *corev1.Node:
		c.Nodes = append(c.Nodes, o)
	// The items of a List are decoded one by one, as each may be of another kind.
	case *corev1.List:
		for i := range o.Items {
			if err := c.document(o.Items[i].Raw); err != nil {
				return fmt.Errorf("item %d: %w", i+1, err)
			}
		}
	case *appsv1.Deployment:
		return c.replicas(o.ObjectMeta, kind, o.Spec.Replicas, o.Spec.Template)
	case *appsv1.ReplicaSet:
		return c.replicas(o.ObjectMeta, kind, o.Spec.Replicas, o.Spec.Template)
	case *appsv1.StatefulSet:
		return c.replicas(o.ObjectMeta, kind, o.Spec.Replicas, o.Spec.Template)
	case *batchv1.Job:
		return c.replicas(o.ObjectMeta, kind, o.Spec.Parallelism, o.Spec.Template)
	default:
		return fmt.Errorf("kind %s: want %s", kind.Kind, wanted)
	}
	return nil
}

// replicas adds the pods that a workload would create: one if its number is not given, as in the API's defaults.
func (c *Content) replicas(
	owner metav1.ObjectMeta, kind *schema.GroupVersionKind, replicas *int32, template corev1.PodTemplateSpec,
) error {
	n := int32(1)
	if replicas != nil {
		n = *replicas
	}
	// The bound is for all workloads of a file together.
	if room := maxPods - len(c.Pods); n < 0 || int(n) > room {
		return fmt.Errorf("%s %s: %d replicas: want 0 to %d", kind.Kind, owner.Name, n, max(room, 0))
	}
	// The pods get a controller, so that rules about owners, and a simulated eviction's replacement, work for them.
	controls := true
	for i := range n {
		pod := &corev1.Pod{ObjectMeta: *template.ObjectMeta.DeepCopy(), Spec: *template.Spec.DeepCopy()}
		pod.Name, pod.Namespace = fmt.Sprintf("%s-%d", owner.Name, i), owner.Namespace
		pod.OwnerReferences = []metav1.OwnerReference{{
			APIVersion: kind.GroupVersion().String(), Kind: kind.Kind, Name: owner.Name,
			UID: types.UID("simulated-" + owner.Name), Controller: &controls,
		}}
		c.Pods = append(c.Pods, pod)
	}
	return nil
}
