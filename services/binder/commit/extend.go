package commit

import (
	"context"
	"errors"

	"github.com/berth-scheduler/berth/pkg/extender"
	"github.com/berth-scheduler/berth/services/binder/decide/effect"
)

// extendersBind makes an extender bind the pod, if one is responsible for it; asked is false if the binder has to
// bind.
//
// An extender's Binding carries no resourceVersion, so a fence cannot refuse it. The pod is read before, so that the
// only remaining risk is delay in the extender: one that binds long after the request may bind a pod whose place has
// been given to another. The pod is also read afterwards: its nodeName counts, not the extender's answer. All of this
// may be repeated at any time: a bound pod is found bound.
func (b *bindings) extendersBind(ctx context.Context, e effect.Bind) (answer effect.Answered, asked bool) {
	set := b.extenders[e.SchedulerName]
	if set == nil || !set.Binds() {
		return effect.Answered{}, false
	}
	before := b.get(ctx, e.Pod)
	switch {
	case before.Result != effect.Done:
		return before, true
	case !set.BindsPod(before.Pod):
		return effect.Answered{}, false
	case before.Pod.NodeName == "" && before.Pod.ResourceVersion != e.ResourceVersion:
		before.Result, before.Problem = effect.Conflict, "the pod has changed since the decision"
		return before, true
	case before.Pod.NodeName != "":
		return foundBound(before, e), true
	}
	asked, err := set.Bind(ctx, before.Pod, e.NodeName)
	if !asked {
		return effect.Answered{}, false
	}
	after := b.get(ctx, e.Pod)
	var refused *extender.RefusedError
	switch {
	case after.Result != effect.Done:
	case after.Pod.NodeName == e.NodeName:
		return effect.Answered{Result: effect.Done}, true
	case after.Pod.NodeName != "":
		after = foundBound(after, e)
	case errors.As(err, &refused):
		after = effect.Answered{Result: effect.Refused}
	default:
		after = effect.Answered{Result: effect.Unknown, Problem: "the extender answered, but the pod is not bound"}
	}
	if err != nil {
		after.Problem = err.Error()
	}
	return after, true
}

// foundBound reports on which node a bound pod was found.
// It is AlreadyHere if that is the node of the reservation, and Elsewhere if not.
func foundBound(read effect.Answered, e effect.Bind) effect.Answered {
	read.Result = effect.Elsewhere
	if read.Pod.NodeName == e.NodeName {
		read.Result = effect.AlreadyHere
	}
	read.Problem = "the pod is bound to " + read.Pod.NodeName
	return read
}
