package commit

import (
	"context"
	"encoding/json"
	"strconv"

	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/pkg/telemetry"
	"github.com/berth-scheduler/berth/services/binder/decide/effect"
)

// announce writes the node of a reservation into the pod's status. Like writeMappings, it has the bind's precondition
// and returns the pod's next version.
func (b *bindings) announce(ctx context.Context, e effect.Announce) effect.Answered {
	bind := effect.Bind{Op: e.Op, Pod: e.Pod, NodeName: e.NodeName, ResourceVersion: e.ResourceVersion}
	body, err := json.Marshal(map[string]any{
		"metadata": patchMeta{UID: e.Pod.UID, ResourceVersion: strconv.FormatUint(e.ResourceVersion, 10)},
		"status":   map[string]any{fieldNominated: nameOrNull(e.NodeName)},
	})
	if err != nil {
		return effect.Answered{Op: e.Op, Result: effect.Refused, Problem: err.Error()}
	}
	obj, answer := b.patchBefore(ctx, bind, types.MergePatchType, body)
	answer.Op = e.Op
	switch answer.Result {
	case effect.Done:
		answer.ResourceVersion = state.NewPod(obj).ResourceVersion
	case effect.Unknown, effect.Refused:
		b.logger.Warn("node not announced in the pod's status", "pod", ref(e.Pod), "node", e.NodeName,
			"result", answer.Result.String(), telemetry.KeyError, answer.Problem)
	}
	return answer
}
