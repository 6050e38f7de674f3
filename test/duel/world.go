package duel

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"github.com/berth-scheduler/berth/test/e2e/harness"
	"github.com/berth-scheduler/berth/test/perf/bench"
)

const (
	namespace = "duel"
	// nodes of nodeCPU CPUs each; the initial pods take all of it: quorums applications of three pods with a budget,
	// and batches of crowd pods without.
	nodes, nodeCPU   = 12, 4
	quorums, batches = 4, 3
	crowd            = 4
	existingCPU      = 2
	// stopDelay is a simulated kubelet's annotation: how long a pod takes to stop.
	stopDelay = "pod-delete.stage.kwok.x-k8s.io/delay"
	// fullWithin bounds the wait until all initial pods are bound.
	fullWithin = 2 * time.Minute
)

var (
	schedulers = []string{"first", "second"}
	// classes of priority. What has a budget is the cheapest to evict.
	classes = map[string]int32{"quorum": 10, "batch": 20, "middle": 100, "high": 1000, "top": 10000}
	// delays of the batches' pods, by batch.
	delays = []string{"0s", "3s", "8s"}
)

func quorumName(i int) string { return fmt.Sprintf("quorum-%d", i) }

// createObjects creates nodes, classes, applications and budgets, and waits until all pods are bound.
func createObjects(ctx context.Context, client kubernetes.Interface) error {
	for i := range nodes {
		if err := makeNode(ctx, client, fmt.Sprintf("node-%02d", i)); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(classes)) {
		class := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: classes[name]}
		if _, err := client.SchedulingV1().PriorityClasses().Create(ctx, class, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	for i := range quorums {
		if err := makeApp(ctx, client, app{quorumName(i), "quorum", 3, "1s", schedulers[i%2]}); err != nil {
			return err
		}
		if err := makeBudget(ctx, client, quorumName(i)); err != nil {
			return err
		}
	}
	for i := range batches {
		one := app{fmt.Sprintf("batch-%d", i), "batch", crowd, delays[i], schedulers[i%2]}
		if err := makeApp(ctx, client, one); err != nil {
			return err
		}
	}
	return harness.Eventually(ctx, fullWithin, "the cluster is full", func(ctx context.Context) (string, error) {
		return notRunning(ctx, client)
	})
}

func notRunning(ctx context.Context, client kubernetes.Interface) (missing string, err error) {
	pods, err := client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", err
	}
	running := 0
	for i := range pods.Items {
		if pods.Items[i].Status.Phase == corev1.PodRunning {
			running++
		}
	}
	if want := 3*quorums + crowd*batches; running != want {
		return fmt.Sprintf("%d pods run, want %d", running, want), nil
	}
	budgets, err := client.PolicyV1().PodDisruptionBudgets(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", err
	}
	for i := range budgets.Items {
		if b := &budgets.Items[i]; b.Status.DisruptionsAllowed != 1 {
			return fmt.Sprintf("%s allows %d", b.Name, b.Status.DisruptionsAllowed), nil
		}
	}
	return "", nil
}

func makeNode(ctx context.Context, client kubernetes.Interface, name string) error {
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}},
		Status: corev1.NodeStatus{Capacity: corev1.ResourceList{
			corev1.ResourceCPU:    *resource.NewQuantity(nodeCPU, resource.DecimalSI),
			corev1.ResourceMemory: resource.MustParse("16Gi"), corev1.ResourcePods: resource.MustParse("110"),
		}},
	}
	_, err := client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{})
	return err
}

// app is a ReplicaSet.
type app struct {
	name, class string
	replicas    int
	stop        string
	scheduler   string
}

func makeApp(ctx context.Context, client kubernetes.Interface, a app) error {
	labels := map[string]string{"app": a.name}
	spec := podSpec(a.scheduler, a.class, existingCPU)
	set := &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Name: a.name},
		Spec: appsv1.ReplicaSetSpec{
			Replicas: ptr.To(int32(a.replicas)), Selector: &metav1.LabelSelector{MatchLabels: labels}, //nolint:gosec // small
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: map[string]string{stopDelay: a.stop}}, Spec: spec,
			},
		},
	}
	_, err := client.AppsV1().ReplicaSets(namespace).Create(ctx, set, metav1.CreateOptions{})
	return err
}

func makeBudget(ctx context.Context, client kubernetes.Interface, name string) error {
	budget := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MinAvailable: ptr.To(intstr.FromInt32(2)),
			Selector:     &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}},
		},
	}
	_, err := client.PolicyV1().PodDisruptionBudgets(namespace).Create(ctx, budget, metav1.CreateOptions{})
	return err
}

func podSpec(scheduler, class string, cpu int) corev1.PodSpec {
	spec := bench.Pod("", "", strconv.Itoa(cpu), "").Spec
	spec.SchedulerName, spec.PriorityClassName = scheduler, class
	return spec
}

// perform carries one step out. A refusal by the API server, because another client was faster or because a budget
// forbids it, is no error.
func (s step) perform(ctx context.Context, client kubernetes.Interface) error {
	switch s.do {
	case arrive:
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: s.pod, Labels: map[string]string{"app": "urgent"}},
			Spec:       podSpec(s.scheduler, s.class, s.cpu),
		}
		_, err := client.CoreV1().Pods(namespace).Create(ctx, pod, metav1.CreateOptions{})
		return err
	case leave:
		err := client.CoreV1().Pods(namespace).Delete(ctx, s.pod, metav1.DeleteOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	case evict:
		return evictOne(ctx, client, s.pod)
	}
	return errors.New("a step that is none: " + string(s.do))
}

// evictOne evicts the pod of an application that has run longest, if the budget allows it.
func evictOne(ctx context.Context, client kubernetes.Interface, name string) error {
	list, err := client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: "app=" + name})
	if err != nil {
		return err
	}
	running := slices.DeleteFunc(list.Items, func(p corev1.Pod) bool {
		return p.Status.Phase != corev1.PodRunning || p.DeletionTimestamp != nil
	})
	if len(running) == 0 {
		return nil
	}
	oldest := slices.MinFunc(running, func(a, b corev1.Pod) int {
		return a.CreationTimestamp.Compare(b.CreationTimestamp.Time)
	})
	err = client.CoreV1().Pods(namespace).EvictV1(ctx, &policyv1.Eviction{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: oldest.Name},
	})
	if apierrors.IsTooManyRequests(err) || apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
