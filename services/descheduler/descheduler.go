package descheduler

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/berth-scheduler/berth/pkg/descheduling"
	"github.com/berth-scheduler/berth/pkg/descheduling/plan"
	"github.com/berth-scheduler/berth/pkg/descheduling/policy"
	"github.com/berth-scheduler/berth/pkg/driver"
	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/events/eventlog"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/roster"
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/telemetry"
	"github.com/berth-scheduler/berth/services/descheduler/commit"
	"github.com/berth-scheduler/berth/services/descheduler/decide"
	"github.com/berth-scheduler/berth/services/descheduler/intake"
	"github.com/berth-scheduler/berth/services/descheduler/usage"
)

const (
	// election is the name under which replicas campaign. It is part of a key of the ledger and must not change while
	// replicas of two versions run.
	election = "descheduler"
	// sessionTTL is how long a silent leader keeps others waiting. Cycles are minutes apart, so a short TTL is not
	// needed.
	sessionTTL = 15 * time.Second
	// closeTimeout bounds resigning at the end; the lease would expire anyway.
	closeTimeout = 3 * time.Second
	// retryPause is the pause after a cycle or a campaign that failed, far shorter than DefaultInterval.
	retryPause = 5 * time.Second
	// viewTimeout bounds the wait for facts and decisions before a cycle is started again: what it waits for may have
	// been lost from the log. It is longer than a start takes.
	viewTimeout = 30 * time.Second
)

// Descheduler is one replica. Run may be called once; Ready and Leading are safe for concurrent use.
type Descheduler struct {
	cfg  Config
	deps Deps
	// placement returns the profile that would place a pod of a scheduler name.
	placement func(schedulerName string) *placement.Profile
	intake    *intake.Reader
	// commit is used by the deciding goroutine alone.
	commit  *commit.Executor
	leading atomic.Bool
	// term is the last term in which this replica led; it is a revision of the ledger. A cycle waits for a view that is
	// at least as new, so that it sees the places of the leader before it.
	term atomic.Int64
	// policy is replaced between two cycles. A cycle reads it once and keeps what it has read.
	policy atomic.Pointer[policy.Policy]
	paused pauseSwitch
}

// New checks the configuration and builds a replica. Nothing runs yet.
func New(cfg Config, deps Deps) (*Descheduler, error) {
	if err := errors.Join(cfg.validate(), deps.validate(cfg.DryRun)); err != nil {
		return nil, err
	}
	byScheduler, err := placementBy(cfg.Profiles)
	if err != nil {
		return nil, err
	}
	d := &Descheduler{cfg: cfg, deps: deps, placement: byScheduler}
	d.policy.Store(cfg.Policy)
	d.intake = intake.New(intake.Deps{
		Log: deps.Log, Facts: deps.Facts, Ledger: deps.Ledger,
		Clock: deps.Clock, Logger: deps.Logger, OnOutcome: observeSettled,
		HalfLife: func() time.Duration { return d.policy.Load().Berth.UsageHalfLife },
	})
	d.commit = commit.New(commit.Deps{
		Log: deps.Log, Ledger: deps.Ledger, Clock: deps.Clock, Logger: deps.Logger, OnRequest: d.intake.RecordRequest,
	})
	return d, nil
}

// Ready returns nil once a cycle could run, because the facts that the policy needs are known. It does not depend on
// who leads: a replica that waits for the leadership is ready to take it.
func (d *Descheduler) Ready() error { return d.intake.Ready(d.policy.Load().Kinds()) }

// Leading reports whether this replica runs the cycles.
func (d *Descheduler) Leading() bool { return d.leading.Load() }

// Run serves until ctx ends, or until one cycle is done if Interval is 0, and then returns nil. It returns an error
// if the facts cannot be read.
func (d *Descheduler) Run(ctx context.Context) error {
	d.warn()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return d.intake.Follow(ctx) })
	g.Go(func() error { return d.intake.Apply(ctx) })
	g.Go(func() error { return d.intake.Decisions(ctx) })
	g.Go(func() error { return d.intake.Promises(ctx) })
	if !d.cfg.DryRun {
		g.Go(func() error {
			d.followPause(ctx)
			return nil
		})
	}
	g.Go(func() error {
		defer stop()
		if d.cfg.DryRun {
			d.runCycles(ctx)
			return nil
		}
		d.campaign(ctx, g)
		return nil
	})
	return g.Wait()
}

