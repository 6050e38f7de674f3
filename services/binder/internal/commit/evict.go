package commit

import (
	"context"
	"encoding/json"
	"strconv"
	"time"

	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/pkg/telemetry"
	"github.com/berth-scheduler/berth/services/binder/internal/decide"
)

// evictInTime carries out an eviction, unless it would begin after its NotAfter: the worker, or the whole process,
// was suspended since the core emitted it, and another binder may have taken the claim over.
func (r *Room) evictInTime(ctx context.Context, e decide.Evict) decide.Input {
	if r.timeFor(e.NotAfter) <= 0 {
		r.deps.Logger.Warn("eviction abandoned: timed out", "pod", ref(e.Pod))
		return decide.Untaken{Op: e.Op}
	}
	return r.evict(ctx, e)
}

// timeFor returns how long a call may take from now that must have ended by notAfter, which may be zero for no limit.
func (r *Room) timeFor(notAfter time.Time) time.Duration {
	if notAfter.IsZero() {
		return changeTimeout
	}
	now := r.deps.Clock.Now()
	return timeLeft(notAfter.Sub(now), notAfter.Round(0).Sub(now.Round(0)))
}

// timeLeft returns how long a call may take, given the time left by the monotonic clock, which stops while a machine
// is suspended, and by the wall clock, which may be adjusted: the lesser of both counts.
func timeLeft(monotonic, wall time.Duration) time.Duration {
	return min(changeTimeout, monotonic, wall)
}

func (r *Room) evict(ctx context.Context, e decide.Evict) decide.Answered {
	ctx, done := evictSpan(ctx, e)
	answer := r.postEviction(ctx, e)
	answer.Op = e.Op
	done(answer)
	observeEviction(e, answer.Result)
	r.deps.Logger.Info("eviction",
		"pod", ref(e.Pod), "dryRun", e.DryRun, "delete", e.Delete, "result", answer.Result.String(),
		telemetry.KeyError, answer.Problem)
	return answer
}

func (r *Room) postEviction(ctx context.Context, e decide.Evict) decide.Answered {
	uid := types.UID(e.Pod.UID)
	options := metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &uid}, GracePeriodSeconds: e.GracePeriodSeconds,
	}
	if e.DryRun {
		options.DryRun = []string{metav1.DryRunAll}
	}
	ectx, cancel := context.WithTimeout(ctx, r.timeFor(e.NotAfter))
	defer cancel()
	pods := r.deps.API.writes.CoreV1().Pods(e.Pod.Namespace)
	var err error
	if e.Delete {
		err = pods.Delete(ectx, e.Pod.Name, options)
	} else {
		err = pods.EvictV1(ectx, &policyv1.Eviction{
			ObjectMeta: metav1.ObjectMeta{Namespace: e.Pod.Namespace, Name: e.Pod.Name}, DeleteOptions: &options,
		})
	}
	switch {
	case err == nil:
		return decide.Answered{Result: decide.Done}
	case apierrors.IsTooManyRequests(err):
		return decide.Answered{Result: decide.Throttled, Problem: err.Error()}
	case apierrors.IsConflict(err):
		return r.goneOr(ctx, e.Pod, decide.Refused, err)
	case apierrors.IsNotFound(err):
		return r.goneOr(ctx, e.Pod, decide.Unknown, err)
	}
	return failed(err)
}

// nominate writes status.nominatedNodeName, the node where a place is held for the pod.
func (r *Room) nominate(ctx context.Context, e decide.Nominate) decide.Answered {
	type status struct {
		NominatedNodeName *string `json:"nominatedNodeName"`
	}
	name := &e.NodeName
	if e.NodeName == "" {
		name = nil // a patch with null removes the field
	}
	body, err := json.Marshal(struct {
		Metadata patchMeta `json:"metadata"`
		Status   status    `json:"status"`
	}{patchMeta{UID: e.Pod.UID}, status{name}})
	if err != nil {
		return decide.Answered{Op: e.Op, Result: decide.Refused, Problem: err.Error()}
	}
	obj, answer := r.patch(ctx, e.Pod, body, "status")
	answer.Op = e.Op
	if answer.Result == decide.Done {
		answer.ResourceVersion = state.NewPod(obj).ResourceVersion
	} else if answer.Result != decide.Gone {
		r.deps.Logger.Warn("nominated node not written",
			"pod", ref(e.Pod), "node", e.NodeName, "result", answer.Result.String(), telemetry.KeyError, answer.Problem)
	}
	return answer
}

// readBudget reads a disruption budget from the API server with a quorum read.
func (r *Room) readBudget(ctx context.Context, e decide.ReadBudget) decide.Answered {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	pdb, err := r.deps.API.writes.PolicyV1().PodDisruptionBudgets(e.Namespace).Get(ctx, e.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return decide.Answered{Op: e.Op, Result: decide.Gone}
	case err != nil:
		return decide.Answered{Op: e.Op, Result: decide.Unknown, Problem: err.Error()}
	}
	rv, err := strconv.ParseUint(pdb.ResourceVersion, 10, 64)
	if err != nil {
		return decide.Answered{Op: e.Op, Result: decide.Unknown, Problem: err.Error()}
	}
	return decide.Answered{Op: e.Op, Result: decide.Done, ResourceVersion: rv}
}
