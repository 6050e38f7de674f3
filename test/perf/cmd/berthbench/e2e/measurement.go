package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/test/e2e/harness"
	"github.com/berth-scheduler/berth/test/perf/bench"
	"github.com/berth-scheduler/berth/test/perf/contend"
)

const (
	live    = "live"
	drain   = "drain"
	preempt = "preempt"
	// open lets pods arrive at a rate, independently of their binds.
	open = "open"
	// failover has two replicas; the leading one is killed.
	failover = "failover"

	namespace = "bench"
)

var modesInOrder = []string{live, drain, preempt, open, failover}

// measurement is all runs of all contenders.
type measurement struct {
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
	Latency bench.Latency `json:"latencyMillis"`
	// Arrival is about modes open and failover, Gap about failover alone.
	Arrival *arrival `json:"arrival,omitempty"`
	Gap     *gap     `json:"gap,omitempty"`
	shape
	// Evicted is how many pods were evicted for them, in mode preempt.
	Evicted int `json:"evicted,omitempty"`
	// EventSeconds is from the last bind until every pod's Scheduled event was there, as far as a look that begins
	// after the last bind can show. 0 for raw contenders, and in modes preempt and failover.
	EventSeconds float64 `json:"eventSeconds,omitempty"`
	// CPUSeconds is the processor time of the contender's processes from the same moment until the last event; 0 in
	// mode failover, where the killed process's time is lost.
	CPUSeconds float64 `json:"cpuSeconds"`
	// Cluster is the work of the cluster during that time.
	Cluster clusterLoad `json:"cluster"`
	// Memory is what the contender's processes have after that; nil for raw contenders and in mode failover.
	Memory *held `json:"memory,omitempty"`
}

// shape is a run in detail.
type shape struct {
	// Curve is how many pods were bound after so many seconds, Distribution which percentage of
	// latencies is at most so many milliseconds.
	Curve        [][2]float64 `json:"curve"`
	Distribution [][2]float64 `json:"distribution"`
}

// all runs everything, alternating between contenders. It stops at the first run that fails.
func (m *measurement) all(ctx context.Context) ([]result, error) {
	var results []result
	for i := range m.runs * len(m.modes) * len(contend.Contenders) {
		run, rest := i/(len(m.modes)*len(contend.Contenders))+1, i%(len(m.modes)*len(contend.Contenders))
		mode, c := m.modes[rest/len(contend.Contenders)], contend.Contenders[rest%len(contend.Contenders)]
		if !slices.Contains(m.contenders, c.Name) || c.Raw && mode != drain && mode != open ||
			c.StartPair == nil && mode == failover {
			continue
		}
		r, err := m.run(ctx, c, mode)
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
func (m *measurement) run(ctx context.Context, c contend.Contender, mode string) (r result, err error) {
	ctx, cancel := context.WithTimeout(ctx, m.timeout)
	defer cancel()
	g, err := m.open(ctx)
	defer func() { err = errors.Join(err, g.Close(ctx)) }()
	if err != nil {
		return r, err
	}
	return g.measure(ctx, c, mode, m)
}

// ground is the cluster of one run and what runs on it.
type ground struct {
	*contend.Ground
	seen *bench.PodWatch
	// stood is how many pods stood there in mode preempt.
	stood int
	// kill ends the replica that leads, in mode failover; killed is when that was.
	kill   func()
	killed time.Time
}

// open starts a cluster. The ground has to be closed, even after an error.
func (m *measurement) open(ctx context.Context) (g *ground, err error) {
	g = &ground{}
	if g.Ground, err = contend.NewGround(m.programs, namespace); err != nil {
		return g, err
	}
	g.Profiling(m.profiling || m.memory)
	g.Sync = m.fsync
	if err := g.StartPlain(ctx, m.nodes); err != nil {
		return g, err
	}
	if g.seen, err = bench.WatchPods(ctx, g.Cluster.Rest, namespace, m.pods); err != nil {
		return g, err
	}
	g.Add(g.seen.Stop)
	return g, nil
}

// measure is steps 1 to 4 of a run.
func (g *ground) measure(ctx context.Context, c contend.Contender, mode string, m *measurement) (result, error) {
	pods := m.workload(mode)
	r := result{Contender: c.Name, Mode: mode, Pods: len(pods)}
	start := func() error { return g.start(ctx, c, mode, m) }
	var due map[string]time.Time
	create := func() (err error) { due, err = g.create(ctx, pods, mode, m.rate); return err }
	first, second := start, create
	if mode == drain {
		first, second = create, start
	}
	// 1. The state before the clock starts.
	if mode == preempt {
		if err := g.stand(ctx, m.standing); err != nil {
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
	defer leave(ctx, g.Cluster.Client, m.leaving)()
	if err := second(); err != nil {
		return r, err
	}
	// 3. Until the last pod is bound.
	if err := g.seen.Wait(ctx); err != nil {
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
	if r.Memory, err = g.held(ctx, mode, m.memory); err != nil {
		return r, err
	}
	seen := podTimes(g.seen.Pods(namespace))
	seen.fill(&r, begin)
	r.Arrival, r.Gap = seen.arrival(due, begin), seen.gap(g.killed)
	if mode == preempt {
		if r.Evicted, err = g.evicted(ctx); err != nil {
			return r, err
		}
	}
	// 4. The placements themselves.
	return r, g.audit(ctx, len(pods))
}

// start starts the contender, and has it come to where the mode begins.
func (g *ground) start(ctx context.Context, c contend.Contender, mode string, m *measurement) error {
	g.Coming = mode == open
	var err error
	if mode == failover {
		g.kill, err = c.StartPair(ctx, g.Ground)
	} else {
		err = c.Start(ctx, g.Ground)
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
	return g.prepare(ctx, m.blocked, m.leaving)
}

// told waits for the events of so many pods, and returns how long that took.
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

// create creates the pods: at the rate in modes open and failover, and returns when each was due; else as fast as it
// can.
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

// audit checks every placement, and that all pods are placed.
func (g *ground) audit(ctx context.Context, pods int) error {
	all, err := g.Audit(ctx)
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
	return nil
}

// workload is the pods of one run.
func (m *measurement) workload(mode string) []*corev1.Pod {
	pods := make([]*corev1.Pod, m.pods)
	for i := range pods {
		name := fmt.Sprintf("pod-%05d", i)
		if pods[i] = newPod(namespace, name, "100m"); mode == preempt {
			pods[i] = prioritized(namespace, name, high)
		}
	}
	return pods
}
