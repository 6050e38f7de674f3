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
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/berth-scheduler/berth/pkg/explain"

	"github.com/berth-scheduler/berth/test/e2e/harness"
	"github.com/berth-scheduler/berth/test/perf/contend"
)

const (
	namespace  = "bench"
	stopWithin = 2 * time.Minute
)

// bench is one measurement.
type bench struct {
	options
	programs harness.Programs
	// atWork and took are what each berth explain took: right after the last bind, and at rest.
	atWork, took []time.Duration
}

// run fills a fresh cluster with bound pods and explains some of them.
func (b *bench) run(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, b.timeout)
	defer cancel()
	dir, err := os.MkdirTemp("", "berth-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	cluster, err := b.programs.StartCluster(ctx, harness.ClusterConfig{
		Dir: filepath.Join(dir, "cluster"), Nodes: b.nodes, NoKubelets: true,
	})
	if err != nil {
		return err
	}
	defer ending(ctx, &err, cluster.Stop)
	if err := harness.CreateNamespace(ctx, cluster.Client, harness.Namespace(namespace)); err != nil {
		return err
	}
	if err := harness.CreatePods(ctx, cluster.Client, workload(b.pods)); err != nil {
		return err
	}
	config, err := contend.WriteConfig(dir)
	if err != nil {
		return err
	}
	seen, err := harness.WatchPods(ctx, cluster.Rest, namespace)
	if err != nil {
		return err
	}
	defer seen.Stop()
	data := filepath.Join(dir, "data")
	berth, err := b.programs.Up(ctx, harness.UpConfig{
		Kubeconfig: cluster.Kubeconfig, DataDir: data, LogDir: dir, Shards: 2, Binders: 2, Config: config,
	})
	if err != nil {
		return err
	}
	defer ending(ctx, &err, berth.Stop)
	begin := time.Now()
	if err := allBound(ctx, seen, b.pods); err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "%d pods are bound, %.0f a second\n", b.pods, float64(b.pods)/time.Since(begin).Seconds())
	return b.explain(ctx, cluster, data)
}

// ending ends something even when ctx is over.
func ending(ctx context.Context, err *error, stop func(context.Context) error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopWithin)
	defer cancel()
	*err = errors.Join(*err, stop(ctx))
}

// allBound waits until as many pods as are wanted have been seen bound.
func allBound(ctx context.Context, seen watch.Interface, want int) error {
	bound := sets.New[types.UID]()
	for bound.Len() < want {
		select {
		case event, ok := <-seen.ResultChan():
			if !ok {
				return fmt.Errorf("the watch ended with %d of %d pods bound", bound.Len(), want)
			}
			if pod, ok := event.Object.(*corev1.Pod); ok && pod.Spec.NodeName != "" {
				bound.Insert(pod.UID)
			}
		case <-ctx.Done():
			return fmt.Errorf("%d of %d pods are bound: %w", bound.Len(), want, ctx.Err())
		}
	}
	return nil
}

// knownWithin bounds the time from the creation of a pod to where the log has it, on a busy machine.
const knownWithin = time.Minute

// restWithin bounds the time in which the ledger lets go of what is bound.
const restWithin = 5 * time.Minute

// explain times `berth explain pod`, from the start of the process to its end, for pods that are
// bound and for one that fits nowhere; once while everybody is still busy with the last binds, and
// once when the ledger promises nothing any more.
func (b *bench) explain(ctx context.Context, cluster *harness.Cluster, data string) error {
	waits := pod("nowhere", "1000")
	if err := harness.CreatePods(ctx, cluster.Client, []*corev1.Pod{waits}); err != nil {
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
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "main", Image: "example.com/app:1",
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
				corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse("100Mi"),
			}},
		}}},
	}
}
