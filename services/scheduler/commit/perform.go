package commit

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/berth-scheduler/berth/services/scheduler/decide/step"
)

// Performed delivers one answer to each Perform, in no order across pods.
func (x *Executor) Performed() <-chan step.PluginResult { return x.performed }

// Perform makes plugins act until ctx ends, and returns when all acts under way have ended. Acts that belong to a
// cycle, or end one, run in the core's order; acts after a cycle run concurrently. The core bounds the number of
// acts. They are always received without waiting, so that the core can always receive their results.
func (x *Executor) Perform(ctx context.Context) error {
	if len(x.Plugins) == 0 {
		<-ctx.Done()
		return nil
	}
	var g errgroup.Group
	inOrder := make(chan step.PluginRequest)
	g.Go(func() error {
		for p := range inOrder {
			x.perform(ctx, p)
		}
		return nil
	})
	var queue []step.PluginRequest
	for {
		var next step.PluginRequest
		var to chan step.PluginRequest
		if len(queue) > 0 {
			next, to = queue[0], inOrder
		}
		select {
		case <-ctx.Done():
			close(inOrder)
			return g.Wait()
		case to <- next:
			queue = queue[1:]
		case p := <-x.performs:
			if p.Act != step.ActPrepare && p.Act != step.ActBind && p.Act != step.ActBound {
				queue = append(queue, p)
				continue
			}
			g.Go(func() error {
				x.perform(ctx, p)
				return nil
			})
		}
	}
}

// perform makes plugins act once and delivers the answer. An answer after the end of ctx is dropped: no core waits for
// it any more.
func (x *Executor) perform(ctx context.Context, p step.PluginRequest) {
	answer := step.PluginResult{ID: p.ID, Act: p.Act, Err: fmt.Errorf("no plugins for profile %s", p.SchedulerName)}
	if plugins, ok := x.Plugins[p.SchedulerName]; ok {
		answer = plugins.Perform(ctx, p)
	}
	select {
	case x.performed <- answer:
	case <-ctx.Done():
	}
}
