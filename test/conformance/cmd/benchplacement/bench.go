package main

import (
	"context"
	"fmt"
	"runtime"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/placement/placementbench"
)

const (
	// upstreamWarmup decisions of kube-scheduler are not counted. All of ours are, the first
	// of each class included.
	upstreamWarmup = 20
	// ourBatch is how many pods are made at a time for the engine: reading the process's
	// clocks costs as much as a few of its decisions.
	ourBatch = 1000
)

// bench measures one workload.
type bench struct {
	options
	load placementbench.Workload
}

// row is the result of one workload.
type row struct {
	Name, Title string
	Berth       figures
	// Sampled is kube-scheduler at its defaults, All over all nodes.
	Sampled, All figures
	// Checked decisions were compared; Differences describes those that differed.
	Checked     int
	Differences []string
}

// String is for the log of a run.
func (r row) String() string {
	return fmt.Sprintf("%s: %.0f/s (p50 %s, p99 %s), kube-scheduler %.1f/s sampling, %.1f/s over all nodes; "+
		"%d checked, %d wrong",
		r.Name, r.Berth.Rate(), r.Berth.P50, r.Berth.P99, r.Sampled.Rate(), r.All.Rate(), r.Checked, len(r.Differences))
}

// workload runs everything about one workload. Each run has its own cluster, and the previous cluster is garbage by
// that time, so that no contender's heap slows down another.
func (b *bench) workload(ctx context.Context) (row, error) {
	r := row{Name: b.load.Name, Title: b.load.Title}
	var err error
	if r.Sampled, err = b.upstream(ctx, sampled); err != nil {
		return r, err
	}
	var chosen []string
	if r.Berth, err = b.ours(ctx, &chosen); err != nil {
		return r, err
	}
	if r.All, err = b.upstream(ctx, allNodes); err != nil {
		return r, err
	}
	if b.samples > 0 {
		r.Checked, r.Differences, err = b.check(ctx, chosen)
	}
	return r, err
}

func (b *bench) upstream(ctx context.Context, percentage int32) (figures, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	u, err := newUpstream(ctx, b.load.Cluster(b.nodes), percentage)
	if err != nil {
		return figures{}, err
	}
	r := race{
		load: b.load, contender: u, churn: b.churn(),
		batch: 1, warmup: min(upstreamWarmup, b.load.Decisions/2), box: b.box,
	}
	runtime.GC()
	return r.run(ctx)
}

func (b *bench) ours(ctx context.Context, chosen *[]string) (figures, error) {
	o, err := newOurs(b.load.Cluster(b.nodes))
	if err != nil {
		return figures{}, err
	}
	r := race{
		load: b.load, contender: o, churn: b.churn(),
		batch: ourBatch, chosen: chosen,
	}
	runtime.GC()
	return r.run(ctx)
}

// churn has nodes of its own.
func (b *bench) churn() *placementbench.Churn {
	nodes := make([]*corev1.Node, b.nodes)
	for i := range nodes {
		nodes[i] = b.load.Node(i)
	}
	return b.load.NewChurn(nodes)
}
