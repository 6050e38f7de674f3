package commit

import (
	"context"
	"encoding/json"
	"log/slog"
	"strconv"

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

// patchCondition writes one condition and, if the effect names one, the nominated node, or clears it, in one patch of
// pods/status. The strategic merge replaces the condition of that type and leaves the others alone. If the effect names
// a version of the pod, and the pod has another one, the answer is Conflict with the pod as it is.
func (c *conditions) patchCondition(ctx context.Context, e effect.PatchCondition) effect.Answered {
	status := map[string]any{"conditions": []corev1.PodCondition{e.Condition}}
	if e.NominatedNodeName != "" || e.ClearNomination {
		status[fieldNominated] = nameOrNull(e.NominatedNodeName)
	}
	meta := patchMeta{UID: e.Pod.UID}
	if e.ResourceVersion > 0 {
		meta.ResourceVersion = strconv.FormatUint(e.ResourceVersion, 10)
	}
	body, err := json.Marshal(map[string]any{"metadata": meta, "status": status})
	if err != nil {
		return effect.Answered{Op: e.Op, Result: effect.Refused, Problem: err.Error()}
	}
	obj, answer := c.patch(ctx, e.Pod, body, "status")
	answer.Op = e.Op
	switch {
	case answer.Result == effect.Done:
		answer.ResourceVersion = state.NewPod(obj).ResourceVersion
	case answer.Pod != nil && e.ResourceVersion > 0:
		answer.Result = effect.Conflict
	default:
		c.logger.Warn("condition not written",
			"pod", ref(e.Pod), "result", answer.Result.String(), telemetry.KeyError, answer.Problem)
	}
	return answer
}

// fieldNominated is the name of a pod's status.nominatedNodeName in patches.
const fieldNominated = "nominatedNodeName"

// nameOrNull returns a node name as a patch has it: null removes the field.
func nameOrNull(node string) any {
	if node == "" {
		return nil
	}
	return node
}

// nominate writes status.nominatedNodeName, the node where a place is held for the pod.
func (c *conditions) nominate(ctx context.Context, e effect.Nominate) effect.Answered {
	body, err := json.Marshal(map[string]any{
		"metadata": patchMeta{UID: e.Pod.UID}, "status": map[string]any{fieldNominated: nameOrNull(e.NodeName)},
	})
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
