package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/test/e2e/audit"
	"github.com/berth-scheduler/berth/test/e2e/harness"
	"github.com/berth-scheduler/berth/test/perf/contend"
	"github.com/berth-scheduler/berth/test/perf/sink"
)

const (
	// podsPerNode is what a node has room for.
	podsPerNode = 110
	// zones the nodes are spread over.
	zones = 3
	// ownService is what this program is called in reports: it makes the facts and takes the binds.
	ownService = "generator and sink"
)

// bench is the command line with the programs it needs.
type bench struct {
	options
	programs harness.Programs
}

// result is what one run showed.
type result struct {
	Run         int     `json:"run"`
	WallSeconds float64 `json:"wallSeconds"`
	// PodsPerSecond is counted from the arrival of the first pod to the last bind.
	PodsPerSecond float64 `json:"podsPerSecond"`
	// Micros is processor time per pod in microseconds, by service, up to the last bind.
	Micros map[string]float64 `json:"microsPerPod"`
	Events int                `json:"eventsAtLastBind"`
}

// member is one process of a run.
type member struct {
	service string
	pids    []int
	address string
	stop    func(context.Context) error
}

// run starts everything, warms it up, lets the pods arrive and waits for the last bind.
func (b *bench) run(ctx context.Context, number int) (r result, err error) {
	ctx, cancel := context.WithTimeout(ctx, b.timeout)
	defer cancel()
	dir, err := os.MkdirTemp("", "berth-path-")
	if err != nil {
		return r, err
	}
	api, err := sink.Start()
	if err != nil {
		return r, err
	}
	var members []member
	defer func() {
		for i := range members {
			err = errors.Join(err, members[len(members)-1-i].stop(context.WithoutCancel(ctx)))
		}
		api.Close()
		err = errors.Join(err, os.RemoveAll(dir))
	}()
	if err := api.AddNodes(b.fleet()); err != nil {
		return r, err
	}
	if members, err = b.start(ctx, dir, api); err != nil {
		return r, err
	}
	if err := b.arrive(ctx, api, "warm", b.warm); err != nil {
		return r, err
	}
	before, err := used(members)
	if err != nil {
		return r, err
	}
	profiles := b.profile(ctx, members)
	begin := time.Now()
	if err := b.arrive(ctx, api, "pod", b.pods); err != nil {
		return r, err
	}
	after, err := used(members)
	if err != nil {
		return r, err
	}
	_, last := api.Bound()
	r = result{Run: number, WallSeconds: last.Sub(begin).Seconds(), Micros: map[string]float64{}, Events: api.Events()}
	r.PodsPerSecond = float64(b.pods) / r.WallSeconds
	for service, time := range after {
		r.Micros[service] = float64((time - before[service]).Microseconds()) / float64(b.pods)
	}
	fmt.Fprintf(os.Stderr, "run %d: %.1f s, %.0f pods/s, %.0f µs a pod in all\n",
		number, r.WallSeconds, r.PodsPerSecond, r.all())
	return r, errors.Join(profiles(), check(api, b.pods+b.warm))
}

// all is the processor time per pod of all that is Berth's, its stores included.
func (r result) all() (sum float64) {
	for service, micros := range r.Micros {
		if service != ownService {
			sum += micros
		}
	}
	return sum
}

// arrive adds pods, at a rate if there is one, and waits until all are bound.
func (b *bench) arrive(ctx context.Context, api *sink.Server, prefix string, n int) error {
	pods, atOnce := workload(prefix, n), n
	pace := rate.NewLimiter(rate.Inf, 1)
	if b.rate > 0 {
		pace.SetLimit(rate.Limit(b.rate))
		atOnce = 1
	}
	var bound <-chan struct{}
	for some := range slices.Chunk(pods, atOnce) {
		err := pace.Wait(ctx)
		if err != nil {
			return err
		}
		if bound, err = api.AddPods(some); err != nil {
			return err
		}
	}
	select {
	case <-bound:
		return nil
	case <-ctx.Done():
		count, _ := api.Bound()
		return fmt.Errorf("%d pods are bound: %w", count, ctx.Err())
	}
}

