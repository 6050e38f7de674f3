package commit

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/pkg/telemetry"
	"github.com/berth-scheduler/berth/services/binder/internal/decide"
)

const (
	// bindTimeout, changeTimeout and readTimeout each bound one request. The API server may continue for its own
	// --request-timeout (60 s) after the binder has stopped waiting; that is what Unknown means.
	bindTimeout   = 10 * time.Second
	changeTimeout = 10 * time.Second
	readTimeout   = 5 * time.Second
)

func (r *Room) bind(ctx context.Context, e decide.Bind) decide.Answered {
	ctx, done := bindSpan(ctx, e)
	begin := r.deps.Clock.Now()
	telemetry.Goroutines("binding", 1)
	answer, asked := r.extendersBind(ctx, e)
	if !asked {
		answer = r.postBinding(ctx, e)
	}
	telemetry.Goroutines("binding", -1)
	answer.Op = e.Op
	observeBind(e, answer.Result, r.deps.Clock.Since(begin))
	done(answer)
	switch answer.Result {
	case decide.Done:
		r.deps.Logger.Debug("Successfully bound pod to node", "pod", ref(e.Pod), "node", e.NodeName)
	case decide.Moved, decide.AlreadyHere, decide.Elsewhere, decide.Gone:
		r.deps.Logger.Debug("bind lost", "pod", ref(e.Pod), "node", e.NodeName, telemetry.KeyError, answer.Problem)
	default:
		r.deps.Logger.Warn("Failed to bind pod", "pod", ref(e.Pod), "node", e.NodeName, telemetry.KeyError, answer.Problem)
	}
	return answer
}

func (r *Room) postBinding(ctx context.Context, e decide.Bind) decide.Answered {
	annotations := map[string]string{decide.AnnotationAttempt: e.Token.String()}
	if e.Full {
		version, answer := r.nameAttempt(ctx, e)
		if answer.Result != decide.Done {
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
	begin := time.Now()
	err := r.deps.API.writes.CoreV1().Pods(e.Pod.Namespace).Bind(bctx, binding, metav1.CreateOptions{})
	switch {
	case err == nil:
		r.pace.bound(time.Since(begin))
		return decide.Answered{Result: decide.Done}
	case noSuchPod(err, e.Pod.Name):
		return decide.Answered{Result: decide.Gone}
	case tooLarge(err): // which is answered as a conflict here
		return decide.Answered{Result: decide.Refused, Problem: err.Error()}
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		// Moved, bound and gone look alike here; a read of the pod tells them apart. That read is also the first half
		// of the refresh; the core requests the second half (the document) afterwards.
		return r.lostBind(ctx, e, err)
	}
	return failed(err)
}

// noSuchPod reports whether the API server itself says that no pod has this name, as opposed to a missing namespace,
// or a proxy without the resource. The API server looks into etcd before it says so: where many pods are gone before
// their bind, reading each of them would take as long again.
func noSuchPod(err error, name string) bool {
	var status apierrors.APIStatus
	if !apierrors.IsNotFound(err) || !errors.As(err, &status) {
		return false
	}
	about := status.Status().Details
	return about != nil && about.Kind == string(corev1.ResourcePods) && about.Name == name
}

func (r *Room) lostBind(ctx context.Context, e decide.Bind, cause error) decide.Answered {
	read := r.get(ctx, e.Pod)
	read.Refused = true
	switch {
	case read.Result != decide.Done:
		return read
	case read.Pod.NodeName == e.NodeName:
		read.Result = decide.AlreadyHere
	case read.Pod.NodeName != "":
		read.Result = decide.Elsewhere
	case apierrors.IsNotFound(cause):
		read.Result = decide.Unknown // the pod exists after all
	default:
		read.Result = decide.Moved
	}
	read.Problem = cause.Error()
	return read
}

func (r *Room) readPod(ctx context.Context, e decide.ReadPod) decide.Answered {
	answer := r.get(ctx, e.Pod)
	answer.Op = e.Op
	return answer
}

// get reads this incarnation of a pod from the API server (no resourceVersion: a quorum read). The answer is Gone if
// the name is free or belongs to another pod.
func (r *Room) get(ctx context.Context, pod events.PodRef) decide.Answered {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	obj, err := r.deps.API.writes.CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err), err == nil && string(obj.UID) != pod.UID:
		return decide.Answered{Result: decide.Gone}
	case err != nil:
		return decide.Answered{Result: decide.Unknown, Problem: err.Error()}
	}
	state.MarkFull(obj)
	return decide.Answered{Result: decide.Done, Pod: state.NewPod(obj)}
}

