package commit

import (
	"context"
	"log/slog"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/berth-scheduler/berth/pkg/state/nodemark"
	"github.com/berth-scheduler/berth/pkg/telemetry"
	"github.com/berth-scheduler/berth/services/binder/decide/effect"
)

// nodes writes the marks on nodes for cluster autoscalers.
type nodes struct {
	client kubernetes.Interface
	logger *slog.Logger
}

// mark carries out a MarkNode, and counts and logs the answer.
func (n *nodes) mark(ctx context.Context, e effect.MarkNode) effect.Answered {
	answer := n.patch(ctx, e)
	answer.Op = e.Op
	telemetry.NodeMarked(answer.Result.String())
	if answer.Result == effect.Done || answer.Result == effect.Gone {
		n.logger.Info("node marked", "node", e.NodeName, "marks", e.Marks.String(), "result", answer.Result.String())
		return answer
	}
	n.logger.Warn("node not marked", "node", e.NodeName, "marks", e.Marks.String(),
		"result", answer.Result.String(), telemetry.KeyError, answer.Problem)
	return answer
}

// patch reads a node and writes what its marks lack. The patch names the resourceVersion that was read, because taints
// are written as a whole list: a node that has changed since answers with a conflict, and the core tries again.
func (n *nodes) patch(ctx context.Context, e effect.MarkNode) effect.Answered {
	ctx, cancel := context.WithTimeout(ctx, changeTimeout)
	defer cancel()
	obj, err := n.client.CoreV1().Nodes().Get(ctx, e.NodeName, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err), err == nil && string(obj.UID) != e.NodeUID:
		return effect.Answered{Result: effect.Gone}
	case err != nil:
		return failed(err)
	}
	body, needed, err := nodemark.Patch(obj, e.Marks)
	if err != nil {
		return effect.Answered{Result: effect.Refused, Problem: err.Error()}
	}
	if !needed {
		return effect.Answered{Result: effect.Done}
	}
	_, err = n.client.CoreV1().Nodes().Patch(ctx, e.NodeName, types.MergePatchType, body, metav1.PatchOptions{})
	switch {
	case err == nil:
		return effect.Answered{Result: effect.Done}
	case apierrors.IsNotFound(err):
		return effect.Answered{Result: effect.Gone}
	}
	return failed(err)
}
