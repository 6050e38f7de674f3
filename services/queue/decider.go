package queue

import (
	"context"
	"slices"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/services/queue/decide"
	"github.com/berth-scheduler/berth/services/queue/generation"
	"github.com/berth-scheduler/berth/services/queue/intake"
	"github.com/berth-scheduler/berth/services/queue/leader"
)

// decider implements the leader's port to the deciding goroutine (leader.Decider): each call becomes an input of that
// goroutine's loop or a query that runs on it, so the leader's goroutines never touch the core or the views.
type decider struct{ queue *Queue }

// Lead sends the input that begins a term.
func (d decider) Lead(ctx context.Context, term int64, decided uint64) bool {
	return d.send(ctx, decide.Lead{Term: term, Decided: decided})
}

// StepDown sends the input that ends a term.
func (d decider) StepDown(ctx context.Context) bool { return d.send(ctx, decide.StepDown{}) }

// Observe reads the views on the deciding goroutine, between two steps.
func (d decider) Observe(ctx context.Context) (generation.Observed, error) {
	o := generation.Observed{Ledger: map[events.Kind]uint64{}}
	err := d.queue.query(ctx, func(l *loop) {
		view := l.holds.View()
		o.Revision = view.Revision()
		o.Generation, o.Floor = view.Generation().Revision, view.Floor().Revision
		o.Open = view.IsOpen()
		o.Facts = l.facts.Seen()
		for _, kind := range intake.VersionedKinds {
			o.Ledger[kind] = view.Reached(string(kind))
		}
	})
	return o, err
}

// send hands an input to the deciding goroutine. It reports false if ctx ended first.
func (d decider) send(ctx context.Context, in decide.Input) bool {
	select {
	case d.queue.inputs <- in:
		return true
	case <-ctx.Done():
		return false
	}
}

// newCandidate returns the part of the replica that competes for leadership, with what the leader works with.
func (q *Queue) newCandidate() *leader.Candidate {
	port := decider{q}
	return leader.New(leader.Config{
		ID:              q.cfg.ID,
		WholeObjects:    slices.ContainsFunc(q.cfg.Profiles, placement.ProfileConfig.ShowsObjects),
		MetricsInterval: q.cfg.MetricsInterval,
		SnapshotEvery:   q.cfg.SnapshotEvery, SnapshotInterval: q.cfg.SnapshotInterval,
	}, leader.Deps{
		Log: q.deps.Log, Snapshots: q.deps.Snapshots, Ledger: q.deps.Ledger, Elections: q.deps.Elections,
		Cluster: q.cluster, Applied: q.applied, Decider: port, Clock: q.deps.Clock, Logger: q.logger,
		WhileLeading: q.deps.WhileLeading,
		Generations: generation.New(generation.Deps{
			Ledger: q.deps.Ledger, Log: q.deps.Log, API: q.cluster, Observer: port,
			Clock: q.deps.Clock, Logger: q.logger, Grace: generation.Grace(q.cfg.Profiles),
		}),
	})
}
