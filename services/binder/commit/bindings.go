package commit

import (
	"context"
	"errors"
	"log/slog"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/berth-scheduler/berth/pkg/extender"
	"github.com/berth-scheduler/berth/pkg/telemetry"
	"github.com/berth-scheduler/berth/pkg/telemetry/alpha"
	"github.com/berth-scheduler/berth/services/binder/decide/effect"
)

// bindings binds pods, after their volumes and devices have been prepared.
type bindings struct {
	*pods
	binder    binder
	volumes   *volumeBinder
	claims    *claims
	extenders map[string]*extender.Set
	pace      *pace
	logger    *slog.Logger
	clock     clock.PassiveClock
}

// carryOut prepares the pod's volumes and devices, and binds it if they are ready.
// Volumes come first: while a claim waits for one, which may take minutes, no device claim is written.
func (b *bindings) carryOut(ctx context.Context, e effect.Bind) effect.Answered {
	if e.Volumes != nil {
		if answer := b.volumes.prepare(ctx, e); answer.Result != effect.Done {
			if answer.Result != effect.Waiting {
				alpha.VolumesNotBound()
			}
			return answer
		}
	}
	conditions := false
	if e.Devices != nil {
		answer := b.claims.prepare(ctx, e)
		if answer.Result != effect.Done {
			return answer
		}
		conditions = answer.Conditions
		version, answer := b.writeMappings(ctx, e)
		if answer.Result != effect.Done {
			return answer
		}
		e.ResourceVersion = version
	}
	answer := b.bind(ctx, e)
	answer.Conditions = conditions
	return answer
}

// bind binds the pod through the extender that is responsible for it, or else posts the Binding. It measures, traces
// and logs the answer. A lost bind is normal where many shards and controllers write, so it is logged at debug level.
func (b *bindings) bind(ctx context.Context, e effect.Bind) effect.Answered {
	ctx, done := bindSpan(ctx, e)
	begin := b.clock.Now()
	telemetry.Goroutines("binding", 1)
	answer, asked := b.extendersBind(ctx, e)
	if !asked {
		answer = b.postBinding(ctx, e)
	}
	telemetry.Goroutines("binding", -1)
	answer.Op = e.Op
	observeBind(e, answer.Result, b.clock.Since(begin))
	done(answer)
	switch answer.Result {
	case effect.Done:
		b.logger.Debug("Successfully bound pod to node", "pod", ref(e.Pod), "node", e.NodeName)
	case effect.Conflict, effect.AlreadyHere, effect.Elsewhere, effect.Gone:
		b.logger.Debug("bind lost", "pod", ref(e.Pod), "node", e.NodeName, telemetry.KeyError, answer.Problem)
	default:
		b.logger.Warn("Failed to bind pod", "pod", ref(e.Pod), "node", e.NodeName, telemetry.KeyError, answer.Problem)
	}
	return answer
}

// postBinding posts the Binding with UID and resourceVersion as preconditions. The attempt's token is in the Binding's
// annotations, which the API server copies to the pod. If the pod's annotations are full, the token is written into its
// status first, and the Binding names the resourceVersion after that write.
func (b *bindings) postBinding(ctx context.Context, e effect.Bind) effect.Answered {
	annotations := map[string]string{effect.AnnotationAttempt: e.Token.String()}
	if e.AnnotationsFull {
		version, answer := b.nameAttempt(ctx, e)
		if answer.Result != effect.Done {
			return answer
		}
		e.ResourceVersion, annotations = version, nil
	}
	binding := &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: e.Pod.Namespace, Name: e.Pod.Name, UID: types.UID(e.Pod.UID),
			ResourceVersion: strconv.FormatUint(e.ResourceVersion, 10),
			Annotations:     annotations,
		},
		Target: corev1.ObjectReference{Kind: "Node", Name: e.NodeName},
	}
	bctx, cancel := context.WithTimeout(ctx, bindTimeout)
	defer cancel()
	begin := b.clock.Now()
	err := b.binder.Bind(bctx, binding)
	switch {
	case err == nil:
		b.pace.bound(b.clock.Since(begin))
		return effect.Answered{Result: effect.Done}
	case noSuchPod(err, e.Pod.Name):
		return effect.Answered{Result: effect.Gone}
	case tooLarge(err): // which is answered as a conflict here
		return effect.Answered{Result: effect.Refused, Problem: err.Error()}
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		// Moved, bound and gone look alike here; a read of the pod distinguishes them. That read is also the first half
		// of the refresh; the core requests the second half (the document) afterwards.
		return b.lostBind(ctx, e, err)
	}
	return failed(err)
}

// noSuchPod reports whether the API server itself says that no pod has this name, as opposed to a missing namespace,
// or a proxy without the resource. The API server reads etcd before it answers that: where many pods are gone before
// their bind, reading each of them would take as long again.
func noSuchPod(err error, name string) bool {
	var status apierrors.APIStatus
	if !apierrors.IsNotFound(err) || !errors.As(err, &status) {
		return false
	}
	about := status.Status().Details
	return about != nil && about.Kind == string(corev1.ResourcePods) && about.Name == name
}

// lostBind reads the pod after a Binding was refused with 404 or 409, and answers what has become of it; cause is the
// refusal. The answer has Refused set: this Binding was certainly not carried out, even if the read fails.
func (b *bindings) lostBind(ctx context.Context, e effect.Bind, cause error) effect.Answered {
	read := b.get(ctx, e.Pod)
	read.Refused = true
	switch {
	case read.Result != effect.Done:
		return read
	case read.Pod.NodeName == e.NodeName:
		read.Result = effect.AlreadyHere
	case read.Pod.NodeName != "":
		read.Result = effect.Elsewhere
	case apierrors.IsNotFound(cause):
		read.Result = effect.Unknown // the pod exists after all
	default:
		read.Result = effect.Conflict
	}
	read.Problem = cause.Error()
	return read
}