// used is the processor time so far, by service.
func used(members []member) (map[string]time.Duration, error) {
	sum := map[string]time.Duration{}
	own, err := harness.CPUTime(os.Getpid())
	sum[ownService] = own
	for _, m := range members {
		spent, more := harness.CPUTime(m.pids...)
		sum[m.service] += spent
		err = errors.Join(err, more)
	}
	return sum, err
}

// check looks at what was bound, and at what Berth asked for that the sink does not serve.
func check(api *sink.Server, want int) error {
	nodes, pods := api.Objects()
	if bound, _ := api.Bound(); bound != want {
		return fmt.Errorf("%d of %d pods are bound", bound, want)
	}
	if wrong := audit.Check(nodes, pods); len(wrong) > 0 {
		return fmt.Errorf("audit: %d findings, the first: %s", len(wrong), wrong[0])
	}
	if strange := api.Strange(); len(strange) > 0 {
		return fmt.Errorf("requests that the sink does not serve: %v", strange)
	}
	return nil
}

// start starts the stores and the services.
func (b *bench) start(ctx context.Context, dir string, api *sink.Server) (members []member, err error) {
	config, err := contend.WriteConfig(dir)
	if err != nil {
		return nil, err
	}
	kubeconfig := filepath.Join(dir, "kubeconfig")
	if err := os.WriteFile(kubeconfig, api.Kubeconfig(), 0o600); err != nil {
		return nil, err
	}
	urls := map[string]string{}
	for _, name := range []string{"etcd", "nats"} {
		store, err := b.programs.StartStore(ctx, name, filepath.Join(dir, name))
		if err != nil {
			return members, err
		}
		members = append(members, member{service: name, pids: store.PIDs, stop: store.Stop})
		urls[name] = store.URL
	}
	for _, replicas := range b.services() {
		service := replicas.service
		for i := range replicas.n {
			cfg := harness.RunConfig{Service: service, Name: fmt.Sprintf("%s-%d", service, i), LogDir: dir,
				NATS: urls["nats"], Etcd: urls["etcd"], Args: []string{"--config", config}}
			if service != "scheduler" {
				cfg.Kubeconfig = kubeconfig
			}
			if b.profiling {
				cfg.Args = append(cfg.Args, "--profiling")
			}
			berth, err := b.programs.Run(ctx, cfg)
			if err != nil {
				return members, err
			}
			members = append(members, member{
				service: service, pids: []int{berth.PID()}, address: berth.Address, stop: berth.Stop})
		}
	}
	return members, nil
}

// replicas are processes of one service.
type replicas struct {
	service string
	n       int
}

// services are in the order they start in: the others are ready once the queue's facts are there.
func (b *bench) services() []replicas {
	return []replicas{{"queue", 1}, {"scheduler", b.shards}, {"binder", b.binders}}
}

func (b *bench) fleet() []*corev1.Node {
	nodes := make([]*corev1.Node, b.nodes)
	for i := range nodes {
		name := fmt.Sprintf("node-%05d", i)
		room := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("32"),
			corev1.ResourceMemory: resource.MustParse("256Gi"), corev1.ResourcePods: *resource.NewQuantity(podsPerNode, "")}
		nodes[i] = &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
				corev1.LabelHostname: name, corev1.LabelTopologyZone: fmt.Sprintf("zone-%d", i%zones)}},
			Status: corev1.NodeStatus{Capacity: room, Allocatable: room,
				Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
		}
	}
	return nodes
}

// workload is pods as an API server hands them out, of one template.
func workload(prefix string, n int) []*corev1.Pod {
	pods := make([]*corev1.Pod, n)
	for i := range pods {
		pods[i] = &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprintf("%s-%06d", prefix, i),
				Labels: map[string]string{"app": prefix}},
			Spec: corev1.PodSpec{
				SchedulerName: corev1.DefaultSchedulerName, RestartPolicy: corev1.RestartPolicyAlways,
				DNSPolicy: corev1.DNSClusterFirst, ServiceAccountName: "default",
				Tolerations: []corev1.Toleration{
					{Key: corev1.TaintNodeNotReady, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute},
					{Key: corev1.TaintNodeUnreachable, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute}},
				Containers: []corev1.Container{{Name: "main", Image: "registry.k8s.io/pause:3.10",
					Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
						corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("500Mi")}}}},
			},
			Status: corev1.PodStatus{Phase: corev1.PodPending},
		}
	}
	return pods
}
