package commit

import (
	"context"
	"encoding/json"
	"log/slog"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/pkg/telemetry"
	"github.com/berth-scheduler/berth/services/binder/decide/effect"
)

// conditions writes conditions and nominated node names to the status of pods.
type conditions struct {
	*pods
	logger *slog.Logger
}

// patchCondition writes one condition and, if the effect names one, the nominated node, in one patch of pods/status.
// The strategic merge replaces the condition of that type and leaves the others alone.
func (c *conditions) patchCondition(ctx context.Context, e effect.PatchCondition) effect.Answered {
	type status struct {
		Conditions        []corev1.PodCondition `json:"conditions"`
		NominatedNodeName string                `json:"nominatedNodeName,omitempty"`
	}
	body, err := json.Marshal(struct {
		Metadata patchMeta `json:"metadata"`
		Status   status    `json:"status"`
	}{patchMeta{UID: e.Pod.UID}, status{[]corev1.PodCondition{e.Condition}, e.NominatedNodeName}})
	if err != nil {
		return effect.Answered{Op: e.Op, Result: effect.Refused, Problem: err.Error()}
	}
	obj, answer := c.patch(ctx, e.Pod, body, "status")
	answer.Op = e.Op
	if answer.Result == effect.Done {
		answer.ResourceVersion = state.NewPod(obj).ResourceVersion
	} else {
		c.logger.Warn("condition not written",
			"pod", ref(e.Pod), "result", answer.Result.String(), telemetry.KeyError, answer.Problem)
	}
	return answer
}

// nominate writes status.nominatedNodeName, the node where a place is held for the pod.
func (c *conditions) nominate(ctx context.Context, e effect.Nominate) effect.Answered {
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
		return effect.Answered{Op: e.Op, Result: effect.Refused, Problem: err.Error()}
	}
	obj, answer := c.patch(ctx, e.Pod, body, "status")
	answer.Op = e.Op
	if answer.Result == effect.Done {
		answer.ResourceVersion = state.NewPod(obj).ResourceVersion
	} else if answer.Result != effect.Gone {
		c.logger.Warn("nominated node not written",
			"pod", ref(e.Pod), "node", e.NodeName, "result", answer.Result.String(), telemetry.KeyError, answer.Problem)
	}
	return answer
}
