package commit

import (
	"context"
	"log/slog"
	"strconv"
	"time"

	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/berth-scheduler/berth/pkg/telemetry"
	"github.com/berth-scheduler/berth/services/binder/decide/effect"
)

// evictions evicts and deletes pods, and reads the budgets that limit evictions.
type evictions struct {
	*pods
	logger *slog.Logger
	clock  clock.PassiveClock
}

// evictInTime carries out an eviction, unless it would begin after its NotAfter: the worker, or the whole process,
// was suspended since the core emitted it, and another binder may have taken the claim over.
func (v *evictions) evictInTime(ctx context.Context, e effect.Evict) effect.Input {
	if timeFor(v.clock, e.NotAfter) <= 0 {
		v.logger.Warn("eviction abandoned: timed out", "pod", ref(e.Pod))
		return effect.NotStarted{Op: e.Op}
	}
	return v.evict(ctx, e)
}

// timeFor returns how long a call may take from now that must have ended by notAfter, which may be zero for no limit.
func timeFor(c clock.PassiveClock, notAfter time.Time) time.Duration {
	if notAfter.IsZero() {
		return changeTimeout
	}
	now := c.Now()
	return timeLeft(notAfter.Sub(now), notAfter.Round(0).Sub(now.Round(0)))
}

// timeLeft returns how long a call may take, given the time left by the monotonic clock, which stops while a machine
// is suspended, and by the wall clock, which may be adjusted: the lesser of both counts.
func timeLeft(monotonic, wall time.Duration) time.Duration {
	return min(changeTimeout, monotonic, wall)
}

// evict carries out an eviction or its dry run, and traces, counts and logs the answer.
func (v *evictions) evict(ctx context.Context, e effect.Evict) effect.Answered {
	ctx, done := evictSpan(ctx, e)
	answer := v.postEviction(ctx, e)
	answer.Op = e.Op
	done(answer)
	observeEviction(e, answer.Result)
	v.logger.Info("eviction",
		"pod", ref(e.Pod), "dryRun", e.DryRun, "delete", e.Delete,
		"result", answer.Result.String(), telemetry.KeyError, answer.Problem)
	return answer
}

// postEviction sends one request: to the eviction subresource, which checks the budgets, or a deletion, which does not.
// Both have the UID as a precondition. After a conflict, and if the pod is not found, it reads the pod.
func (v *evictions) postEviction(ctx context.Context, e effect.Evict) effect.Answered {
	uid := types.UID(e.Pod.UID)
	options := metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &uid}, GracePeriodSeconds: e.GracePeriodSeconds,
	}
	// A dry run checks the budget like an eviction, and spends nothing from it.
	if e.DryRun {
		options.DryRun = []string{metav1.DryRunAll}
	}
	ectx, cancel := context.WithTimeout(ctx, timeFor(v.clock, e.NotAfter))
	defer cancel()
	pods := v.client.CoreV1().Pods(e.Pod.Namespace)
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
		return effect.Answered{Result: effect.Done}
	case apierrors.IsTooManyRequests(err):
		return effect.Answered{Result: effect.Throttled, Problem: err.Error()}
	case apierrors.IsConflict(err):
		return v.goneOr(ctx, e.Pod, effect.Refused, err)
	case apierrors.IsNotFound(err):
		return v.goneOr(ctx, e.Pod, effect.Unknown, err)
	}
	return failed(err)
}

// readBudget reads a disruption budget from the API server with a quorum read.
func (v *evictions) readBudget(ctx context.Context, e effect.ReadBudget) effect.Answered {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	pdb, err := v.client.PolicyV1().PodDisruptionBudgets(e.Namespace).Get(ctx, e.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return effect.Answered{Op: e.Op, Result: effect.Gone}
	case err != nil:
		return effect.Answered{Op: e.Op, Result: effect.Unknown, Problem: err.Error()}
	}
	rv, err := strconv.ParseUint(pdb.ResourceVersion, 10, 64)
	if err != nil {
		return effect.Answered{Op: e.Op, Result: effect.Unknown, Problem: err.Error()}
	}
	return effect.Answered{Op: e.Op, Result: effect.Done, ResourceVersion: rv}
}
