package scheduler

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/utils/clock"

	"github.com/berth-scheduler/berth/pkg/driver"
	"github.com/berth-scheduler/berth/pkg/events/eventlog"
	"github.com/berth-scheduler/berth/pkg/events/work"
	"github.com/berth-scheduler/berth/pkg/explain"
	"github.com/berth-scheduler/berth/pkg/extender"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/membership"
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/state/feed"
	"github.com/berth-scheduler/berth/pkg/telemetry"
	"github.com/berth-scheduler/berth/pkg/telemetry/unreadable"
	"github.com/berth-scheduler/berth/services/scheduler/commit"
	"github.com/berth-scheduler/berth/services/scheduler/decide"
	"github.com/berth-scheduler/berth/services/scheduler/intake"
	"github.com/berth-scheduler/berth/services/scheduler/plugins"
)

const (
	// DefaultWindow is how many offers a shard holds: enough to keep two batches busy, and few enough that a pod of
	// high priority never waits behind many others.
	DefaultWindow = 96
	// maxWindow bounds Config.Window. Every offer of the window is named in every heartbeat, and its lease is renewed
	// there.
	maxWindow = 4096
	// heartbeat is how often a shard asks for work and renews its leases: ten times within an offer's lease (the queue's
	// default is 10 s). It also bounds how late a step is that becomes due by time alone.
	heartbeat = time.Second
	// lagInterval is how often the shard compares itself with the end of the log, which costs one request.
	lagInterval = 5 * time.Second
	// drainTimeout bounds how long a stopping shard waits for its last transaction. It is longer than one request to
	// the store may take (commit: 10 s), and shorter than the grace period of a shard's own pod (deploy/k8s: 30 s).
	drainTimeout = 15 * time.Second
	// leaveTimeout bounds how long a shard that has drained waits for the log to acknowledge its last decisions.
	leaveTimeout = 5 * time.Second
)

// Config configures a shard. New checks it. It is not changed afterwards.
type Config struct {
	// ID is the member id, unique for every start of every shard ("scheduler-0-k3x9").
	ID string
	// Profiles are the profiles to schedule by; at least one, with unique scheduler names.
	Profiles []placement.ProfileConfig
	// Window is how many offers the shard holds at once; 0 means DefaultWindow.
	Window int
	// WholeCluster makes decisions look at all nodes, whatever the load, under profiles that do not say when home nodes
	// are tried first (placement.HomeNever).
	WholeCluster bool
	// NoEvidence omits evidence.Evidence from the decisions.
	NoEvidence bool
}

// Deps are the outside dependencies of a shard. All but Plugins are required. They outlive the shard, which closes none
// of them.
type Deps struct {
	Log eventlog.Log
	// Facts is the feed that the services of the process share.
	Facts  *feed.Feed
	Bus    eventlog.Bus
	Ledger ledger.Store
	Logger *slog.Logger
	Clock  clock.WithTicker
	// Plugins are the custom plugins of the profiles, which other shards of the process may share; nil if no
	// profile has any.
	Plugins *plugins.Runtime
}

// Scheduler is one shard. Run may be called once; Ready is safe for concurrent use.
type Scheduler struct {
	cfg    Config
	deps   Deps
	core   *decide.Core
	intake *intake.Reader
	commit *commit.Executor
	// alarm reports facts that cannot be decoded, once each. Only the deciding goroutine uses it.
	alarm *feed.Alarm
	// ready is the answer of Ready, as of the last step.
	ready atomic.Bool
	// queries carries questions to the deciding goroutine.
	queries *driver.Queries
	// conflicts counts lost races by reason. Only the deciding goroutine uses it.
	conflicts map[string]int
	// applied is the sequence of the last applied fact, as of the last heartbeat. It is atomic because the goroutine
	// that measures the lag reads it.
	applied atomic.Uint64
}

