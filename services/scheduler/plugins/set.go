package plugins

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	restclient "k8s.io/client-go/rest"
	"k8s.io/kube-scheduler/framework"

	"github.com/berth-scheduler/berth/pkg/extender"
	"github.com/berth-scheduler/berth/pkg/placement"
)

// Factory creates a plugin, like upstream's frameworkruntime.PluginFactory.
type Factory = func(ctx context.Context, args runtime.Object, h framework.Handle) (framework.Plugin, error)

// Config describes the plugins to create.
type Config struct {
	// Profiles are the profiles as configured; profiles without custom plugins are ignored.
	Profiles []placement.ProfileConfig
	// Factories of all plugins that are compiled in, by name.
	Factories map[string]Factory
	// Parallelism is for how many nodes plugins are asked at once; 0 means 16, as upstream.
	Parallelism int
	// PodsToActivate creates the initial value of each cycle under PodsToActivateKey; nil for none.
	PodsToActivate *PodsToActivate
}

// Deps are the dependencies of plugins on the outside. Logger is required; the rest may be nil, and a plugin that
// asks for a client then makes New fail.
type Deps struct {
	// RestConfig is called when the first plugin asks for a client, and never if none does. Its error makes New
	// fail.
	RestConfig func() (*restclient.Config, error)
	// Client, if not nil, is used instead of a client built from RestConfig.
	Client kubernetes.Interface
	Logger *slog.Logger
}

// defaultParallelism is upstream's (parallelize.DefaultParallelism). It bounds calls of plugins within one question;
// there is one question at a time.
const defaultParallelism = 16

// Runtime is the custom plugins of all profiles of a process. Shards in the process share it, so that each plugin
// exists once, as in kube-scheduler. Safe for concurrent use.
type Runtime struct {
	// sets are the plugins by the scheduler name of their profile; profiles without custom plugins are not in it.
	sets    map[string]*Set
	clients *clients
	// cycleSlot is held by the cycle in progress: a channel and not a mutex, so that waiting for it ends with a
	// context.
	cycleSlot chan struct{}
	// seen is the cluster that the last cycle was shown; only the holder of cycleSlot writes it.
	seen atomic.Pointer[cluster]
	// open are the cycles that have not ended; waiting and inPreBind are the pods on their way to a bind.
	open      *openCycles
	waiting   *waitingPods
	inPreBind *preBinds

	activations *activations
	toActivate  *PodsToActivate // nil for none
}

// Set is the custom plugins of one profile, with its extenders. Safe for concurrent use.
type Set struct {
	runtime *Runtime
	handle  *handle
	logger  *slog.Logger
	// extenders are those of the profile: plugins and extenders of one pod are asked in one question, as upstream
	// asks the extenders between the filters and the scores.
	extenders *extender.Set // nil for none
	// made are the plugins, by name.
	made map[string]framework.Plugin
	points
	// noBinder: binders must not bind pods that plugins skip.
	noBinder bool
}

// points are the plugins by extension point, in the order in which they run: that of the configuration.
type points struct {
	preEnqueue []framework.PreEnqueuePlugin
	preFilter  []framework.PreFilterPlugin
	filter     []framework.FilterPlugin
	postFilter []framework.PostFilterPlugin
	preScore   []framework.PreScorePlugin
	score      []scorer
	reserve    []framework.ReservePlugin
	permit     []framework.PermitPlugin
	preBind    []framework.PreBindPlugin
	bind       []framework.BindPlugin
	postBind   []framework.PostBindPlugin
}

// scorer is a score plugin with the weight of its scores in the node's total.
type scorer struct {
	framework.ScorePlugin
	weight int64
}

// New creates the plugins of all profiles, and passes them ctx. Nothing runs yet. The error names the profile and
// the plugin: it is not compiled in, its constructor fails, it sorts the queue, or it asked for a client that the
// process cannot have.
func New(ctx context.Context, cfg Config, deps Deps) (*Runtime, error) {
	r := &Runtime{
		sets: map[string]*Set{}, cycleSlot: make(chan struct{}, 1),
		clients: &clients{deps: deps, started: make(chan struct{})},
		open:    newOpenCycles(), waiting: newWaitingPods(), inPreBind: newPreBinds(),
		activations: newActivations(deps.Logger), toActivate: cfg.PodsToActivate,
	}
	r.seen.Store(&cluster{})
	for _, p := range cfg.Profiles {
		if p.Custom == nil {
			continue
		}
		s, err := r.newSet(ctx, cfg, p, deps.Logger)
		if err != nil {
			return nil, fmt.Errorf("profile %s: %w", p.SchedulerName, err)
		}
		r.sets[p.SchedulerName] = s
	}
	return r, nil
}

