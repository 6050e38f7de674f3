package binder

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"
	configv1 "k8s.io/kube-scheduler/config/v1"
	"k8s.io/utils/clock"

	"github.com/berth-scheduler/berth/pkg/events/eventlog"
	"github.com/berth-scheduler/berth/pkg/extender"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/membership"
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/state/feed"
	"github.com/berth-scheduler/berth/services/binder/commit"
	"github.com/berth-scheduler/berth/services/binder/decide"
	"github.com/berth-scheduler/berth/services/binder/decide/basis"
	"github.com/berth-scheduler/berth/services/binder/decide/effect"
	"github.com/berth-scheduler/berth/services/binder/intake"
)

const (
	// DefaultWorkers is how many binds one binder has in flight at once. The more requests an API server and its etcd
	// get at once, the less CPU time each bind costs them: two processors shared with all of Berth bind a quarter
	// more pods per second with 128 than with 16.
	DefaultWorkers = 128
	// maxWorkers bounds Config.Workers by the number of streams that an API server allows per connection.
	maxWorkers = 250
	// DefaultKeepPlace and DefaultCollectAfter are the defaults of the corresponding fields of Config.
	DefaultKeepPlace    = basis.DefaultKeepPlace
	DefaultCollectAfter = basis.DefaultCollect
	// DefaultScheduledEvents is kube-scheduler's behaviour.
	DefaultScheduledEvents = string(commit.ScheduledAll)
	// DefaultNodeMarks leaves nodes alone: only clusters with an autoscaler need marks, and the right to patch nodes.
	DefaultNodeMarks = "none"
	// maxKeepPlace is Leftovers.Overdue: after that every hold is given up, so a longer time would have no effect.
	// maxCollectAfter is a day; empty documents that stay longer only take space in etcd.
	maxKeepPlace    = 10 * time.Minute
	maxCollectAfter = 24 * time.Hour
	// checksWhileWaiting is how many times a binder checks an empty document before it collects it.
	checksWhileWaiting = 10
	// bindsPerWorker is how many binds the core emits per worker: one in progress and one to take next, so that no
	// worker waits for a step. More would only become moot while they wait.
	bindsPerWorker = 2
	// tick is how often deadlines are checked; they are in the order of seconds.
	tick = 200 * time.Millisecond
	// inputBuffer is how many inputs may wait for the core.
	inputBuffer = 64
	// maxPending is how many effects may wait for a worker before the core accepts no more input except answers. It
	// bounds memory, not throughput: binds are limited by bindsPerWorker long before.
	maxPending = 1024
	// drainTimeout bounds how long a stopping binder waits for calls in flight; it is longer than any one of them may
	// take. leaveTimeout bounds what follows: appending the last decisions, and removing the member key.
	drainTimeout = 15 * time.Second
	leaveTimeout = 5 * time.Second
)

// Config configures a binder. New checks it and names the field, the value and what is accepted. The zero value of a
// field means its default; only ID has none.
type Config struct {
	// ID is the member id, unique for every start of every binder ("binder-0-k3x9").
	ID string
	// Workers is how many binds may be in flight at once, 1 to 250; 0 means DefaultWorkers. Half as many workers make
	// room (evictions, fences), and a quarter as many write other changes.
	Workers int
	// QPS limits the requests per second to the API server, and Burst how many may be sent at once; both apply
	// separately to events and to everything else. QPS 0 means no client-side limit, and Burst is then ignored; with
	// a limit, Burst must be at least 1.
	QPS   float32
	Burst int
	// Profiles are the shards' profiles. A rule that a profile does not have is not rechecked before the bind; pods
	// of other scheduler names are held to every rule.
	Profiles []placement.ProfileConfig
	// KeepPlace is how long the place of an evicted pod is kept for its replacement, from 1 s to 10 min; 0 means
	// DefaultKeepPlace.
	KeepPlace time.Duration
	// ScheduledEvents is which of the events of successful binds are written: "all" (also ""), "aggregated" or "none".
	ScheduledEvents string
	// NodeMarks is what the binder does about marks on nodes that show cluster autoscalers which nodes take no pods for
	// now, and which must not be removed: "none" (also ""), "write", or "remove", which removes those of before.
	NodeMarks string
	// CollectAfter is how long the empty document of an object that is gone stays in the ledger, from 1 s to 24 h; 0
	// means DefaultCollectAfter.
	CollectAfter time.Duration
}

// markModes are the values of Config.NodeMarks.
var markModes = map[string]basis.MarkMode{
	"": basis.MarksNone, DefaultNodeMarks: basis.MarksNone, "write": basis.MarksWrite, "remove": basis.MarksRemove,
}

