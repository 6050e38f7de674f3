package commit

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/services/binder/decide/effect"
)

// fenceMark is one form of a fence's mark.
type fenceMark interface {
	// name describes the form in messages.
	name() string
	// patch returns the patch that writes the mark, and deletes the attempt's condition and the nomination, because that
	// attempt has not placed the pod.
	patch(e effect.FencePod) statusPatch
	// value returns the value of a pod's mark; empty for none.
	value(pod *corev1.Pod) string
}

// statusPatch is a strategic merge patch of pods/status.
type statusPatch struct {
	Metadata patchMeta   `json:"metadata"`
	Status   patchStatus `json:"status"`
}

// patchStatus lists conditions to merge into those of the pod, by type. NominatedNodeName is cleared if it is
// noNomination, and left alone if it is nil.
type patchStatus struct {
	Conditions        []patchedCondition `json:"conditions"`
	NominatedNodeName json.RawMessage    `json:"nominatedNodeName,omitempty"`
}

// noNomination removes the nominated node of a pod: its reservation there ends. Source: handleBindingCycleError in
// pkg/scheduler/schedule_one.go.
var noNomination = json.RawMessage("null")

// patchedCondition has no times, so that writing the same one twice changes nothing.
type patchedCondition struct {
	// Patch is "delete" to delete the condition.
	Patch   string                  `json:"$patch,omitempty"`
	Type    corev1.PodConditionType `json:"type"`
	Status  corev1.ConditionStatus  `json:"status,omitempty"`
	Message string                  `json:"message,omitempty"`
}

// noAttempt deletes the condition of the attempt.
var noAttempt = patchedCondition{Patch: "delete", Type: effect.ConditionAttempt}

// annotationMark is the usual form of the mark. Users do not see it next to the pod's conditions.
type annotationMark struct{}

func (annotationMark) name() string { return "annotation " + effect.AnnotationFence }

func (annotationMark) patch(e effect.FencePod) statusPatch {
	return statusPatch{
		Metadata: patchMeta{UID: e.Pod.UID, Annotations: map[string]string{effect.AnnotationFence: e.Value}},
		Status:   patchStatus{[]patchedCondition{noAttempt}, noNomination},
	}
}

func (annotationMark) value(pod *corev1.Pod) string { return pod.Annotations[effect.AnnotationFence] }

// conditionMark is a condition with its own type: another write of PodScheduled would remove the mark that the audit
// looks for. The value is in the message, because times are whole seconds, so that two fences could write the same.
type conditionMark struct{}

func (conditionMark) name() string { return "condition " + string(effect.ConditionFence) }

func (conditionMark) patch(e effect.FencePod) statusPatch {
	mark := patchedCondition{Type: effect.ConditionFence, Status: corev1.ConditionTrue, Message: e.Value}
	return statusPatch{
		Metadata: patchMeta{UID: e.Pod.UID}, Status: patchStatus{[]patchedCondition{noAttempt, mark}, noNomination},
	}
}

func (conditionMark) value(pod *corev1.Pod) string {
	for _, c := range pod.Status.Conditions {
		if c.Type == effect.ConditionFence {
			return c.Message
		}
	}
	return ""
}

// nameAttempt writes into the status of a pod whose annotations are full which attempt is about to bind it. Like
// writeMappings, it has the bind's precondition and returns the pod's next version. A crash after it leaves the
// condition of an attempt that has bound nothing: the next bind of that attempt writes the same again, which changes
// nothing, and its fence deletes the condition.
func (b *bindings) nameAttempt(ctx context.Context, e effect.Bind) (version uint64, answer effect.Answered) {
	attempt := patchedCondition{
		Type: effect.ConditionAttempt, Status: corev1.ConditionTrue, Message: e.Token.String() + " " + e.NodeName,
	}
	body, err := json.Marshal(statusPatch{
		Metadata: patchMeta{UID: e.Pod.UID, ResourceVersion: strconv.FormatUint(e.ResourceVersion, 10)},
		Status:   patchStatus{Conditions: []patchedCondition{attempt}},
	})
	if err != nil {
		return 0, refusal("pod %s: %v", ref(e.Pod), err)
	}
	obj, answer := b.patchBefore(ctx, e, types.StrategicMergePatchType, body)
	switch {
	case answer.Result != effect.Done:
		return 0, answer
	case !slices.ContainsFunc(obj.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == attempt.Type && c.Message == attempt.Message
	}):
		return 0, refusal("the API server dropped condition %s, which identifies the bind as "+
			"Berth's, possibly because of an admission webhook or policy", attempt.Type)
	}
	return state.NewPod(obj).ResourceVersion, answer
}
