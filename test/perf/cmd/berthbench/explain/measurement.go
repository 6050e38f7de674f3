package explain

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/explain"
	"github.com/berth-scheduler/berth/test/e2e/harness"
	"github.com/berth-scheduler/berth/test/perf/bench"
	"github.com/berth-scheduler/berth/test/perf/contend"
	"github.com/berth-scheduler/berth/test/perf/sink"
)

const namespace = "bench"

// measurement is the command line with the programs it needs, and the measured values.
type measurement struct {
	options
	programs harness.Programs
	// atWork and took are the durations of each berth explain: right after the last bind, and at rest.
	atWork, took []time.Duration
}

// run fills a cluster with bound pods and explains some of them. The API server is a sink: a real one
// takes no part in an explanation, and would take ten times as long to bind the pods.
func (m *measurement) run(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, m.timeout)
	defer cancel()
	g, err := contend.NewGround(m.programs, namespace)
	defer func() { err = errors.Join(err, g.Close(ctx)) }()
	if err != nil {
		return err
	}
	api, err := g.StartSink(bench.Nodes(m.nodes))
	if err != nil {
		return err
	}
	bound, err := api.AddPods(workload(m.pods))
	if err != nil {
		return err
	}
	data := filepath.Join(g.Dir, "data")
	berth, err := m.programs.Up(ctx, harness.UpConfig{
		Kubeconfig: g.Kubeconfig(), DataDir: data, LogDir: g.Dir, Shards: 2, Binders: 2, Config: g.Config,
	})
	if err != nil {
		return err
	}
	g.Add(berth.Stop)
	begin := time.Now()
	select {
	case <-bound:
	case <-ctx.Done():
		count, _ := api.Bound()
		return fmt.Errorf("%d of %d pods are bound: %w", count, m.pods, ctx.Err())
	}
	fmt.Fprintf(os.Stderr, "%d pods are bound, %.0f a second\n", m.pods, float64(m.pods)/time.Since(begin).Seconds())
	return m.explain(ctx, api, data)
}

// knownWithin bounds the time from the creation of a pod to where the log has it, on a busy machine.
const knownWithin = time.Minute

// restWithin bounds the time in which the ledger releases the reservations of bound pods.
const restWithin = 5 * time.Minute

// explain times `berth explain pod`, from the start of the process to its end, for pods that are bound and for one
// that fits nowhere; once while all services are still busy with the last binds, and once when the ledger holds no
// promises any more.
func (m *measurement) explain(ctx context.Context, api *sink.Server, data string) error {
	waits := pod("nowhere", "1000")
	if _, err := api.AddPods([]*corev1.Pod{waits}); err != nil {
		return err
	}
	// Until the log has the new pod there is nothing to explain.
	err := harness.Eventually(ctx, knownWithin, "pod "+waits.Name+" is known", func(ctx context.Context) (string, error) {
		answer, err := m.programs.Command(ctx, "explain", "pod", namespace+"/"+waits.Name, "--data-dir", data)
		if answer.Code != 0 {
			return answer.Stderr, err
		}
		return "", err
	})
	if err != nil {
		return err
	}
	names := []string{waits.Name}
	for i := range m.explains {
		names = append(names, podName(i*(m.pods/m.explains)))
	}
	if m.atWork, err = m.explainAll(ctx, names, data); err != nil {
		return err
	}
	err = harness.Eventually(ctx, restWithin, "the ledger promises nothing", func(ctx context.Context) (string, error) {
		answer, err := m.programs.Command(ctx, "status", "--data-dir", data, "-o", "json")
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
	m.took, err = m.explainAll(ctx, names, data)
	return err
}

func (m *measurement) explainAll(ctx context.Context, names []string, data string) (took []time.Duration, err error) {
	for _, name := range names {
		begin := time.Now()
		answer, err := m.programs.Command(ctx, "explain", "pod", namespace+"/"+name, "--data-dir", data)
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

// pod is a pod as an API server hands it out.
func pod(name, cpu string) *corev1.Pod {
	p := bench.Pod(namespace, name, cpu, "100Mi")
	p.Spec.SchedulerName, p.Status.Phase = corev1.DefaultSchedulerName, corev1.PodPending
	return p
}
