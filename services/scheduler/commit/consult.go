package commit

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/berth-scheduler/berth/pkg/telemetry"
	"github.com/berth-scheduler/berth/services/scheduler/decide/step"
)

// Advice delivers one answer to each Consult, in no order.
func (x *Executor) Advice() <-chan step.Advice { return x.advice }

// Consult asks plugins and extenders until ctx ends, with as many questions at once as the core sends. An extender that
// is slow delays only the attempts that wait for it. At the end it closes the extenders' connections.
func (x *Executor) Consult(ctx context.Context) error {
	if len(x.Extenders)+len(x.Plugins) == 0 {
		<-ctx.Done()
		return nil
	}
	var g errgroup.Group
	for range step.MaxConsults {
		g.Go(func() error {
			for {
				select {
				case <-ctx.Done():
					return nil
				case q := <-x.consults:
					// This does not block: there are no more questions than fit.
					x.advice <- x.ask(ctx, q)
				}
			}
		})
	}
	err := g.Wait()
	for _, set := range x.Extenders {
		set.Close()
	}
	return err
}

// ask answers one question. A profile with plugins has its extenders asked by them, because upstream runs the extenders
// of a profile after its plugins. A failure is an answer too: it ends the attempt, and the queue offers the pod again.
func (x *Executor) ask(ctx context.Context, q step.Consult) step.Advice {
	if plugins, ok := x.Plugins[q.SchedulerName]; ok {
		return plugins.Consult(ctx, q)
	}
	set, ok := x.Extenders[q.SchedulerName]
	if !ok {
		return step.Advice{ID: q.ID, Err: fmt.Errorf("no extenders for profile %s", q.SchedulerName)}
	}
	a := step.Advice{ID: q.ID}
	if len(q.Candidates) > 0 {
		a.Candidates, a.Err = set.Preempt(ctx, q.Pod, q.Candidates)
	} else {
		a.Opinions, a.Err = set.Consult(ctx, q.Pod, q.Nodes)
	}
	if a.Err != nil {
		x.Logger.Warn("extender failed; pod will be retried", "pod", q.Pod.Key(), telemetry.KeyError, a.Err)
	}
	return a
}
