package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/test/e2e/audit"
	"github.com/berth-scheduler/berth/test/e2e/harness"
	"github.com/berth-scheduler/berth/test/perf/contend"
)

const (
	live    = "live"
	drain   = "drain"
	preempt = "preempt"
	// open lets pods arrive at a rate, whatever becomes of them.
	open = "open"
	// failover has two replicas, of which the one that leads is killed.
	failover = "failover"

	namespace = "bench"
	// stopWithin bounds the end of a run.
	stopWithin = 2 * time.Minute
)

var modesInOrder = []string{live, drain, preempt, open, failover}

// bench is one measurement: all runs of all contenders.
type bench struct {
	options
	programs harness.Programs
}

// result is one run.
type result struct {
	Contender string `json:"contender"`
	Mode      string `json:"mode"`
	Run       int    `json:"run"`
	Pods      int    `json:"pods"`
	// WallSeconds is from the first creation (live) or the start of the contender's process
	// (drain) to the last bind.
	WallSeconds float64 `json:"wallSeconds"`
	// BindSeconds is from the first bind to the last.
	BindSeconds float64 `json:"bindSeconds"`
	// PodsPerSecond is Pods by WallSeconds (live) or by BindSeconds (drain).
	PodsPerSecond float64 `json:"podsPerSecond"`
	// Latency is per pod, from its appearance (live, open) or the contender's start (drain) to its bind.
	Latency latency `json:"latencyMillis"`
	// Arrival is about modes open and failover, Gap about failover alone.
	Arrival *arrival `json:"arrival,omitempty"`
	Gap     *gap     `json:"gap,omitempty"`
	shape
	// Evicted is how many pods went for them, in mode preempt.
	Evicted int `json:"evicted,omitempty"`
	// EventSeconds is from the last bind until every pod's Scheduled event was there, as far as
	// looking after the last bind can tell. 0 for raw contenders, and in modes preempt and failover.
	EventSeconds float64 `json:"eventSeconds,omitempty"`
	// CPUSeconds is what the contender's processes used from the same moment until the last event; 0 in mode
	// failover, where one of them takes with it how much it has used.
	CPUSeconds float64 `json:"cpuSeconds"`
	// Cluster is what the cluster had to do meanwhile.
	Cluster clusterLoad `json:"cluster"`
}

// shape is a run in detail.
type shape struct {
	// Curve is how many pods were bound after so many seconds, Distribution which percentage of
	// latencies is at most so many milliseconds.
	Curve        [][2]float64 `json:"curve"`
	Distribution [][2]float64 `json:"distribution"`
}

// all runs everything, alternating between contenders. It stops at the first run that fails.
func (b *bench) all(ctx context.Context) ([]result, error) {
	var results []result
	for i := range b.runs * len(b.modes) * len(contend.Contenders) {
		run, rest := i/(len(b.modes)*len(contend.Contenders))+1, i%(len(b.modes)*len(contend.Contenders))
		mode, c := b.modes[rest/len(contend.Contenders)], contend.Contenders[rest%len(contend.Contenders)]
		if !slices.Contains(b.contenders, c.Name) || c.Raw && mode != drain && mode != open ||
			c.StartPair == nil && mode == failover {
			continue
		}
		r, err := b.run(ctx, c, mode)
		if err != nil {
			return nil, fmt.Errorf("%s, %s, run %d: %w", c.Name, mode, run, err)
		}
		r.Run = run
		results = append(results, r)
		fmt.Fprintf(os.Stderr, "%-16s %-5s run %d: %6.1f s, %7.1f pods/s, p50 %.0f ms, p99 %.0f ms, %.1f CPU s\n",
			r.Contender, r.Mode, r.Run, r.WallSeconds, r.PodsPerSecond, r.Latency.P50, r.Latency.P99, r.CPUSeconds)
	}
	return results, nil
}

// run is one contender on one fresh cluster.
func (b *bench) run(ctx context.Context, c contend.Contender, mode string) (result, error) {
	ctx, cancel := context.WithTimeout(ctx, b.timeout)
	defer cancel()
	ground, err := b.open(ctx)
	var r result
	if err == nil {
		r, err = ground.measure(ctx, c, mode, b)
	}
	// The end comes even when ctx is over.
	ending, cancelEnding := context.WithTimeout(context.WithoutCancel(ctx), stopWithin)
	defer cancelEnding()
	return r, errors.Join(err, ground.close(ending))
}

// ground is the cluster of one run and what runs on it.
type ground struct {
	contend.Field
	seen *podWatch
	// stood is how many pods stood there in mode preempt.
	stood int
	// kill ends the replica that leads, in mode failover; killed is when that was.
	kill   func()
	killed time.Time
	contend.Running
}

// open starts a cluster. The ground is there, to be closed, even on error.
func (b *bench) open(ctx context.Context) (*ground, error) {
	dir, err := os.MkdirTemp("", "berth-bench-")
	g := &ground{Field: contend.Field{Programs: b.programs, Dir: dir, Namespace: namespace}}
	if err != nil {
		return g, err
	}
	if b.profiling {
		g.Args = []string{"--profiling"}
	}
	if g.Config, err = contend.WriteConfig(dir); err != nil {
		return g, err
	}
	g.Cluster, err = b.programs.StartCluster(ctx, harness.ClusterConfig{
		Dir: filepath.Join(dir, "cluster"), Nodes: filepath.Join(b.programs.Root, b.nodes), NoKubelets: true,
	})
	if err != nil {
		return g, err
	}
	if err := harness.CreateNamespace(ctx, g.Cluster.Client, harness.Namespace(namespace)); err != nil {
		return g, err
	}
	g.seen, err = watchPods(ctx, g.Cluster.Rest, b.pods)
	return g, err
}

