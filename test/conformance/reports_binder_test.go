package conformance

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/utils/clock"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/events/memlog"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/replica"
	"github.com/berth-scheduler/berth/pkg/membership"
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/state/feed"
	"github.com/berth-scheduler/berth/pkg/state/follow"
	"github.com/berth-scheduler/berth/services/binder/commit"
	bindercore "github.com/berth-scheduler/berth/services/binder/decide"
	"github.com/berth-scheduler/berth/services/binder/decide/basis"
	"github.com/berth-scheduler/berth/services/binder/decide/effect"
	"github.com/berth-scheduler/berth/services/binder/intake"
)

const (
	// binderQuiet is how long, by the binder's clock, nothing happens any more once an attempt has ended.
	binderQuiet = 3 * time.Second
	// binderEnough is how long an attempt without devices to prepare lasts at most, and binderPatience one with such, by
	// the same clock.
	binderEnough   = 10 * time.Second
	binderPatience = 5 * time.Minute
)

// binderDriver does the work around a binder's core. Its time is ahead of the clock, so that waiting costs nothing.
type binderDriver struct {
	ctx     context.Context
	store   ledger.Store
	core    *bindercore.Core
	commit  *commit.Executor
	now     time.Time
	waiting []effect.Effect
	// preparing means that the pod's devices are being prepared.
	preparing bool
	// reports are the events that it has requested.
	reports []effect.Report
	// afterBind is called after each attempt to bind, with its result.
	afterBind func(effect.Result) error
}

// newBinderDriver returns a binder that writes to an API server and a ledger. Its calls end with ctx.
func newBinderDriver(
	ctx context.Context, client *fake.Clientset, store ledger.Store, limits basis.Limits,
) *binderDriver {
	enforces := func(_, rule string) bool { return rule != basis.RuleBudgets }
	d := &binderDriver{
		ctx: ctx, store: store, core: bindercore.NewCore("b", limits, enforces), now: time.Now(),
		commit: commit.New(4, commit.Deps{
			Member: "b", API: commit.APIOf(client), Ledger: store, Log: memlog.New(memlog.Options{}),
			Logger: slog.New(slog.DiscardHandler), Clock: clock.RealClock{},
		}),
	}
	go func() { _ = d.commit.Run(ctx) }()
	return d
}

// start shows the binder the ledger and the facts, and gives it all partitions.
func (d *binderDriver) start(facts feed.Step) error {
	all := make([]int32, membership.BinderPartitions)
	for i := range all {
		all[i] = int32(i)
	}
	if err := d.step(effect.PartitionsChanged{Held: all}); err != nil {
		return err
	}
	if err := d.step(intake.FromFacts(facts)); err != nil {
		return err
	}
	return d.showLedger()
}

// showLedger shows the binder the whole ledger.
func (d *binderDriver) showLedger() error {
	kvs, revision, err := d.store.List(d.ctx, "")
	if err != nil {
		return err
	}
	return d.step(effect.LedgerChanged{Batch: replica.Batch{
		Reset: true, KVs: kvs, Events: ledger.EventBatch{Revision: revision},
	}})
}

func (d *binderDriver) step(in effect.Input) error {
	for _, e := range d.core.Step(in, d.now) {
		switch e := e.(type) {
		case effect.Stop:
			return e.Err
		case effect.Fault:
			return fmt.Errorf("%s: %w", e.What, e.Err)
		case effect.Report:
			d.reports = append(d.reports, e)
		case effect.Publish, effect.Rejected:
		default:
			d.waiting = append(d.waiting, e)
		}
	}
	return nil
}

// run carries effects out until nothing happens any more, or only what waits for facts that do not come.
func (d *binderDriver) run() error {
	for began, last := d.now, d.now; d.preparing || d.now.Sub(last) < binderQuiet; {
		lasted := d.now.Sub(began)
		if !d.preparing && lasted > binderEnough {
			return nil
		}
		if lasted > binderPatience {
			return errors.New("the attempt does not end")
		}
		for len(d.waiting) > 0 {
			last = d.now
			if err := d.carryOut(); err != nil {
				return err
			}
		}
		d.now = d.now.Add(200 * time.Millisecond)
		if err := d.step(effect.Tick{}); err != nil {
			return err
		}
	}
	return nil
}

// carryOut carries the first effect out that waits.
func (d *binderDriver) carryOut() error {
	e := d.waiting[0]
	d.waiting = d.waiting[1:]
	if op, moot := d.core.Moot(e); moot {
		return d.step(effect.NotStarted{Op: op})
	}
	lane, ok := commit.LaneOf(e)
	if !ok {
		return fmt.Errorf("an effect without a lane: %T", e)
	}
	var answer effect.Input
	select {
	case d.commit.Lane(lane) <- e:
	case <-d.ctx.Done():
		return d.ctx.Err()
	}
	select {
	case answer = <-d.commit.Answers():
	case <-d.ctx.Done():
		return d.ctx.Err()
	}
	if err := d.step(answer); err != nil {
		return err
	}
	switch e.(type) {
	case effect.Transact, effect.Amend:
		return d.showLedger()
	case effect.FencePod:
		d.preparing = false
	case effect.Bind:
		a, ok := answer.(effect.Answered)
		d.preparing = ok && a.Result == effect.Waiting
		if ok && d.afterBind != nil {
			return d.afterBind(a.Result)
		}
	}
	return nil
}

// ourReports runs a shard's core and a binder with these limits for one attempt, and returns what they leave. afterBind
// is called after each attempt to bind, with its result; it may be nil.
func (c *extendedCase) ourReports(
	ctx context.Context, profile *placement.Profile, limits basis.Limits,
	afterBind func(*fake.Clientset, effect.Result) error,
) (reports, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	shard := newShardDriver(ctx, profile, nil, nil)
	if err := shard.start(c); err != nil {
		return reports{}, err
	}
	decision, err := shard.decide()
	if err != nil {
		return reports{}, err
	}
	var r reports
	client := c.server(func(node string) { r.Node = node })
	d := newBinderDriver(ctx, client, shard.store, limits)
	if afterBind != nil {
		d.afterBind = func(result effect.Result) error { return afterBind(client, result) }
	}
	if err := d.attempt(c, decision); err != nil {
		return reports{}, err
	}
	for _, e := range d.reports {
		r.addEvent(report{
			Controller: e.SchedulerName, Regarding: podName(e.Pod), Related: podName(e.Related),
			Type: e.Type, Reason: e.Reason, Action: e.Action, Note: e.Note,
		}, nameOfObject(c.pod))
	}
	return c.reportsAfter(ctx, client, r)
}

// attempt carries a shard's decision out.
func (d *binderDriver) attempt(c *extendedCase, decision events.Decision) error {
	facts, err := c.facts()
	if err != nil {
		return err
	}
	steps, err := feed.NewFolder().FoldAll(follow.Batch{Reset: true}, follow.Batch{Facts: facts})
	if err != nil {
		return err
	}
	if err := d.start(steps[len(steps)-1]); err != nil {
		return err
	}
	if err := d.step(effect.DecisionSeen{Decision: decision}); err != nil {
		return err
	}
	return d.run()
}
