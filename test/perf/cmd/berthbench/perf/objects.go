package perf

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"text/template"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"sigs.k8s.io/yaml"

	"github.com/berth-scheduler/berth/test/perf/perfconfig"
)

// readTemplate reads a file of upstream's, a Go template that gives YAML, into an object.
func readTemplate(file string, values map[string]any, into any) error {
	raw, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	t, err := template.New(file).Option("missingkey=error").Funcs(template.FuncMap{
		"AddInt":      func(a, b int) int { return a + b },
		"SubtractInt": func(a, b int) int { return a - b },
		"MultiplyInt": func(a, b int) int { return a * b },
		"DivideInt":   func(a, b int) int { return a / b },
		"Mod":         func(a, b int) int { return a % b },
	}).Parse(string(raw))
	if err != nil {
		return err
	}
	var text bytes.Buffer
	if err := t.Execute(&text, values); err != nil {
		return err
	}
	if err := yaml.UnmarshalStrict(text.Bytes(), into); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return nil
}

// objects makes objects of any kind.
type objects struct {
	client dynamic.Interface
	mapper *restmapper.DeferredDiscoveryRESTMapper
}

func newObjects(access *rest.Config) (*objects, error) {
	client, err := dynamic.NewForConfig(access)
	if err != nil {
		return nil, err
	}
	plain, err := kubernetes.NewForConfig(access)
	if err != nil {
		return nil, err
	}
	return &objects{
		client: client, mapper: restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(plain.Discovery())),
	}, nil
}

// in is where objects like this one are made; namespace counts only for those that have one.
func (o *objects) in(like *unstructured.Unstructured, namespace string) (dynamic.ResourceInterface, error) {
	kind := like.GroupVersionKind()
	mapping, err := o.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return nil, err
	}
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		return o.client.Resource(mapping.Resource).Namespace(namespace), nil
	}
	return o.client.Resource(mapping.Resource), nil
}

func (o *objects) createSome(ctx context.Context, op *perfconfig.Op) error {
	count := max(op.Count, 1)
	for i := range count {
		var object unstructured.Unstructured
		if err := readTemplate(op.TemplatePath, map[string]any{"Index": i, "Count": count}, &object.Object); err != nil {
			return err
		}
		in, err := o.in(&object, op.Namespace)
		if err != nil {
			return err
		}
		if _, err := in.Create(ctx, &object, metav1.CreateOptions{FieldValidation: "Strict"}); err != nil {
			return err
		}
	}
	return nil
}

// classify gives a pod's priority through a class, as the API server's admission asks for.
func (s *stage) classify(ctx context.Context, pod *corev1.Pod) error {
	if pod.Spec.Priority == nil {
		return nil
	}
	class := &schedulingv1.PriorityClass{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("perf-%d", *pod.Spec.Priority)}, Value: *pod.Spec.Priority,
	}
	pod.Spec.PriorityClassName, pod.Spec.Priority = class.Name, nil
	_, err := s.client.SchedulingV1().PriorityClasses().Create(ctx, class, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// defaultPod is the pod of a createPods without a template: upstream's base pod
// (MakePodSpec of k8s.io/kubernetes/test/utils/runners.go).
func defaultPod() *corev1.Pod {
	requests := resources("100m", "500Mi", "")
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "pod-"},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "pause", Image: "registry.k8s.io/pause:3.10.2",
			Ports:     []corev1.ContainerPort{{ContainerPort: 80}},
			Resources: corev1.ResourceRequirements{Requests: requests, Limits: requests},
		}}},
	}
}

// defaultNode is the node of a createNodes without a template: upstream's base node
// (test/integration/scheduler_perf/node_util.go and scheduler_perf's README).
func defaultNode() *corev1.Node {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{GenerateName: "scheduler-perf-"}}
	node.Status = corev1.NodeStatus{
		Capacity:   resources("4", "32Gi", "110"),
		Phase:      corev1.NodeRunning,
		Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
	}
	return node
}

func (s *stage) createNodes(ctx context.Context, op *perfconfig.Op) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(makers)
	for i := range op.Count {
		node := defaultNode()
		if op.NodeTemplatePath != "" {
			node = &corev1.Node{}
			if err := readTemplate(op.NodeTemplatePath, map[string]any{"Index": i, "Count": op.Count}, node); err != nil {
				return err
			}
		}
		labelNode(node, op, i)
		group.Go(func() error { return s.makeNode(ctx, node) })
	}
	return group.Wait()
}