// newSet creates the plugins of one profile and its extenders, in the order of the plugins' names. A plugin that is
// enabled at several points is created once.
func (r *Runtime) newSet(
	ctx context.Context, cfg Config, p placement.ProfileConfig, logger *slog.Logger,
) (*Set, error) {
	s := &Set{runtime: r, logger: logger, made: map[string]framework.Plugin{}}
	s.handle = &handle{runtime: r, profile: p.SchedulerName, parallel: parallelizer(cfg.Parallelism)}
	if cfg.Parallelism == 0 {
		s.handle.parallel = defaultParallelism
	}
	// Sorted by name: plugins may depend on an order of creation no more than upstream's do.
	for _, name := range enabled(p.Custom) {
		create, known := cfg.Factories[name]
		if !known {
			return nil, fmt.Errorf("plugin %s: not compiled into this program, want one of %s", name,
				strings.Join(slices.Sorted(maps.Keys(cfg.Factories)), ", "))
		}
		plugin, err := create(ctx, p.Custom.Args[name], s.handle)
		// A plugin that asked for a client cannot be given an error by the handle's methods, so it is returned here.
		if err = errors.Join(err, s.handle.failed()); err != nil {
			return nil, fmt.Errorf("plugin %s: %w", name, err)
		}
		if _, sorts := plugin.(framework.QueueSortPlugin); sorts {
			return nil, fmt.Errorf("plugin %s: sorts the queue (QueueSort), want a plugin that does not: "+
				"pods are tried in the order of PrioritySort", name)
		}
		s.made[name] = plugin
	}
	s.order(p.Custom, s.made)
	if len(p.Extenders) > 0 {
		var err error
		if s.extenders, err = extender.NewSet(p.Extenders, logger); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// enabled returns the names of the plugins that a profile enables at any point, sorted.
func enabled(c *placement.Custom) []string {
	names := map[string]struct{}{}
	for _, list := range c.Points {
		for _, p := range list {
			names[p.Name] = struct{}{}
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// order sorts the plugins into the points. It is no mistake to enable a plugin at a point that it does not
// implement: the configuration may have named it for all points (multiPoint).
func (s *Set) order(c *placement.Custom, made map[string]framework.Plugin) {
	s.preEnqueue = at[framework.PreEnqueuePlugin](c.Points[placement.AtPreEnqueue], made)
	s.preFilter = at[framework.PreFilterPlugin](c.Points[placement.AtPreFilter], made)
	s.filter = at[framework.FilterPlugin](c.Points[placement.AtFilter], made)
	s.postFilter = at[framework.PostFilterPlugin](c.Points[placement.AtPostFilter], made)
	s.preScore = at[framework.PreScorePlugin](c.Points[placement.AtPreScore], made)
	for _, p := range c.Points[placement.AtScore] {
		if plugin, ok := made[p.Name].(framework.ScorePlugin); ok {
			s.score = append(s.score, scorer{plugin, int64(p.Weight)})
		}
	}
	s.reserve = at[framework.ReservePlugin](c.Points[placement.AtReserve], made)
	s.permit = at[framework.PermitPlugin](c.Points[placement.AtPermit], made)
	s.preBind = at[framework.PreBindPlugin](c.Points[placement.AtPreBind], made)
	for _, p := range c.Binding() {
		if plugin, ok := made[p.Name].(framework.BindPlugin); ok {
			s.bind = append(s.bind, plugin)
		}
	}
	s.noBinder = c.NoBinder
	s.postBind = at[framework.PostBindPlugin](c.Points[placement.AtPostBind], made)
}

// at returns the plugins that are enabled at a point and implement it.
func at[T framework.Plugin](list []placement.CustomPlugin, made map[string]framework.Plugin) (plugins []T) {
	for _, p := range list {
		if plugin, ok := made[p.Name].(T); ok {
			plugins = append(plugins, plugin)
		}
	}
	return plugins
}

// Of returns the set of a profile; false if the profile has no custom plugins.
func (r *Runtime) Of(schedulerName string) (*Set, bool) {
	s, ok := r.sets[schedulerName]
	return s, ok
}

// Ready implements what a process asks of each of its parts: plugins are always ready, as they are asked only when
// needed. Informers that are not synced delay the first question instead (clients.sync).
func (r *Runtime) Ready() error { return nil }

// Run keeps the plugins' informers up to date, and delivers the pods that they want tried, until ctx ends. It closes
// the extenders' connections then. Questions must not be asked before Run: they would wait for the informers.
func (r *Runtime) Run(ctx context.Context) error {
	defer func() {
		for _, s := range r.sets {
			if s.extenders != nil {
				s.extenders.Close()
			}
		}
	}()
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return r.clients.run(ctx) })
	g.Go(func() error { return r.activations.run(ctx) })
	return g.Wait()
}

// beginCycle waits for the cycle slot and takes it; false when ctx ended first. The caller releases it with
// endCycle.
func (r *Runtime) beginCycle(ctx context.Context) bool {
	select {
	case r.cycleSlot <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

// endCycle releases the cycle slot.
func (r *Runtime) endCycle() { <-r.cycleSlot }
