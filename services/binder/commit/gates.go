package commit

import (
	"context"
	"encoding/json"
	"log/slog"

	"k8s.io/utils/clock"

	"github.com/berth-scheduler/berth/pkg/telemetry"
	"github.com/berth-scheduler/berth/services/binder/decide/effect"
)

// gates removes scheduling gates.
type gates struct {
	*pods
	logger *slog.Logger
	clock  clock.PassiveClock
}

// removeInTime removes a gate, unless it would begin after its NotAfter, as in evictInTime: the room in the
// budget may be another pod's by now.
func (g *gates) removeInTime(ctx context.Context, e effect.RemoveGate) effect.Input {
	left := timeFor(g.clock, e.NotAfter)
	if left <= 0 {
		g.logger.Warn("scheduling gate not removed: timed out", "pod", ref(e.Pod), "gate", e.Gate)
		return effect.NotStarted{Op: e.Op}
	}
	ctx, cancel := context.WithTimeout(ctx, left)
	defer cancel()
	return g.removeGate(ctx, e)
}

// removeGate removes the gate with a strategic merge patch, which leaves other gates alone. To remove a gate that the
// pod does not have changes nothing, so that several binders may try.
func (g *gates) removeGate(ctx context.Context, e effect.RemoveGate) effect.Answered {
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
		return effect.Answered{Op: e.Op, Result: effect.Refused, Problem: err.Error()}
	}
	_, answer := g.patch(ctx, e.Pod, body)
	answer.Op = e.Op
	if answer.Result != effect.Done && answer.Result != effect.Gone {
		g.logger.Warn("scheduling gate not removed",
			"pod", ref(e.Pod), "gate", e.Gate, "result", answer.Result.String(), telemetry.KeyError, answer.Problem)
	}
	return answer
}
