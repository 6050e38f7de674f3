package duel

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/test/e2e/harness"
	"github.com/berth-scheduler/berth/test/observe"
	"github.com/berth-scheduler/berth/test/perf/bench"
	"github.com/berth-scheduler/berth/test/perf/contend"
)

// settle is how long no pod arrives at the end, so that everything in progress can end: the slowest pod takes eight
// seconds to stop, and the longest pause after an attempt is ten.
const settle = 30 * time.Second

// duel is all plays.
type duel struct {
	options
	programs harness.Programs
}

// result is the result of one play.
type result struct {
	contender string
	seed      int64
	// arrived pods, and those of them that were bound at some time.
	arrived, bound int
	// waiting are the pods that wait in the end, with their messages.
	waiting []string
	// evictions of any kind, and those for another pod.
	evictions, preempted int
	findings             []observe.Finding
	// refused are errors of steps, which are answers of the API server.
	refused []string
}

func (r result) count(kind observe.Kind) int {
	n := 0
	for _, f := range r.findings {
		if f.Kind == kind {
			n++
		}
	}
	return n
}

// all plays every seed against every contender.
func (d *duel) all(ctx context.Context) ([]result, error) {
	var results []result
	for i := range int64(d.seeds) {
		for _, c := range contenders {
			if !slices.Contains(d.contenders, c.name) {
				continue
			}
			r, err := d.play(ctx, c, d.seed+i)
			if err != nil {
				return nil, fmt.Errorf("%s, seed %d: %w", c.name, d.seed+i, err)
			}
			fmt.Fprintf(os.Stderr, "%-14s seed %d: %s\n", c.name, r.seed, r)
			results = append(results, r)
		}
	}
	return results, nil
}

// play is one script against one contender on a fresh cluster.
func (d *duel) play(ctx context.Context, c contender, seed int64) (r result, err error) {
	g, err := contend.NewGround(d.programs, namespace)
	defer func() { err = errors.Join(err, g.Close(ctx)) }()
	if err != nil {
		return r, err
	}
	if err := g.StartCluster(ctx, harness.ClusterConfig{}); err != nil {
		return r, err
	}
	if err := c.start(ctx, g); err != nil {
		return r, err
	}
	if err := createObjects(ctx, g.Cluster.Client); err != nil {
		return r, err
	}
	watching, cancel := context.WithCancel(ctx)
	defer cancel()
	o, err := observe.Start(watching, g.Cluster.Client)
	if err != nil {
		return r, err
	}
	r = result{contender: c.name, seed: seed}
	if err := perform(ctx, g, o, script(seed, d.length), &r); err != nil {
		return r, err
	}
	return r, r.fill(ctx, g, o)
}

// perform lets everything happen at its time, and then lets time pass.
func perform(ctx context.Context, g *contend.Ground, o *observe.Observer, steps []step, r *result) error {
	begin := time.Now()
	var last time.Duration
	for _, s := range steps {
		if err := bench.Pause(ctx, time.Until(begin.Add(s.at))); err != nil {
			return err
		}
		last = s.at
		switch s.do {
		case arrive:
			r.arrived++
		case leave:
			o.Excuse(namespace, s.pod)
		}
		if err := s.perform(ctx, g.Cluster.Client); err != nil {
			if ctx.Err() != nil {
				return err
			}
			r.refused = append(r.refused, fmt.Sprintf("%s %s: %v", s.do, s.pod, err))
		}
	}
	return bench.Pause(ctx, time.Until(begin.Add(last+settle)))
}

// message is why a pod waits.
func message(pod *corev1.Pod) string {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled {
			return c.Message
		}
	}
	return "nothing yet"
}

// fill takes the observer's account.
func (r *result) fill(ctx context.Context, g *contend.Ground, o *observe.Observer) error {
	pods, err := g.Cluster.Client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: "app=urgent"})
	if err != nil {
		return err
	}
	for i := range pods.Items {
		if pod := &pods.Items[i]; pod.Spec.NodeName == "" {
			r.waiting = append(r.waiting, fmt.Sprintf("%s (%s, %s CPU): %s", pod.Name, pod.Spec.PriorityClassName,
				pod.Spec.Containers[0].Resources.Requests.Cpu(), message(pod)))
		}
	}
	evictions, err := o.Evictions()
	if err != nil {
		return err
	}
	r.evictions, r.preempted, r.bound = len(evictions), o.Preempted(), o.Bound("urgent-")
	r.findings, err = o.Findings()
	return err
}
