package commit

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/berth-scheduler/berth/services/scheduler/decide/step"
)

// Performed delivers the answer to each Perform.
func (r *Room) Performed() <-chan step.Performed { return r.performed }

// Perform makes plugins act until ctx ends. Acts that belong to a cycle, or end one, run in the core's order; acts
// after a cycle run concurrently. The core bounds the number of acts. They are always received without waiting, so
// that the core can always receive their results.
func (r *Room) Perform(ctx context.Context) error {
	if len(r.Plugins) == 0 {
		<-ctx.Done()
		return nil
	}
	var g errgroup.Group
	inOrder := make(chan step.Perform)
	g.Go(func() error {
		for p := range inOrder {
			r.perform(ctx, p)
		}
		return nil
	})
	var queue []step.Perform
	for {
		var next step.Perform
		var to chan step.Perform
		if len(queue) > 0 {
			next, to = queue[0], inOrder
		}
		select {
		case <-ctx.Done():
			close(inOrder)
			return g.Wait()
		case to <- next:
			queue = queue[1:]
		case p := <-r.performs:
			if p.Act != step.ActPrepare && p.Act != step.ActBind && p.Act != step.ActBound {
				queue = append(queue, p)
				continue
			}
			g.Go(func() error {
				r.perform(ctx, p)
				return nil
			})
		}
	}
}

func (r *Room) perform(ctx context.Context, p step.Perform) {
	answer := step.Performed{ID: p.ID, Act: p.Act, Err: fmt.Errorf("no plugins for profile %s", p.SchedulerName)}
	if plugins, ok := r.Plugins[p.SchedulerName]; ok {
		answer = plugins.Perform(ctx, p)
	}
	select {
	case r.performed <- answer:
	case <-ctx.Done():
	}
}