// campaign runs on the deciding goroutine. It leads whenever possible, until ctx ends or a requested single cycle is
// done. A session that is lost, or cannot be opened, is followed by a new one after retryPause.
func (d *Descheduler) campaign(ctx context.Context, g *errgroup.Group) {
	for ctx.Err() == nil {
		if d.cfg.Interval == 0 && errors.Is(d.refusePaused(ctx), errPaused) {
			return // it need not wait for its turn to learn that
		}
		done, err := d.lead(ctx, g)
		if done {
			return
		}
		if err != nil && ctx.Err() == nil {
			d.deps.Logger.Warn("not leading", "retryIn", retryPause, telemetry.KeyError, err)
		}
		d.pause(ctx, retryPause)
	}
}

// lead runs one session from campaign to loss. It reports whether all work is done. The context of the cycles ends with
// the session, so a deposed leader stops between two moves; what it has sent by then is settled by tokens.
func (d *Descheduler) lead(ctx context.Context, g *errgroup.Group) (done bool, err error) {
	session, err := d.deps.Ledger.OpenSession(ctx, sessionTTL)
	if err != nil {
		return false, fmt.Errorf("descheduler: open session: %w", err)
	}
	// However it ends, the session is closed: the next leader need not wait for sessionTTL.
	defer d.closeSession(ctx, session)
	d.logWaiting(ctx)
	term, err := d.deps.Ledger.Campaign(ctx, session, election, d.cfg.ID)
	if err != nil {
		return false, err
	}
	leading, deposed := context.WithCancel(ctx)
	defer deposed()
	g.Go(func() error {
		select {
		case <-session.Done():
			deposed()
		case <-leading.Done():
		}
		return nil
	})
	d.term.Store(term)
	d.leading.Store(true)
	defer d.leading.Store(false)
	d.deps.Logger.Info("leading", "id", d.cfg.ID, "term", term)
	if d.runCycles(leading) {
		return true, nil
	}
	return false, errors.New("descheduler: session lost")
}

// logWaiting logs, for a single cycle, that it has to wait for its turn, and for which leader.
func (d *Descheduler) logWaiting(ctx context.Context) {
	if d.cfg.Interval > 0 {
		return
	}
	candidates, _, err := d.deps.Ledger.List(ctx, roster.PrefixElection+election+"/")
	if err != nil || len(candidates) == 0 {
		return // the campaign reports what is wrong with the ledger
	}
	first := slices.MinFunc(candidates, func(a, b ledger.KV) int {
		return cmp.Compare(a.CreateRevision, b.CreateRevision)
	})
	d.deps.Logger.Warn("another descheduler is running; waiting until it stops", "leader", string(first.Value))
}

// closeSession closes the session, which ends the leadership at once.
func (d *Descheduler) closeSession(ctx context.Context, s ledger.Session) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	if err := s.Close(ctx); err != nil {
		d.deps.Logger.Warn("could not end the session; its lease will expire", telemetry.KeyError, err)
	}
}

// warn logs the policy's warnings.
func (d *Descheduler) warn() {
	for _, w := range d.policy.Load().Warnings {
		d.deps.Logger.Warn("policy warning", "warning", w)
	}
}

// reload adopts a new policy if there is one. An invalid policy changes nothing: descheduling by the previous one is
// better than by none, and the file is read again before the next cycle.
func (d *Descheduler) reload() {
	if d.cfg.Reload == nil {
		return
	}
	p, err := d.cfg.Reload()
	switch {
	case err != nil:
		d.deps.Logger.Error("invalid policy; keeping the previous one", telemetry.KeyError, err)
	case p != nil:
		d.policy.Store(p)
		d.deps.Logger.Info("policy changed")
		d.warn()
	}
}

