package commit

import (
	"context"
	"encoding/json"
	"log/slog"

	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/pkg/telemetry"
	"github.com/berth-scheduler/berth/services/binder/decide/effect"
)

// fences makes the real changes of fences.
type fences struct {
	*pods
	claims *claims
	logger *slog.Logger
}

// fencePod changes the pod, and then settles its device claims. The claims come last, because the changed pod shows
// whether a bind came first, in which case they keep their devices.
func (f *fences) fencePod(ctx context.Context, e effect.FencePod) effect.Answered {
	answer := f.markPod(ctx, e)
	if len(e.Claims) > 0 && (answer.Result == effect.Done || answer.Result == effect.Gone) {
		// Nothing is given back if the pod turns out to be bound to the node of the reservation.
		version, settled := f.claims.settleClaims(ctx, e, answer.Pod != nil && answer.Pod.NodeName == e.NodeName)
		if settled.Result != effect.Done {
			settled.Problem = "write to the pod's claims: " + settled.Problem
			answer = settled
		}
		answer.ClaimVersion = version
	}
	answer.Op = e.Op
	f.logger.Info("fence",
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
func (f *fences) markPod(ctx context.Context, e effect.FencePod) effect.Answered {
	answer := f.mark(ctx, e, annotationMark{})
	if answer.Result == effect.Refused {
		answer = f.mark(ctx, e, conditionMark{})
	}
	return answer
}

// mark writes one form of the mark.
//
// The API server answers a patch that changes nothing like one that does. If the mark is missing in the answer, an
// admission webhook or policy has removed it. Then the resourceVersion may not have moved, and a bind in flight would
// succeed after the release.
func (f *fences) mark(ctx context.Context, e effect.FencePod, form fenceMark) effect.Answered {
	const what = "patch of pods/status: "
	body, err := json.Marshal(form.patch(e))
	if err != nil {
		return effect.Answered{Result: effect.Refused, Problem: what + err.Error()}
	}
	obj, answer := f.patch(ctx, e.Pod, body, "status")
	switch {
	case answer.Result == effect.Done && form.value(obj) != e.Value:
		return effect.Answered{Result: effect.Refused, Problem: what +
			"the API server dropped " + form.name() + ", possibly because of an admission webhook or policy"}
	case answer.Result == effect.Done:
		answer.Pod = state.NewPod(obj)
	case answer.Problem != "":
		answer.Problem = what + answer.Problem
	}
	return answer
}