// labelNode gives the i-th node its labels.
func labelNode(node *corev1.Node, op *perfconfig.Op, i int) {
	set := func(key, value string) {
		if node.Labels == nil {
			node.Labels = map[string]string{}
		}
		node.Labels[key] = value
	}
	if l := op.LabelNodePrepareStrategy; l != nil && len(l.LabelValues) > 0 {
		set(l.LabelKey, l.LabelValues[i%len(l.LabelValues)])
	}
	if l := op.UniqueNodeLabelStrategy; l != nil {
		set(l.LabelKey, fmt.Sprintf("unique-%d", i))
	}
}

// makeNode makes a node and takes the taint of nodes that have yet to report from it: no kubelet
// will ever report.
func (s *stage) makeNode(ctx context.Context, node *corev1.Node) error {
	made, err := s.client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"taints": node.Spec.Taints}})
	if err != nil {
		return err
	}
	_, err = s.client.CoreV1().Nodes().Patch(ctx, made.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	return err
}

// startChurn makes objects in the background until the run ends, and in mode recreate takes them
// away again.
func (s *stage) startChurn(ctx context.Context, op *perfconfig.Op) error {
	if err := s.namespace(ctx, op.Namespace, ""); err != nil {
		return err
	}
	var kinds []churned
	for _, file := range op.TemplatePaths {
		var object unstructured.Unstructured
		if err := readTemplate(file, nil, &object.Object); err != nil {
			return err
		}
		if err := s.classifyAny(ctx, &object); err != nil {
			return err
		}
		in, err := s.objects.in(&object, op.Namespace)
		if err != nil {
			return err
		}
		kinds = append(kinds, churned{like: &object, in: in})
	}
	s.background(ctx, func(ctx context.Context) error { return churn(ctx, op, kinds) })
	return nil
}

// classifyAny is classify for a pod that is not known to be one.
func (s *stage) classifyAny(ctx context.Context, object *unstructured.Unstructured) error {
	priority, found, err := unstructured.NestedInt64(object.Object, "spec", "priority")
	if float, is, _ := unstructured.NestedFloat64(object.Object, "spec", "priority"); is {
		priority, found, err = int64(float), true, nil // YAML by way of JSON
	}
	if object.GetKind() != "Pod" || !found || err != nil {
		return err
	}
	value := int32(priority)
	pod := &corev1.Pod{Spec: corev1.PodSpec{Priority: &value}}
	if err := s.classify(ctx, pod); err != nil {
		return err
	}
	unstructured.RemoveNestedField(object.Object, "spec", "priority")
	return unstructured.SetNestedField(object.Object, pod.Spec.PriorityClassName, "spec", "priorityClassName")
}

// churned is a kind of object that is created and deleted throughout.
type churned struct {
	like  *unstructured.Unstructured
	in    dynamic.ResourceInterface
	names []string
}

// churn makes one object of each kind with every tick: op.Number times, without an end if that
// is 0; in mode recreate it then deletes them one a tick, and begins again.
func churn(ctx context.Context, op *perfconfig.Op, kinds []churned) error {
	tick := time.NewTicker(op.Interval)
	defer tick.Stop()
	for n := 0; ; n++ {
		if op.Mode == perfconfig.ChurnCreate && op.Number > 0 && n == op.Number {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
		away := op.Mode == perfconfig.ChurnRecreate && n%(2*op.Number) >= op.Number
		for i := range kinds {
			if err := kinds[i].step(ctx, away); err != nil && ctx.Err() == nil {
				return err
			}
		}
	}
}

func (c *churned) step(ctx context.Context, away bool) error {
	if !away {
		made, err := c.in.Create(ctx, c.like, metav1.CreateOptions{})
		if err == nil {
			c.names = append(c.names, made.GetName())
		}
		return err
	}
	if len(c.names) == 0 {
		return nil
	}
	name := c.names[0]
	c.names = c.names[1:]
	if err := c.in.Delete(ctx, name, metav1.DeleteOptions{}); !apierrors.IsNotFound(err) {
		return err
	}
	return nil
}

// background runs work until the run ends.
func (s *stage) background(ctx context.Context, work func(context.Context) error) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- work(ctx) }()
	s.Add(func(context.Context) error {
		cancel()
		return <-ended
	})
}

// resources are amounts; pods may be empty, for those of a container.
func resources(cpu, memory, pods string) corev1.ResourceList {
	list := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory),
	}
	if pods != "" {
		list[corev1.ResourcePods] = resource.MustParse(pods)
	}
	return list
}