// enforces derives from the profiles which rules the recheck before a bind applies. The result is pure and safe for
// concurrent use. It returns true for a scheduler name without a profile: a pod that an unknown profile has placed is
// held to every rule rather than to none.
func enforces(profiles []placement.ProfileConfig) basis.Enforces {
	rules := map[string]map[string]bool{}
	for _, p := range profiles {
		rules[p.SchedulerName] = map[string]bool{}
		for _, plugin := range p.Plugins {
			filters := plugin.Points == 0 || plugin.Points&placement.Filtering != 0
			rules[p.SchedulerName][plugin.Name] = filters
		}
		rules[p.SchedulerName][basis.RuleBudgets] = p.Preemption.PDB != placement.PDBBestEffort
	}
	return func(scheduler, plugin string) bool {
		known, ok := rules[scheduler]
		return !ok || known[plugin]
	}
}

// limits returns the core's limits, including the profiles' timeouts for volumes and devices
// (VolumeBindingArgs.bindTimeoutSeconds and DynamicResourcesArgs.bindingTimeout, as in kube-scheduler). A profile that
// sets none has the default of basis.DefaultLimits.
func (c Config) limits() basis.Limits {
	l := basis.DefaultLimits()
	l.Binds = bindsPerWorker * c.Workers
	l.KeepPlace = cmp.Or(c.KeepPlace, DefaultKeepPlace)
	l.Collect = cmp.Or(c.CollectAfter, DefaultCollectAfter)
	l.CollectEvery = l.Collect / checksWhileWaiting
	l.Marks.Mode = markModes[c.NodeMarks]
	l.Volumes.Deadlines, l.Devices.Deadlines = map[string]time.Duration{}, map[string]time.Duration{}
	for _, p := range c.Profiles {
		for _, plugin := range p.Plugins {
			volumes, ok := plugin.Args.(*configv1.VolumeBindingArgs)
			if ok && volumes.BindTimeoutSeconds != nil {
				l.Volumes.Deadlines[p.SchedulerName] = time.Duration(*volumes.BindTimeoutSeconds) * time.Second
			}
			devices, ok := plugin.Args.(*configv1.DynamicResourcesArgs)
			if ok && devices.BindingTimeout != nil {
				l.Devices.Deadlines[p.SchedulerName] = devices.BindingTimeout.Duration
			}
		}
	}
	return l
}

// Deps holds the external systems of a binder. All are required.
type Deps struct {
	Log eventlog.Log
	// Facts is the feed of the process, which its services share.
	Facts  *feed.Feed
	Ledger ledger.Store
	// RestConfig reaches the API server. It is copied, and its rate limits are replaced by Config's.
	RestConfig *rest.Config
	Logger     *slog.Logger
	Clock      clock.WithTicker
}

// Binder is one replica of the service. Run may be called once; Ready is safe for concurrent use.
type Binder struct {
	cfg  Config
	deps Deps
	// core is stepped, and asked, by the deciding goroutine alone.
	core   *decide.Core
	intake *intake.Reader
	commit *commit.Executor
	// inputs carries everything but answers and ticks to the deciding goroutine. It is bounded and never closed; when
	// it is full, the readers of intake wait.
	inputs chan effect.Input
	// ready is the answer of Ready, as of the last step.
	ready atomic.Bool
}

// New checks the configuration and builds a binder. It starts nothing and makes no request yet.
func New(cfg Config, deps Deps) (*Binder, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	if err := deps.validate(); err != nil {
		return nil, err
	}
	if deps.RestConfig == nil {
		return nil, errors.New("binder: RestConfig: nil: want the configuration of the API client")
	}
	api, err := commit.Connect(deps.RestConfig, cfg.QPS, cfg.Burst, deps.Clock)
	if err != nil {
		return nil, err
	}
	return build(cfg, deps, api)
}

// validate returns an error about the first field that cannot be used as given.
func (c Config) validate() error {
	switch {
	case c.ID == "":
		return errors.New("binder: ID: empty: want a member id")
	case c.Workers < 0 || c.Workers > maxWorkers:
		return fmt.Errorf("binder: Workers: %d: want 0 (%d) to %d", c.Workers, DefaultWorkers, maxWorkers)
	case c.QPS < 0:
		return fmt.Errorf("binder: QPS: %v: want 0 (no limit) or more", c.QPS)
	case c.QPS > 0 && c.Burst < 1:
		return fmt.Errorf("binder: Burst: %d with QPS %v: want 1 or more", c.Burst, c.QPS)
	}
	if err := ValidKeepPlace(c.KeepPlace); c.KeepPlace != 0 && err != nil {
		return fmt.Errorf("binder: KeepPlace: %w", err)
	}
	if err := ValidCollectAfter(c.CollectAfter); c.CollectAfter != 0 && err != nil {
		return fmt.Errorf("binder: CollectAfter: %w", err)
	}
	if err := ValidScheduledEvents(c.ScheduledEvents); err != nil {
		return fmt.Errorf("binder: ScheduledEvents: %w", err)
	}
	if err := ValidNodeMarks(c.NodeMarks); err != nil {
		return fmt.Errorf("binder: NodeMarks: %w", err)
	}
	return nil
}