// New checks the configuration and builds a shard; nothing runs yet. Its errors name the field, the value and what is
// accepted.
func New(cfg Config, deps Deps) (*Scheduler, error) {
	if cfg.ID == "" {
		return nil, errors.New("scheduler: ID: empty: want a member id")
	}
	if cfg.Window == 0 {
		cfg.Window = DefaultWindow
	}
	if cfg.Window < 1 || cfg.Window > maxWindow {
		return nil, fmt.Errorf("scheduler: Window: %d: want 1 to %d", cfg.Window, maxWindow)
	}
	if len(cfg.Profiles) == 0 {
		return nil, errors.New("scheduler: Profiles: empty: want at least one")
	}
	profiles := make(map[string]*placement.Profile, len(cfg.Profiles))
	// Profiles are compiled once; the core, and the engine in it, share them read-only.
	for _, pc := range cfg.Profiles {
		if profiles[pc.SchedulerName] != nil {
			return nil, fmt.Errorf("scheduler: Profiles: %q given twice: want unique scheduler names", pc.SchedulerName)
		}
		p, err := placement.NewProfile(pc)
		if err != nil {
			return nil, fmt.Errorf("scheduler: profile %q: %w", pc.SchedulerName, err)
		}
		profiles[pc.SchedulerName] = p
		telemetry.InitProfile(pc.SchedulerName)
	}
	extenders, err := extendersOf(cfg.Profiles, deps.Logger)
	if err != nil {
		return nil, err
	}
	custom, err := pluginsOf(cfg.Profiles, deps.Plugins)
	if err != nil {
		return nil, err
	}
	s := &Scheduler{cfg: cfg, deps: deps, queries: driver.NewQueries(), conflicts: map[string]int{}}
	s.alarm = feed.NewAlarm(unreadable.New("scheduler", eventlog.Facts, deps.Logger, deps.Clock.Now).Write)
	s.core = decide.New(decide.Config{
		Shard: cfg.ID, Profiles: profiles, Window: cfg.Window, NoEvidence: cfg.NoEvidence,
		HomeFirst: true, HomeNodesFirst: homePolicy(cfg.WholeCluster),
		Acts: withPlugins(custom, (*plugins.Set).Acts), Gates: withPlugins(custom, (*plugins.Set).Gates),
		PostFilters: withPlugins(custom, (*plugins.Set).PostFilters),
		Laps:        &ruleTimer{clock: deps.Clock},
		Home:        func(members []string, nodeUID string) bool { return membership.Home(members, nodeUID) == cfg.ID },
	})
	s.intake = intake.New(cfg.ID, deps.Ledger, deps.Facts, deps.Bus, deps.Logger)
	s.commit = commit.New(commit.Deps{
		Store: deps.Ledger, Log: deps.Log, Bus: deps.Bus, Logger: deps.Logger, Clock: deps.Clock,
		Extenders: extenders, Plugins: advisers(custom),
	})
	return s, nil
}

// homePolicy returns when home nodes are tried first under profiles that do not say.
func homePolicy(wholeCluster bool) placement.HomePolicy {
	if wholeCluster {
		return placement.HomeNever
	}
	return placement.HomeAuto
}

// pluginsOf returns the plugins of the profiles that have some, by scheduler name. The runtime may serve other shards
// of the process with the same plugins, as kube-scheduler has one instance of a plugin for each profile.
func pluginsOf(profiles []placement.ProfileConfig, made *plugins.Runtime) (map[string]*plugins.Set, error) {
	sets := map[string]*plugins.Set{}
	for _, pc := range profiles {
		if pc.Custom == nil {
			continue
		}
		if made == nil {
			return nil, fmt.Errorf("scheduler: profile %q has custom plugins: want Plugins", pc.SchedulerName)
		}
		set, ok := made.Of(pc.SchedulerName)
		if !ok {
			return nil, fmt.Errorf("scheduler: profile %q has plugins that were not created", pc.SchedulerName)
		}
		sets[pc.SchedulerName] = set
	}
	return sets, nil
}

