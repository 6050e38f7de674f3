package e2e

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/test/perf/outcome"
)

const (
	// killAfter is the part of the pods that has arrived when the leader is killed: those after it show the effect on
	// pods that arrive during the failover, and how long the effect lasts.
	killAfter = 1. / 3
	// waitsLong is how long a pod waits that would not have without the kill.
	waitsLong = time.Second
)

// gap is the effect of the leading replica's death on pods.
type gap struct {
	// SilenceSeconds is the longest time without a bind from then on.
	SilenceSeconds float64 `json:"silenceSeconds"`
	// LongestWaitSeconds is the longest time from a pod's appearance to its bind, of the pods bound after the kill.
	LongestWaitSeconds float64 `json:"longestWaitSeconds"`
	// Delayed is how many pods waited for more than waitsLong, RecoveredSeconds from then until the last of them was
	// bound, 0 for none.
	Delayed          int     `json:"delayed"`
	RecoveredSeconds float64 `json:"recoveredSeconds"`
}

// createAndKill creates pods at a rate, and kills the replica that leads when killAfter of them should be there.
func (g *ground) createAndKill(
	ctx context.Context, pods []*corev1.Pod, rate float64,
) (due map[string]time.Time, err error) {
	killed := make(chan time.Time, 1)
	timer := time.AfterFunc(time.Duration(killAfter*float64(len(pods))/rate*float64(time.Second)), func() {
		killed <- time.Now()
		g.kill()
	})
	defer timer.Stop()
	if due, err = createAt(ctx, g.Cluster.Client, pods, rate); err != nil {
		return nil, err
	}
	select {
	case g.killed = <-killed:
		return due, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("the replica that leads has not been killed: %w", ctx.Err())
	}
}

// gap returns the effect of the kill on pods; nil without a kill.
func (p podTimes) gap(killed time.Time) *gap {
	if killed.IsZero() {
		return nil
	}
	var g gap
	var binds []time.Time
	for _, pod := range p {
		bound := pod.Bound
		if bound.Before(killed) {
			continue
		}
		binds = append(binds, bound)
		wait := bound.Sub(pod.Appeared)
		g.LongestWaitSeconds = max(g.LongestWaitSeconds, wait.Seconds())
		if wait > waitsLong {
			g.Delayed++
			g.RecoveredSeconds = max(g.RecoveredSeconds, bound.Sub(killed).Seconds())
		}
	}
	slices.SortFunc(binds, time.Time.Compare)
	last := killed
	for _, bound := range binds {
		g.SilenceSeconds = max(g.SilenceSeconds, bound.Sub(last).Seconds())
		last = bound
	}
	return &g
}

// medianGap is nil for runs of other modes.
func medianGap(runs []result) *gap {
	if runs[0].Gap == nil {
		return nil
	}
	of := func(value func(*gap) float64) float64 {
		return median(runs, func(r result) float64 { return value(r.Gap) })
	}
	return &gap{
		SilenceSeconds:     of(func(g *gap) float64 { return g.SilenceSeconds }),
		LongestWaitSeconds: of(func(g *gap) float64 { return g.LongestWaitSeconds }),
		Delayed:            int(of(func(g *gap) float64 { return float64(g.Delayed) })),
		RecoveredSeconds:   of(func(g *gap) float64 { return g.RecoveredSeconds }),
	}
}

// values adds what limits are about; peer is kube-scheduler's, nil without one.
func (g *gap) values(set func(string, float64), peer *gap) {
	set("silenceSeconds", g.SilenceSeconds)
	set("longestWaitSeconds", g.LongestWaitSeconds)
	set("delayed", float64(g.Delayed))
	set("recoveredSeconds", g.RecoveredSeconds)
	if peer != nil && peer != g {
		set("silenceRatio", g.SilenceSeconds/peer.SilenceSeconds)
		set("delayedRatio", float64(g.Delayed)/float64(max(1, peer.Delayed)))
	}
}

// gapTable is the table of mode failover.
func gapTable(rows []result) outcome.Table {
	t := outcome.Table{
		Title: fmt.Sprintf("Mode %s, %s pods, two replicas, the one that leads killed", failover,
			outcome.Number(float64(rows[0].Pods))),
		Head: []string{"contender", "longest time without a bind s", "longest wait s", "pods that waited over 1 s",
			"the last of them bound after s", "p50 ms", "p99 ms"},
	}
	for _, row := range rows {
		g := row.Gap
		line := []string{row.Contender}
		for _, x := range []float64{
			g.SilenceSeconds, g.LongestWaitSeconds, float64(g.Delayed), g.RecoveredSeconds, row.Latency.P50, row.Latency.P99,
		} {
			line = append(line, outcome.Number(x))
		}
		t.Rows = append(t.Rows, line)
	}
	return t
}
