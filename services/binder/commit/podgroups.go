package commit

import (
	"context"
	"encoding/json"
	"log/slog"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/berth-scheduler/berth/pkg/telemetry"
	"github.com/berth-scheduler/berth/services/binder/decide/effect"
)

// podGroups writes conditions of PodGroups.
type podGroups struct {
	client kubernetes.Interface
	logger *slog.Logger
}

// patch carries out a PatchGroup. The strategic merge replaces the condition of that type and leaves the others alone;
// a group of another UID or version answers with a conflict, which means that this one is gone.
func (g *podGroups) patch(ctx context.Context, e effect.PatchGroup) effect.Answered {
	ctx, cancel := context.WithTimeout(ctx, changeTimeout)
	defer cancel()
	body, err := json.Marshal(map[string]any{
		"metadata": patchMeta{UID: e.UID, ResourceVersion: e.ResourceVersion},
		"status":   map[string]any{"conditions": []metav1.Condition{e.Condition}},
	})
	if err != nil {
		return effect.Answered{Op: e.Op, Result: effect.Refused, Problem: err.Error()}
	}
	_, err = g.client.SchedulingV1alpha2().PodGroups(e.Namespace).Patch(
		ctx, e.Name, types.StrategicMergePatchType, body, metav1.PatchOptions{}, "status")
	switch {
	case err == nil:
		return effect.Answered{Op: e.Op, Result: effect.Done}
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		return effect.Answered{Op: e.Op, Result: effect.Gone}
	}
	answer := failed(err)
	answer.Op = e.Op
	g.logger.Warn("condition of a pod group not written", "group", e.Namespace+"/"+e.Name,
		"result", answer.Result.String(), telemetry.KeyError, answer.Problem)
	return answer
}