// close ends everything and removes what was written.
func (g *ground) close(ctx context.Context) error {
	var errs []error
	if g.seen != nil {
		g.seen.stop()
	}
	errs = append(errs, g.Stop(ctx))
	if g.Cluster != nil {
		errs = append(errs, g.Cluster.Stop(ctx))
	}
	return errors.Join(append(errs, os.RemoveAll(g.Dir))...)
}

// measure is steps 1 to 4 of a run.
func (g *ground) measure(ctx context.Context, c contend.Contender, mode string, b *bench) (result, error) {
	pods := b.workload(mode)
	r := result{Contender: c.Name, Mode: mode, Pods: len(pods)}
	start := func() error { return g.start(ctx, c, mode, b) }
	var due map[string]time.Time
	create := func() (err error) { due, err = g.create(ctx, pods, mode, b.rate); return err }
	first, second := start, create
	if mode == drain {
		first, second = create, start
	}
	// 1. What is there before the clock starts.
	if mode == preempt {
		if err := g.stand(ctx, b.standing); err != nil {
			return r, err
		}
	}
	if err := first(); err != nil {
		return r, err
	}
	usedBefore, err := g.used(mode)
	if err != nil {
		return r, err
	}
	loadBefore, err := g.load(ctx)
	if err != nil {
		return r, err
	}
	// 2. What the clock is about.
	begin := time.Now()
	defer leave(ctx, g.Cluster.Client, b.leaving)()
	if err := second(); err != nil {
		return r, err
	}
	// 3. Until the last pod is bound.
	if err := g.seen.wait(ctx); err != nil {
		return r, err
	}
	if mode != preempt && mode != failover && !c.Raw {
		if r.EventSeconds, err = g.told(ctx, len(pods)); err != nil {
			return r, err
		}
	}
	usedAfter, err := g.used(mode)
	if err != nil {
		return r, err
	}
	r.CPUSeconds = (usedAfter - usedBefore).Seconds()
	loadAfter, err := g.load(ctx)
	if err != nil {
		return r, err
	}
	r.Cluster = loadAfter.since(loadBefore)
	g.seen.fill(&r, begin)
	r.Arrival, r.Gap = g.seen.arrival(due, begin), g.seen.gap(g.killed)
	if mode == preempt {
		if r.Evicted, err = g.evicted(ctx); err != nil {
			return r, err
		}
	}
	// 4. The placements themselves.
	return r, g.audit(ctx, len(pods))
}

// start starts the contender, and has it come to where the mode begins.
func (g *ground) start(ctx context.Context, c contend.Contender, mode string, b *bench) error {
	g.Coming = mode == open
	var err error
	if mode == failover {
		g.kill, err = c.StartPair(ctx, &g.Field, &g.Running)
	} else {
		err = c.Start(ctx, &g.Field, &g.Running)
	}
	if err != nil {
		return err
	}
	switch mode {
	case preempt:
		return g.warmUp(ctx)
	case open, failover:
		return g.calm(ctx)
	}
	return g.prepare(ctx, b.blocked, b.leaving)
}

// told waits for the events of so many pods, and says how long that took.
func (g *ground) told(ctx context.Context, pods int) (seconds float64, err error) {
	bound := time.Now()
	err = told(ctx, g.Cluster.Client, pods)
	return time.Since(bound).Seconds(), err
}

// used is the processor time of the contender so far.
func (g *ground) used(mode string) (time.Duration, error) {
	if mode == failover {
		return 0, nil
	}
	return harness.CPUTime(g.PIDs...)
}

// create creates the pods: at the rate in modes open and failover, and says when each was due; else as fast as it can.
func (g *ground) create(
	ctx context.Context, pods []*corev1.Pod, mode string, rate float64,
) (due map[string]time.Time, err error) {
	switch mode {
	case open:
		return createAt(ctx, g.Cluster.Client, pods, rate)
	case failover:
		return g.createAndKill(ctx, pods, rate)
	}
	return nil, harness.CreatePods(ctx, g.Cluster.Client, pods)
}

// audit checks every placement from the API server's own state.
func (g *ground) audit(ctx context.Context, pods int) error {
	nodes, all, err := harness.ListAll(ctx, g.Cluster.Client)
	if err != nil {
		return err
	}
	bound := 0
	for i := range all {
		if all[i].Namespace == namespace && all[i].Spec.NodeName != "" {
			bound++
		}
	}
	if bound != pods {
		return fmt.Errorf("audit: %d of %d pods are bound", bound, pods)
	}
	if wrong := audit.Check(nodes, all); len(wrong) > 0 {
		return fmt.Errorf("audit: %d findings, the first: %s", len(wrong), wrong[0])
	}
	return nil
}

// workload is the pods of one run.
func (b *bench) workload(mode string) []*corev1.Pod {
	pods := make([]*corev1.Pod, b.pods)
	for i := range pods {
		name := fmt.Sprintf("pod-%05d", i)
		if pods[i] = newPod(namespace, name, "100m"); mode == preempt {
			pods[i] = prioritized(namespace, name, high)
		}
	}
	return pods
}
