package commit

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/berth-scheduler/berth/pkg/telemetry"
	"github.com/berth-scheduler/berth/services/scheduler/decide/step"
)

// Advice delivers the answer to each Consult.
func (r *Room) Advice() <-chan step.Advice { return r.advice }

// Consult asks plugins and extenders until ctx ends, with as many questions at once as the core sends.
func (r *Room) Consult(ctx context.Context) error {
	if len(r.Extenders)+len(r.Plugins) == 0 {
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
				case q := <-r.consults:
					// This does not block: there are no more questions than fit.
					r.advice <- r.ask(ctx, q)
				}
			}
		})
	}
	err := g.Wait()
	for _, set := range r.Extenders {
		set.Close()
	}
	return err
}

func (r *Room) ask(ctx context.Context, q step.Consult) step.Advice {
	if plugins, ok := r.Plugins[q.SchedulerName]; ok {
		return plugins.Consult(ctx, q)
	}
	set, ok := r.Extenders[q.SchedulerName]
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
		r.Logger.Warn("extender failed; pod will be retried", "pod", q.Pod.Key(), telemetry.KeyError, a.Err)
	}
	return a
}
