package commit

import (
	"context"
	"errors"

	"github.com/berth-scheduler/berth/pkg/extender"
	"github.com/berth-scheduler/berth/services/binder/internal/decide"
)

// extendersBind makes an extender bind the pod, if one is responsible for it; asked is false if the binder has to
// bind.
//
// An extender's Binding carries no resourceVersion, so a fence cannot refuse it. The pod is read before, so that the
// only remaining risk is delay in the extender: one that binds long after the request may bind a pod whose place has
// been given to another. The pod is also read afterwards: its nodeName counts, not the extender's answer. All of this
// may be repeated at any time: a bound pod is found bound.
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
		after = decide.Answered{Result: decide.Unknown, Problem: "the extender answered, but the pod is not bound"}
	}
	if err != nil {
		after.Problem = err.Error()
	}
	return after, true
}

// standing reports on which node a bound pod was found.
func standing(read decide.Answered, e decide.Bind) decide.Answered {
	read.Result = decide.Elsewhere
	if read.Pod.NodeName == e.NodeName {
		read.Result = decide.AlreadyHere
	}
	read.Problem = "the pod is bound to " + read.Pod.NodeName
	return read
}