// prepare does what must precede the decision of a cycle: it adopts a new policy, reads the usage, and waits for a view
// that has everything up to the end of the log. ready is false, without an error, if the ledger does not permit a cycle
// now.
func (d *Descheduler) prepare(ctx context.Context) (in decide.Input, ready bool, err error) {
	d.reload()
	p := d.policy.Load()
	// The end of the decisions is read before anything else, so that the view below has every request that an earlier
	// leader has made.
	last, err := d.deps.Log.Last(ctx, eventlog.Decisions)
	if err != nil {
		return in, false, fmt.Errorf("descheduler: last decision: %w", err)
	}
	measured := usage.Read(ctx, d.cfg.Prometheus, p, d.deps.Clock.Now())
	waiting, cancel := context.WithTimeout(ctx, viewTimeout)
	view, err := d.intake.View(waiting, intake.Least{Kinds: p.Kinds(), Decisions: last, Ledger: d.term.Load()})
	cancel()
	if err != nil {
		return in, false, err
	}
	if view.Ledger != nil && !view.Ledger.Permits(view.Cluster.Position().Epoch) && !d.cfg.DryRun {
		d.deps.Logger.Warn("cycle skipped: new ledger generation begins", "reason", view.Ledger.Generation().Reason)
		return in, false, nil
	}
	in = decide.Input{
		Cluster: view.Cluster, Policy: p, History: view.History, Placement: d.placement, Actor: d.cfg.ID,
		Explain: d.cfg.Report != nil, Usage: measured, Averages: view.Averages, Timed: d.timed(),
	}
	if view.Ledger != nil {
		in.Promises = decide.NewPromises(view.Cluster, view.Ledger)
	}
	return in, true, nil
}

// conclude reports and carries out what a cycle has decided, and then logs and counts it. Nothing of a plan is carried
// out that could not be reported.
func (d *Descheduler) conclude(ctx context.Context, s driver.Step[decide.Input, decide.Outcome]) error {
	out := s.Output
	if err := d.report(ctx, out.Report); err != nil {
		return err
	}
	written := 0
	var err error
	if d.cfg.DryRun {
		d.logEvictions(out)
	} else {
		written, err = d.carryOut(ctx, s.Input.History, s.Input.Promises, &out)
	}
	// Once a cycle, the data about pods that are gone is dropped.
	d.intake.Forget()
	took := d.deps.Clock.Since(s.At)
	observeCycle(out, took, d.cfg.DryRun)
	d.summarise(summary{out: out, written: written, took: took, facts: s.Input.Cluster.Position().Sequence})
	return err
}

// report passes a plan to Config.Report, with a note if evictions are paused. It reads the ledger only for a dry run:
// any other cycle has read the switch at its begin.
func (d *Descheduler) report(ctx context.Context, r *plan.Report) error {
	if d.cfg.Report == nil {
		return nil
	}
	paused, err := d.pauseNote(ctx)
	if err != nil {
		return err
	}
	r.Paused = paused
	d.cfg.Report(*r)
	return nil
}

// carryOut gives up places for which no eviction was requested, keeps the places of the plan and requests its
// evictions. What the ledger refuses is added to the outcome's refusals. written is the number of requests that are
// certainly in the log. The plan counts the places that are given up as taken, so the order within a cycle does not
// change it.
func (d *Descheduler) carryOut(
	ctx context.Context, h *plan.History, p *decide.Promises, out *decide.Outcome,
) (written int, err error) {
	released, err := d.commit.Release(ctx, p, p.Leftovers(h, d.deps.Clock.Now()))
	if released > 0 {
		d.deps.Logger.Info("released places without an eviction request", "places", released)
	}
	if err != nil {
		return 0, err
	}
	if err := d.reportReturned(ctx, out.Returned); err != nil {
		return 0, err
	}
	written, refused, err := d.commit.CarryOut(ctx, p, out.Evict)
	for _, r := range refused {
		e := &r.Eviction
		if r.Because == decide.NoRoomInLedger {
			d.intake.RecordUnkept(*e)
		}
		out.Refused[descheduling.Refused{
			Profile: e.Profile, Strategy: e.Decision.Strategy, Namespace: e.Decision.Pod.Namespace,
			Node: e.Decision.NodeName, Reason: r.Because,
		}]++
	}
	return written, err
}

// reportReturned reports pods that came back: in the process's log, in metrics, and in the decisions log.
func (d *Descheduler) reportReturned(ctx context.Context, returned []events.Decision) error {
	for i := range returned {
		r := &returned[i]
		d.deps.Logger.Warn("pod returned to the node it was moved from",
			"pod", r.Pod.Namespace+"/"+r.Pod.Name, "node", r.NodeName, "owner", r.Owner)
		telemetry.PodReturned(r.Pod.Namespace)
		telemetry.LoopBroken("descheduling", 1)
	}
	return d.commit.AppendFindings(ctx, returned)
}

// pause waits for t, or until ctx ends. It returns at once if t is not positive.
func (d *Descheduler) pause(ctx context.Context, t time.Duration) {
	select {
	case <-ctx.Done():
	case <-d.deps.Clock.After(t):
	}
}