// withPlugins returns for which scheduler names do is true of the plugins. The core gets these answers as data, so
// that it asks only where there is an answer.
func withPlugins(sets map[string]*plugins.Set, do func(*plugins.Set) bool) map[string]bool {
	names := map[string]bool{}
	for name, set := range sets {
		names[name] = do(set)
	}
	return names
}

// advisers returns the same plugins as commit.Advisers: a map of one type is not a map of the other.
func advisers(sets map[string]*plugins.Set) map[string]commit.Adviser {
	all := map[string]commit.Adviser{}
	for name, set := range sets {
		all[name] = set
	}
	return all
}

// extendersOf creates the clients of the profiles' extenders, by scheduler name.
func extendersOf(profiles []placement.ProfileConfig, logger *slog.Logger) (map[string]*extender.Set, error) {
	sets := map[string]*extender.Set{}
	for _, pc := range profiles {
		if len(pc.Extenders) == 0 || pc.Custom != nil {
			continue // the plugins ask these extenders
		}
		set, err := extender.NewSet(pc.Extenders, logger)
		if err != nil {
			return nil, fmt.Errorf("scheduler: %w", err)
		}
		sets[pc.SchedulerName] = set
	}
	return sets, nil
}

// Ready returns nil while the shard can place pods: it has applied the facts, holds partitions, and does not drain.
func (s *Scheduler) Ready() error {
	if !s.ready.Load() {
		return errors.New("facts not applied yet, or no partitions owned")
	}
	return nil
}

// Run works until ctx ends, then drains: it gives back the offers that it has not reserved, waits for the
// transaction in flight, and leaves its partitions. Then it returns nil. It returns an error when the shard cannot
// continue. In both cases the membership ends last, and with it the session: other shards take the partitions over at
// once, and not while this one may still commit, because both would then place the same pods.
func (s *Scheduler) Run(ctx context.Context) error {
	// The goroutines below outlive ctx by the drain. The first of them that fails ends all others, and the loop returns
	// without a drain.
	lifetime, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	g, lifetime := errgroup.WithContext(lifetime)
	member, err := membership.Join(lifetime, s.deps.Ledger, membership.Config{
		Role: membership.RoleScheduler, ID: s.cfg.ID, Started: s.deps.Clock.Now(), Log: s.deps.Logger,
	})
	if err != nil {
		return fmt.Errorf("scheduler: join: %w", err)
	}
	keeper := membership.NewKeeper(s.deps.Ledger, member)
	g.Go(func() error { return member.Run(lifetime) })
	g.Go(func() error { return keeper.Run(lifetime) })
	g.Go(func() error { return s.intake.Ledger(lifetime) })
	g.Go(func() error { return s.intake.Facts(lifetime) })
	g.Go(func() error { return s.intake.Offers(lifetime) })
	g.Go(func() error { return s.intake.Turns(lifetime) })
	g.Go(func() error { return s.commit.Transact(lifetime) })
	g.Go(func() error { return s.commit.Publish(lifetime) })
	g.Go(func() error { return s.commit.Consult(lifetime) })
	g.Go(func() error { return s.commit.Perform(lifetime) })
	g.Go(func() error { return s.watchLag(lifetime) })
	g.Go(func() error { return explain.Serve(lifetime, s.deps.Bus, work.SubjectAskShards, s.answer) })
	g.Go(func() error {
		defer stop()
		return s.drive(ctx, lifetime, keeper)
	})
	return g.Wait()
}

// answer serves people's questions (berth explain, berth status): it asks the core on the deciding goroutine. It
// returns false if the shard has no answer, or ctx ends first.
func (s *Scheduler) answer(ctx context.Context, q explain.Question) (a explain.ShardAnswer, ok bool) {
	err := s.queries.Ask(ctx, func() {
		a, ok = s.core.Answer(q)
		if a.Status != nil {
			a.Status.Conflicts = maps.Clone(s.conflicts)
		}
	})
	return a, ok && err == nil
}