// ValidKeepPlace returns an error if d is not a valid Config.KeepPlace.
func ValidKeepPlace(d time.Duration) error { return within(d, maxKeepPlace) }

// ValidCollectAfter returns an error if d is not a valid Config.CollectAfter.
func ValidCollectAfter(d time.Duration) error { return within(d, maxCollectAfter) }

// ValidScheduledEvents returns an error if s is not a valid Config.ScheduledEvents.
func ValidScheduledEvents(s string) error { return commit.Scheduled(s).Validate() }

// ValidNodeMarks returns an error if s is not a valid Config.NodeMarks.
func ValidNodeMarks(s string) error {
	if _, ok := markModes[s]; !ok {
		return fmt.Errorf("%q: want none, write or remove", s)
	}
	return nil
}

// within returns an error unless d is from one second to most.
func within(d, most time.Duration) error {
	if d < time.Second || d > most {
		return fmt.Errorf("%s: want %s to %s", d, time.Second, most)
	}
	return nil
}

func (d Deps) validate() error {
	for name, missing := range map[string]bool{
		"Log": d.Log == nil, "Facts": d.Facts == nil, "Ledger": d.Ledger == nil,
		"Logger": d.Logger == nil, "Clock": d.Clock == nil,
	} {
		if missing {
			return fmt.Errorf("binder: Deps.%s: nil: want an implementation", name)
		}
	}
	return nil
}

// build connects intake, core and commit.
func build(cfg Config, deps Deps, api commit.API) (*Binder, error) {
	if cfg.Workers == 0 {
		cfg.Workers = DefaultWorkers
	}
	extenders, err := extendersOf(cfg.Profiles, deps.Logger)
	if err != nil {
		return nil, err
	}
	b := &Binder{
		cfg: cfg, deps: deps,
		core:   decide.NewCore(cfg.ID, cfg.limits(), enforces(cfg.Profiles)),
		inputs: make(chan effect.Input, inputBuffer),
	}
	b.intake = intake.New(cfg.ID, intake.Deps{
		Log: deps.Log, Facts: deps.Facts, Ledger: deps.Ledger, Logger: deps.Logger, Clock: deps.Clock,
	}, b.inputs)
	b.commit = commit.New(cfg.Workers, commit.Deps{
		Member: cfg.ID, API: api, Ledger: deps.Ledger, Log: deps.Log, Logger: deps.Logger, Clock: deps.Clock,
		Extenders: extenders, Scheduled: commit.Scheduled(cfg.ScheduledEvents),
	})
	return b, nil
}

// extendersOf returns the clients of the extenders that bind, by scheduler name.
func extendersOf(profiles []placement.ProfileConfig, logger *slog.Logger) (map[string]*extender.Set, error) {
	sets := map[string]*extender.Set{}
	for _, p := range profiles {
		set, err := extender.NewSet(p.Extenders, logger)
		switch {
		case err != nil:
			return nil, fmt.Errorf("binder: %w", err)
		case set.Binds():
			sets[p.SchedulerName] = set
		}
	}
	return sets, nil
}

// Ready returns nil while the binder knows the facts and the ledger and holds partitions, and does not drain.
func (b *Binder) Ready() error {
	if !b.ready.Load() {
		return errors.New("binder: facts, ledger or partitions not read yet")
	}
	return nil
}

// Run serves until ctx ends, then drains: it starts nothing new, waits up to drainTimeout for calls in flight,
// appends the last decisions, and removes the member key, so that the other binders take the partitions over at once.
// Then it returns nil. It returns an error when the binder cannot continue.
//
// A binder that is killed leaves binds whose answer it did not receive (the next holder finds the pod bound, or binds
// it), fences in state Fencing (the next holder repeats the change), and its member key until the lease expires.
func (b *Binder) Run(ctx context.Context) error {
	// Intake and commit outlive ctx until the drain has ended.
	lifetime, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	g, lifetime := errgroup.WithContext(lifetime)
	member, err := membership.Join(lifetime, b.deps.Ledger, membership.Config{
		Role: membership.RoleBinder, ID: b.cfg.ID, Started: b.deps.Clock.Now(), Log: b.deps.Logger,
	})
	if err != nil {
		return fmt.Errorf("binder: join: %w", err)
	}
	g.Go(func() error { return member.Run(lifetime) })
	g.Go(func() error { return b.intake.Ledger(lifetime) })
	g.Go(func() error { return b.intake.Facts(lifetime) })
	g.Go(func() error { return b.intake.Decisions(lifetime) })
	g.Go(func() error { return b.commit.Run(lifetime) })
	g.Go(func() error {
		defer stop()
		return b.drive(ctx, lifetime)
	})
	return g.Wait()
}
