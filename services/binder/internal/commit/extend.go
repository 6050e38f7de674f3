package commit

import (
	"context"
	"errors"

	"github.com/berth-scheduler/berth/pkg/extender"
	"github.com/berth-scheduler/berth/services/binder/internal/decide"
)

// extendersBind has an extender bind the pod if one does; asked is false if that is left to the
// binder.
//
// An extender's Binding carries no resourceVersion, so that a fence cannot refuse it. The pod is
// read before, which leaves only what the extender itself lies on: one that binds long after it was
// asked may bind a pod whose place has been given to another. It is read afterwards, too: whatever
// the extender says, the pod tells. That may be repeated at any time: a pod that is bound is found
// bound.
func (r *Room) extendersBind(ctx context.Context, e decide.Bind) (answer decide.Answered, asked bool) {
	set := r.deps.Extenders[e.SchedulerName]
	if set == nil || !set.Binds() {
		return decide.Answered{}, false
	}
	before := r.get(ctx, e.Pod)
	switch {
	case before.Result != decide.Done:
		return before, true
	case !set.BindsPod(before.Pod):
		return decide.Answered{}, false
	case before.Pod.NodeName == "" && before.Pod.ResourceVersion != e.ResourceVersion:
		before.Result, before.Problem = decide.Moved, "the pod has changed since the decision"
		return before, true
	case before.Pod.NodeName != "":
		return standing(before, e), true
	}
	asked, err := set.Bind(ctx, before.Pod, e.NodeName)
	if !asked {
		return decide.Answered{}, false
	}
	after := r.get(ctx, e.Pod)
	var refused *extender.RefusedError
	switch {
	case after.Result != decide.Done:
	case after.Pod.NodeName == e.NodeName:
		return decide.Answered{Result: decide.Done}, true
	case after.Pod.NodeName != "":
		after = standing(after, e)
	case errors.As(err, &refused):
		after = decide.Answered{Result: decide.Refused}
	default:
		after = decide.Answered{Result: decide.Unknown, Problem: "the extender has answered, and the pod is not bound"}
	}
	if err != nil {
		after.Problem = err.Error()
	}
	return after, true
}

// standing says where a bound pod was found.
func standing(read decide.Answered, e decide.Bind) decide.Answered {
	read.Result = decide.Elsewhere
	if read.Pod.NodeName == e.NodeName {
		read.Result = decide.AlreadyHere
	}
	read.Problem = "the pod is bound to " + read.Pod.NodeName
	return read
}
