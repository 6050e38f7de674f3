package main

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// maxDifferences bounds how many differences of one workload are reported.
const maxDifferences = 5

// check repeats our run together with a kube-scheduler that receives all placements and events. At evenly spaced
// decisions it asks kube-scheduler for the scores of all nodes, and compares. All placements must be those of the
// timed run.
func (b *bench) check(ctx context.Context, chosen []string) (checked int, differences []string, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	u, err := newUpstream(ctx, b.load.Cluster(b.nodes), allNodes)
	if err != nil {
		return 0, nil, err
	}
	o, err := newOurs(b.load.Cluster(b.nodes))
	if err != nil {
		return 0, nil, err
	}
	r := race{load: b.load, churn: b.churn()}
	every := max(1, b.load.Decisions/b.samples)
	for i := range b.load.Decisions {
		if e, ok := r.event(i); ok {
			theirs := e
			theirs.After = e.After.DeepCopy()
			if err := errors.Join(o.change(e), u.change(theirs)); err != nil {
				return checked, differences, err
			}
		}
		pod := b.load.Pending(i)
		var want verdict
		// The middle of each stretch: the very first decision says little.
		compared := i%every == every/2
		if compared {
			if want, err = u.verdict(ctx, pod); err != nil {
				return checked, differences, err
			}
			checked++
		}
		got, err := follow(ctx, o, u, pod)
		if err != nil {
			return checked, differences, err
		}
		if len(differences) < maxDifferences && got != chosen[i] {
			differences = append(differences, fmt.Sprintf("pod %d: node %q, in the timed run %q", i, got, chosen[i]))
		}
		if complaint := want.disagrees(o); compared && complaint != "" && len(differences) < maxDifferences {
			differences = append(differences, fmt.Sprintf("pod %d (%s): %s", i, pod.Name, complaint))
		}
	}
	return checked, differences, nil
}

// follow lets the engine decide and delivers the placement to kube-scheduler.
func follow(ctx context.Context, o *ours, u *upstream, pod *corev1.Pod) (string, error) {
	if err := o.accept(ctx, pod.DeepCopy()); err != nil {
		return "", err
	}
	node, err := o.decide(ctx)
	if err != nil || node == "" {
		return node, err
	}
	pod.Spec.NodeName = node
	return node, u.place(pod)
}

// verdict is kube-scheduler's opinion on all nodes.
type verdict struct {
	// totals are the scores of the feasible nodes, best the highest of them.
	totals map[string]int64
	best   int64
}

// verdict asks every node, as schedulePod does in pkg/scheduler/schedule_one.go. A single
// feasible node is not scored.
func (u *upstream) verdict(ctx context.Context, pod *corev1.Pod) (verdict, error) {
	v := verdict{totals: map[string]int64{}}
	if err := u.scheduler.Cache.UpdateSnapshot(u.logger, u.snapshot); err != nil {
		return v, err
	}
	state := framework.NewCycleState()
	narrowed, status, _ := u.framework.RunPreFilterPlugins(ctx, state, pod)
	if !status.IsSuccess() {
		return v, refused(status)
	}
	nodes, err := u.snapshot.List()
	if err != nil {
		return v, err
	}
	var feasible []fwk.NodeInfo
	for _, n := range nodes {
		if !narrowed.AllNodes() && !narrowed.NodeNames.Has(n.Node().Name) {
			continue
		}
		status := u.framework.RunFilterPlugins(ctx, state, pod, n)
		if status.IsSuccess() {
			feasible = append(feasible, n)
		} else if err := refused(status); err != nil {
			return v, err
		}
	}
	return v, u.score(ctx, state, pod, feasible, &v)
}

func (u *upstream) score(
	ctx context.Context, state fwk.CycleState, pod *corev1.Pod, feasible []fwk.NodeInfo, v *verdict,
) error {
	if len(feasible) < 2 {
		for _, n := range feasible {
			v.totals[n.Node().Name] = 0
		}
		return nil
	}
	if status := u.framework.RunPreScorePlugins(ctx, state, pod, feasible); !status.IsSuccess() {
		return status.AsError()
	}
	scores, status := u.framework.RunScorePlugins(ctx, state, pod, feasible)
	if !status.IsSuccess() {
		return status.AsError()
	}
	for _, s := range scores {
		v.totals[s.Name] = s.TotalScore
		v.best = max(v.best, s.TotalScore)
	}
	return nil
}

// refused is nil for a refusal, the error for anything else.
func refused(status *fwk.Status) error {
	if status.IsRejected() {
		return nil
	}
	return status.AsError()
}

// disagrees compares the engine's newest answer; empty when all is well.
func (v verdict) disagrees(o *ours) string {
	r := o.last
	if r.FeasibleCount != len(v.totals) {
		return fmt.Sprintf("%d nodes are feasible, kube-scheduler says %d", r.FeasibleCount, len(v.totals))
	}
	if len(r.Feasible) == 0 {
		return ""
	}
	name, total := r.Feasible[0].Node.Node.Name, r.Feasible[0].Total
	switch theirs, ok := v.totals[name]; {
	case !ok:
		return fmt.Sprintf("%s is not feasible for kube-scheduler", name)
	case theirs != v.best:
		return fmt.Sprintf("%s has kube-scheduler's score %d, its best is %d", name, theirs, v.best)
	case theirs != total:
		return fmt.Sprintf("%s has score %d, kube-scheduler's is %d", name, total, theirs)
	default:
		return ""
	}
}