// patchMeta is the part of a patch that makes the API server refuse another incarnation of the pod.
type patchMeta struct {
	UID string `json:"uid"`
	// ResourceVersion makes it refuse another version as well; empty for no such check.
	ResourceVersion string            `json:"resourceVersion,omitempty"`
	Annotations     map[string]string `json:"annotations,omitempty"`
}

func (r *Room) fencePod(ctx context.Context, e decide.FencePod) decide.Answered {
	answer := r.markPod(ctx, e)
	if len(e.Claims) > 0 && (answer.Result == decide.Done || answer.Result == decide.Gone) {
		version, settled := r.settleClaims(ctx, e, answer.Pod != nil && answer.Pod.NodeName == e.NodeName)
		if settled.Result != decide.Done {
			settled.Problem = "write to the pod's claims: " + settled.Problem
			answer = settled
		}
		answer.ClaimVersion = version
	}
	answer.Op = e.Op
	r.deps.Logger.Info("fence",
		"pod", ref(e.Pod), "value", e.Value, "result", answer.Result.String(), telemetry.KeyError, answer.Problem)
	return answer
}

// markPod writes the mark of a fence.
//
// It uses pods/status, whose strategy in kube-apiserver (pkg/registry/core/pod/strategy.go) ignores changes of the
// spec and keeps changes of annotations. So the binder needs no permission to change pods, which would include the
// image of any container, and admission webhooks and policies for pods do not see the write. The mark is an
// annotation, because kubectl would show a condition to the pod's owner forever. If the annotation is refused, for
// instance because other annotations leave it no room, or is removed, a condition is written instead; the fence is
// refused only if neither can be written.
func (r *Room) markPod(ctx context.Context, e decide.FencePod) decide.Answered {
	answer := r.mark(ctx, e, annotationMark{})
	if answer.Result == decide.Refused {
		answer = r.mark(ctx, e, conditionMark{})
	}
	return answer
}

// mark writes one form of the mark.
//
// The API server answers a patch that changes nothing like one that does. If the mark is missing in the answer, an
// admission webhook or policy has removed it. Then the resourceVersion may not have moved, and a bind in flight would
// succeed after the release.
func (r *Room) mark(ctx context.Context, e decide.FencePod, form fenceMark) decide.Answered {
	const what = "patch of pods/status: "
	body, err := json.Marshal(form.patch(e))
	if err != nil {
		return decide.Answered{Result: decide.Refused, Problem: what + err.Error()}
	}
	obj, answer := r.patch(ctx, e.Pod, body, "status")
	switch {
	case answer.Result == decide.Done && form.value(obj) != e.Value:
		return decide.Answered{Result: decide.Refused, Problem: what +
			"the API server dropped " + form.name() + ", possibly because of an admission webhook or policy"}
	case answer.Result == decide.Done:
		answer.Pod = state.NewPod(obj)
	case answer.Problem != "":
		answer.Problem = what + answer.Problem
	}
	return answer
}

func (r *Room) patchCondition(ctx context.Context, e decide.PatchCondition) decide.Answered {
	type status struct {
		Conditions        []corev1.PodCondition `json:"conditions"`
		NominatedNodeName string                `json:"nominatedNodeName,omitempty"`
	}
	body, err := json.Marshal(struct {
		Metadata patchMeta `json:"metadata"`
		Status   status    `json:"status"`
	}{patchMeta{UID: e.Pod.UID}, status{[]corev1.PodCondition{e.Condition}, e.NominatedNodeName}})
	if err != nil {
		return decide.Answered{Op: e.Op, Result: decide.Refused, Problem: err.Error()}
	}
	obj, answer := r.patch(ctx, e.Pod, body, "status")
	answer.Op = e.Op
	if answer.Result == decide.Done {
		answer.ResourceVersion = state.NewPod(obj).ResourceVersion
	} else {
		r.deps.Logger.Warn("condition not written",
			"pod", ref(e.Pod), "result", answer.Result.String(), telemetry.KeyError, answer.Problem)
	}
	return answer
}

