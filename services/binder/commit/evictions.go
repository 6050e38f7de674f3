package commit

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
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
	observeEviction(e, answer)
	v.logger.Info("eviction",
		"pod", ref(e.Pod), "dryRun", e.DryRun, "delete", e.Delete,
		"result", answer.Result.String(), "intercepted", answer.Intercepted, telemetry.KeyError, answer.Problem)
	return answer
}

// postEviction sends one request: to the eviction subresource, which checks the budgets, or a deletion, which does not.
// Both have the UID as a precondition. After a conflict, and if the pod is not found, it reads the pod. The Eviction
// has the annotations of sigs.k8s.io/descheduler (pkg/descheduler/evictions evictPod).
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
			ObjectMeta: metav1.ObjectMeta{
				Namespace: e.Pod.Namespace, Name: e.Pod.Name, Annotations: evictionAnnotations(e),
			},
			DeleteOptions: &options,
		})
	}
	switch {
	case err == nil:
		return effect.Answered{Result: effect.Done}
	case apierrors.IsTooManyRequests(err):
		return effect.Answered{Result: effect.Throttled, Problem: err.Error(), Intercepted: intercepted(err)}
	case deniedByWebhook(err), webhookFailed(err):
		return effect.Answered{Result: effect.Refused, Problem: err.Error(), Intercepted: intercepted(err)}
	case apierrors.IsConflict(err):
		return v.goneOr(ctx, e.Pod, effect.Refused, err)
	case apierrors.IsNotFound(err):
		return v.goneOr(ctx, e.Pod, effect.Unknown, err)
	}
	return failed(err)
}

// evictionAnnotations returns the annotations of an Eviction; nil if it has neither reason nor requester.
func evictionAnnotations(e effect.Evict) map[string]string {
	if e.Reason == "" && e.RequestedBy == "" {
		return nil
	}
	return map[string]string{"reason": e.Reason, "requested-by": e.RequestedBy}
}

// evacuation is a part of the message with which KubeVirt's webhook refuses an eviction after it has begun to migrate
// the virtual machine. sigs.k8s.io/descheduler recognises the answer by it (EvictionInBackgroundErrorText).
const evacuation = "Eviction triggered evacuation"

// intercepted reports whether a refusal is one with which a controller takes the eviction on. A webhook names the
// evacuation (KubeVirt), or denies the request as a failure (Strimzi's drain cleaner answers 500); one that denies it
// as forbidden or invalid applies a policy. Or the webhook lets the request pass, and relies on a disruption budget
// that allows nothing (the drain cleaner's legacy mode, and older versions of KubeVirt). A webhook that does not answer
// in time may have acted as well. A 429 without these causes is the API server's own load.
func intercepted(err error) bool {
	status, ok := statusOf(err)
	switch {
	case !ok:
		return false
	case webhookFailed(err):
		return true
	case deniedByWebhook(err):
		return status.Code == http.StatusTooManyRequests || status.Code >= http.StatusInternalServerError
	case status.Code != http.StatusTooManyRequests:
		return false
	}
	return strings.Contains(status.Message, evacuation) || apierrors.HasStatusCause(err, policyv1.DisruptionBudgetCause)
}

// deniedByWebhook reports whether an admission webhook has denied a request, with whatever code: then nothing of it
// has been carried out. A webhook that cannot be reached has another message. The form of the message is
// apiserver's (pkg/admission/plugin/webhook/errors ToStatusErr).
func deniedByWebhook(err error) bool {
	status, ok := statusOf(err)
	return ok && strings.HasPrefix(status.Message, "admission webhook ") &&
		strings.Contains(status.Message, " denied the request")
}

// webhookFailed reports whether an admission webhook whose failure policy is Fail could not be called, or has not
// answered in time. Admission comes before the eviction, so nothing of it has been carried out, and the message names
// the webhook. The form of the message is apiserver's (pkg/admission/plugin/webhook/validating/dispatcher.go, and
// ErrCallingWebhook of pkg/util/webhook).
func webhookFailed(err error) bool {
	status, ok := statusOf(err)
	return ok && status.Code == http.StatusInternalServerError &&
		strings.HasPrefix(status.Message, "Internal error occurred: failed calling webhook ")
}

// statusOf returns the API server's answer to a request that failed; false if there was none.
func statusOf(err error) (metav1.Status, bool) {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return metav1.Status{}, false
	}
	return status.Status(), true
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
