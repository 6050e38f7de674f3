package commit

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/pkg/state/strip"
	"github.com/berth-scheduler/berth/services/binder/decide/effect"
)

const (
	// bindTimeout, changeTimeout and readTimeout each bound one request. The API server may continue for its own
	// --request-timeout (60 s) after the binder has stopped waiting; then the outcome is Unknown.
	bindTimeout   = 10 * time.Second
	changeTimeout = 10 * time.Second
	readTimeout   = 5 * time.Second
)

// pods reads and patches pods.
type pods struct{ client kubernetes.Interface }

// readPod carries out a ReadPod.
func (p *pods) readPod(ctx context.Context, e effect.ReadPod) effect.Answered {
	answer := p.get(ctx, e.Pod)
	answer.Op = e.Op
	return answer
}

// get reads this incarnation of a pod from the API server (no resourceVersion: a quorum read). The answer is Gone if
// the name is free or belongs to another pod.
func (p *pods) get(ctx context.Context, pod events.PodRef) effect.Answered {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	obj, err := p.client.CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err), err == nil && string(obj.UID) != pod.UID:
		return effect.Answered{Result: effect.Gone}
	case err != nil:
		return effect.Answered{Result: effect.Unknown, Problem: err.Error()}
	}
	// AnnotationsFull reads this mark; facts have it from the queue.
	strip.MarkFull(obj)
	return effect.Answered{Result: effect.Done, Pod: state.NewPod(obj)}
}

// patchMeta is the part of a patch that makes the API server refuse another incarnation of the pod.
type patchMeta struct {
	UID string `json:"uid"`
	// ResourceVersion makes it refuse another version as well; empty for no such check.
	ResourceVersion string            `json:"resourceVersion,omitempty"`
	Annotations     map[string]string `json:"annotations,omitempty"`
}

// patch sends a strategic merge patch of the pod, or of one of its subresources. After a conflict, and if the pod is
// not found, it reads the pod: the answer is Gone, or Unknown if this incarnation exists after all.
func (p *pods) patch(
	ctx context.Context, pod events.PodRef, body []byte, subresource ...string,
) (*corev1.Pod, effect.Answered) {
	pctx, cancel := context.WithTimeout(ctx, changeTimeout)
	defer cancel()
	obj, err := p.client.CoreV1().Pods(pod.Namespace).Patch(
		pctx, pod.Name, types.StrategicMergePatchType, body, metav1.PatchOptions{}, subresource...)
	switch {
	case err == nil:
		return obj, effect.Answered{Result: effect.Done}
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		return nil, p.goneOr(ctx, pod, effect.Unknown, err)
	}
	return nil, failed(err)
}

// goneOr checks whether this incarnation of the pod still exists, and answers otherwise, with the pod, if it does.
func (p *pods) goneOr(ctx context.Context, pod events.PodRef, otherwise effect.Result, cause error) effect.Answered {
	read := p.get(ctx, pod)
	if read.Result == effect.Done {
		read = effect.Answered{Result: otherwise, Problem: cause.Error(), Pod: read.Pod}
	}
	return read
}

// failed returns the answer for a call that failed. Only an answer of the handler itself proves that nothing was
// carried out. 429 and 401 are returned before the handler and may be transient, so they count as Unknown, and the
// same request may be sent again.
func failed(err error) effect.Answered {
	answer := effect.Answered{Result: effect.Unknown, Problem: err.Error()}
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return answer
	}
	switch status.Status().Code {
	case http.StatusBadRequest, http.StatusForbidden, http.StatusMethodNotAllowed,
		http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType, http.StatusUnprocessableEntity:
		answer.Result = effect.Refused
	case http.StatusInternalServerError:
		answer.Failed = true
		if tooLarge(err) {
			answer.Result, answer.Failed = effect.Refused, false
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

// ref returns the pod's name as logs have it.
func ref(p events.PodRef) string { return p.Namespace + "/" + p.Name }