// removeGateInTime removes a gate, unless it would begin after its NotAfter, as in evictInTime: the room in the
// budget may be another pod's by now.
func (r *Room) removeGateInTime(ctx context.Context, e decide.RemoveGate) decide.Input {
	left := r.timeFor(e.NotAfter)
	if left <= 0 {
		r.deps.Logger.Warn("scheduling gate not removed: timed out", "pod", ref(e.Pod), "gate", e.Gate)
		return decide.Untaken{Op: e.Op}
	}
	ctx, cancel := context.WithTimeout(ctx, left)
	defer cancel()
	return r.removeGate(ctx, e)
}

func (r *Room) removeGate(ctx context.Context, e decide.RemoveGate) decide.Answered {
	type gate struct {
		Patch string `json:"$patch"`
		Name  string `json:"name"`
	}
	type spec struct {
		SchedulingGates []gate `json:"schedulingGates"`
	}
	body, err := json.Marshal(struct {
		Metadata patchMeta `json:"metadata"`
		Spec     spec      `json:"spec"`
	}{patchMeta{UID: e.Pod.UID}, spec{[]gate{{"delete", e.Gate}}}})
	if err != nil {
		return decide.Answered{Op: e.Op, Result: decide.Refused, Problem: err.Error()}
	}
	_, answer := r.patch(ctx, e.Pod, body)
	answer.Op = e.Op
	if answer.Result != decide.Done && answer.Result != decide.Gone {
		r.deps.Logger.Warn("scheduling gate not removed",
			"pod", ref(e.Pod), "gate", e.Gate, "result", answer.Result.String(), telemetry.KeyError, answer.Problem)
	}
	return answer
}

func (r *Room) patch(
	ctx context.Context, pod events.PodRef, body []byte, subresource ...string,
) (*corev1.Pod, decide.Answered) {
	pctx, cancel := context.WithTimeout(ctx, changeTimeout)
	defer cancel()
	obj, err := r.deps.API.writes.CoreV1().Pods(pod.Namespace).Patch(
		pctx, pod.Name, types.StrategicMergePatchType, body, metav1.PatchOptions{}, subresource...)
	switch {
	case err == nil:
		return obj, decide.Answered{Result: decide.Done}
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		return nil, r.goneOr(ctx, pod, decide.Unknown, err)
	}
	return nil, failed(err)
}

// goneOr checks whether this incarnation of the pod still exists, and answers otherwise if it does.
func (r *Room) goneOr(ctx context.Context, pod events.PodRef, otherwise decide.Result, cause error) decide.Answered {
	read := r.get(ctx, pod)
	if read.Result == decide.Done {
		read = decide.Answered{Result: otherwise, Problem: cause.Error()}
	}
	return read
}

// failed returns the answer for a call that failed. Only an answer of the handler itself proves that nothing was
// carried out. 429 and 401 are returned before the handler and may be transient, so they count as Unknown, and the
// same request may be sent again.
func failed(err error) decide.Answered {
	answer := decide.Answered{Result: decide.Unknown, Problem: err.Error()}
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return answer
	}
	switch status.Status().Code {
	case http.StatusBadRequest, http.StatusForbidden, http.StatusMethodNotAllowed,
		http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType, http.StatusUnprocessableEntity:
		answer.Result = decide.Refused
	case http.StatusInternalServerError:
		answer.Failed = true
		if tooLarge(err) {
			answer.Result, answer.Failed = decide.Refused, false
		}
	}
	return answer
}

// tooLarge reports whether the API server's storage rejects the object, because it is too large with the change. The
// API server has no code for that: these are the messages of etcd and of the API server's etcd client.
func tooLarge(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	message := status.Status().Message
	return strings.Contains(message, "etcdserver: request is too large") ||
		strings.Contains(message, "trying to send message larger than max")
}

func ref(p events.PodRef) string { return p.Namespace + "/" + p.Name }
