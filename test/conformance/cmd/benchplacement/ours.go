package main

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/placement/placementbench"
	"github.com/berth-scheduler/berth/pkg/state"
)

// ours is the engine as a contender.
type ours struct {
	site    *placementbench.Site
	pending []*state.Pod
	// decided counts, for seeds; last is the answer to the newest decision.
	decided uint64
	last    placement.Result
}

func newOurs(c placementbench.Cluster) (*ours, error) {
	site, err := placementbench.NewSite(c)
	return &ours{site: site}, err
}

// accept adds the pod with the state that applying its fact derives.
func (o *ours) accept(_ context.Context, pod *corev1.Pod) error {
	o.pending = append(o.pending, placementbench.Arrive(pod))
	return nil
}

func (o *ours) decide(context.Context) (string, error) {
	pod := o.pending[0]
	o.pending = o.pending[1:]
	o.decided++
	o.last = o.site.Decide(pod, o.decided)
	if o.last.Err != nil || len(o.last.Feasible) == 0 {
		return "", o.last.Err
	}
	return o.last.Feasible[0].Node.Node.Name, nil
}

func (o *ours) change(e placementbench.NodeEvent) error {
	o.site.Change(e)
	return nil
}
