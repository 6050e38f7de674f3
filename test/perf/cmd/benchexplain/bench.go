package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/pkg/explain"

	"github.com/berth-scheduler/berth/test/e2e/harness"
	"github.com/berth-scheduler/berth/test/perf/contend"
	"github.com/berth-scheduler/berth/test/perf/sink"
)

const (
	namespace  = "bench"
	stopWithin = 2 * time.Minute
	// zones the nodes are spread over.
	zones = 3
)

// bench is one measurement.
type bench struct {
	options
	programs harness.Programs
	// atWork and took are what each berth explain took: right after the last bind, and at rest.
	atWork, took []time.Duration
}

// run fills a cluster with bound pods and explains some of them. The API server is a sink: a real one
// takes no part in an explanation, and would take ten times as long to bind the pods.
func (b *bench) run(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, b.timeout)
	defer cancel()
	dir, err := os.MkdirTemp("", "berth-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	api, err := sink.Start()
	if err != nil {
		return err
	}
	defer api.Close()
	kubeconfig := filepath.Join(dir, "kubeconfig")
	if err := os.WriteFile(kubeconfig, api.Kubeconfig(), 0o600); err != nil {
		return err
	}
	if err := api.AddNodes(fleet(b.nodes)); err != nil {
		return err
	}
	bound, err := api.AddPods(workload(b.pods))
	if err != nil {
		return err
	}
	config, err := contend.WriteConfig(dir)
	if err != nil {
		return err
	}
	data := filepath.Join(dir, "data")
	berth, err := b.programs.Up(ctx, harness.UpConfig{
		Kubeconfig: kubeconfig, DataDir: data, LogDir: dir, Shards: 2, Binders: 2, Config: config,
	})
	if err != nil {
		return err
	}
	defer ending(ctx, &err, berth.Stop)
	begin := time.Now()
	select {
	case <-bound:
	case <-ctx.Done():
		count, _ := api.Bound()
		return fmt.Errorf("%d of %d pods are bound: %w", count, b.pods, ctx.Err())
	}
	fmt.Fprintf(os.Stderr, "%d pods are bound, %.0f a second\n", b.pods, float64(b.pods)/time.Since(begin).Seconds())
	return b.explain(ctx, api, data)
}

// ending ends something even when ctx is over.
func ending(ctx context.Context, err *error, stop func(context.Context) error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopWithin)
	defer cancel()
	*err = errors.Join(*err, stop(ctx))
}

// knownWithin bounds the time from the creation of a pod to where the log has it, on a busy machine.
const knownWithin = time.Minute

// restWithin bounds the time in which the ledger lets go of what is bound.
const restWithin = 5 * time.Minute

// explain times `berth explain pod`, from the start of the process to its end, for pods that are
// bound and for one that fits nowhere; once while everybody is still busy with the last binds, and
// once when the ledger promises nothing any more.
func (b *bench) explain(ctx context.Context, api *sink.Server, data string) error {
	waits := pod("nowhere", "1000")
	if _, err := api.AddPods([]*corev1.Pod{waits}); err != nil {
		return err
	}
	// Until the log has the new pod there is nothing to explain.
	err := harness.Eventually(ctx, knownWithin, "pod "+waits.Name+" is known", func(ctx context.Context) (string, error) {
		answer, err := b.programs.Command(ctx, "explain", "pod", namespace+"/"+waits.Name, "--data-dir", data)
		if answer.Code != 0 {
			return answer.Stderr, err
		}
		return "", err
	})
	if err != nil {
		return err
	}
	names := []string{waits.Name}
	for i := range b.explains {
		names = append(names, podName(i*(b.pods/b.explains)))
	}
	if b.atWork, err = b.explainAll(ctx, names, data); err != nil {
		return err
	}
	err = harness.Eventually(ctx, restWithin, "the ledger promises nothing", func(ctx context.Context) (string, error) {
		answer, err := b.programs.Command(ctx, "status", "--data-dir", data, "-o", "json")
		if err != nil || answer.Code != 0 {
			return answer.Stderr, err
		}
		var status struct{ Services explain.Overview }
		if err := json.Unmarshal([]byte(answer.Stdout), &status); err != nil {
			return "", err
		}
		if q := status.Services.Queue; q == nil || len(q.Entries) > 0 {
			return answer.Stdout, nil
		}
		return "", nil
	})
	if err != nil {
		return err
	}
	b.took, err = b.explainAll(ctx, names, data)
	return err
}

func (b *bench) explainAll(ctx context.Context, names []string, data string) (took []time.Duration, err error) {
	for _, name := range names {
		begin := time.Now()
		answer, err := b.programs.Command(ctx, "explain", "pod", namespace+"/"+name, "--data-dir", data)
		took = append(took, time.Since(begin))
		if err != nil || answer.Code != 0 {
			return took, errors.Join(err, fmt.Errorf("explain pod %s: exit code %d: %s", name, answer.Code, answer.Stderr))
		}
	}
	return took, nil
}

// fleet is nodes of 32 CPUs.
func fleet(n int) []*corev1.Node {
	nodes := make([]*corev1.Node, n)
	room := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("32"),
		corev1.ResourceMemory: resource.MustParse("256Gi"), corev1.ResourcePods: resource.MustParse("110")}
	for i := range nodes {
		name := fmt.Sprintf("node-%05d", i)
		nodes[i] = &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
				corev1.LabelHostname: name, corev1.LabelTopologyZone: fmt.Sprintf("zone-%d", i%zones)}},
			Status: corev1.NodeStatus{Capacity: room, Allocatable: room,
				Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
		}
	}
	return nodes
}

func podName(i int) string { return fmt.Sprintf("pod-%06d", i) }

func workload(n int) []*corev1.Pod {
	pods := make([]*corev1.Pod, n)
	for i := range pods {
		pods[i] = pod(podName(i), "100m")
	}
	return pods
}

func pod(name, cpu string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Status:     corev1.PodStatus{Phase: corev1.PodPending},
		Spec: corev1.PodSpec{SchedulerName: corev1.DefaultSchedulerName, Containers: []corev1.Container{{
			Name: "main", Image: "example.com/app:1",
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
				corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse("100Mi"),
			}},
		}}},
	}
}
