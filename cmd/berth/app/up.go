package app

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/berth-scheduler/berth/cmd/berth/internal/pace"
	"github.com/berth-scheduler/berth/cmd/berth/internal/serve"
	"github.com/berth-scheduler/berth/pkg/descheduling/policy"
	"github.com/berth-scheduler/berth/pkg/ledger/share"
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/placement/config"
	"github.com/berth-scheduler/berth/pkg/state/feed"
	"github.com/berth-scheduler/berth/pkg/telemetry"
	"github.com/berth-scheduler/berth/services/binder"
	"github.com/berth-scheduler/berth/services/descheduler"
	"github.com/berth-scheduler/berth/services/queue"
	"github.com/berth-scheduler/berth/services/scheduler"
	"github.com/berth-scheduler/berth/services/scheduler/plugins"
)

// runner is the interface of every service. Run returns only when ctx has ended or the service cannot continue; Ready
// returns nil while the service can do its work, and otherwise the reason why not. Ready is called from the HTTP
// server's goroutines while Run runs.
type runner interface {
	Run(ctx context.Context) error
	Ready() error
}

// inputs holds everything that the command line names, read and checked. policy is nil without --policy, rest is nil
// for a process that does not use Kubernetes itself (a shard or a descheduler alone).
type inputs struct {
	// config is never nil, unless its file cannot be read: without --config it is the default.
	config *config.Configuration
	policy *policy.Policy
	rest   *rest.Config
}

// run checks everything, then starts the stores and the services, and stops them all when ctx ends or one fails. The
// order:
//
//  1. Read all flags and files. Nothing has been started if one of them is wrong, and all mistakes are reported at
//     once.
//  2. Take the HTTP port, so that a port in use is an error now; nothing answers on it yet.
//  3. Set up metrics and tracing, before a service creates its first span.
//  4. Open the stores: start the embedded ones, then connect. The services get open connections.
//  5. Build the services. None of them runs yet; only custom plugins may make requests when they are created.
//  6. Run the dependencies' watches, the services and the HTTP server, all at once: no service waits for another.
//
// Stopping is the reverse. The services stop together: each may be killed at any time, so no order among them is
// needed. Only then are the stores closed, the last spans exported, and the port released; a shard that stops returns
// its partitions, which needs the ledger.
func (o *options) run(ctx context.Context, services []service) error {
	in, err := o.read(services)
	if err != nil {
		return err
	}
	logger, err := o.logger()
	if err != nil {
		return err
	}
	pace.Tune()
	exportGates(ctx)
	// From here on the process holds resources; each is released by a defer, in the reverse order.
	var web *serve.Server
	if o.http.Address != "" {
		if web, err = o.listen(services, in); err != nil {
			return err
		}
		defer web.Close()
	}
	tel, err := telemetry.Setup(ctx, telemetry.Config{
		Service: serviceName(services), Instance: instanceID(services[0]), Version: berthVersion(),
		Certificates: o.certificates(), OldNames: o.descheduling.oldMetricNames,
	})
	if err != nil {
		return fmt.Errorf("tracing: %w", err)
	}
	defer func() { _ = tel.Shutdown(context.WithoutCancel(ctx)) }() // spans not exported by now are lost, as documented
	st, err := o.openStores(ctx, logger)
	if err != nil {
		return err
	}
	defer st.close()
	runners, err := o.build(ctx, services, in, st, logger)
	if err != nil {
		return err
	}
	for _, warning := range o.warnings(in) {
		logger.Warn(warning)
	}
	// The services do not run yet, but everything that can be wrong with flags, files and addresses has been found.
	logger.Info("berth started", "version", berthVersion(), "services", services, "cluster", in.host())
	watches, err := o.watches(services, in, st, logger)
	if err != nil {
		return err
	}
	err = runAll(ctx, runners, watches, web)
	logger.Info("berth stopped", telemetry.KeyError, err)
	return err
}

// warnings returns warnings about settings that work but may not be intended: those of the configuration file, and
// certificates without an administrator.
func (o *options) warnings(in inputs) []string {
	list := append(slices.Clone(in.config.Warnings), o.foreign.Warnings()...)
	if o.http.TLS.Unadministered() {
		list = append(list, "--http-admin-names: empty: no client certificate can change the log level "+
			"or read pages and profiles")
	}
	return list
}

// logger returns the logger of the process, and makes it the default of slog and klog. It is called once.
func (o *options) logger() (*slog.Logger, error) {
	level, err := telemetry.ParseLevel(o.logLevel)
	if err != nil {
		return nil, fmt.Errorf("--log-level: %w", err)
	}
	logger, err := telemetry.Logger(o.logFormat, level)
	if err != nil {
		return nil, fmt.Errorf("--log-format: %w", err)
	}
	return logger, nil
}

// read checks the flags and reads every file they name, before anything is started. The error names all mistakes: a
// user corrects them in one go. What a service needs (a policy, a kubeconfig) is required only where that service
// runs.
func (o *options) read(services []service) (inputs, error) {
	errs := []error{o.validate()}
	in, err := o.readFiles()
	errs = append(errs, err)
	if slices.Contains(services, binderService) {
		errs = append(errs, o.retention.validate())
		if err := binder.ValidScheduledEvents(o.scheduledEvents); err != nil {
			errs = append(errs, fmt.Errorf("--scheduled-events: %w", err))
		}
		if err := binder.ValidNodeMarks(o.nodeMarks); err != nil {
			errs = append(errs, fmt.Errorf("--node-marks: %w", err))
		}
	}
	if slices.Contains(services, deschedulerService) && o.descheduling.policy == "" {
		errs = append(errs, errors.New("--policy: not set: want a DeschedulerPolicy (descheduler/v1alpha2) file"))
	}
	if slices.Contains(services, queueService) || slices.Contains(services, binderService) || o.http.TLS.TokenReview {
		// The configuration may name the kubeconfig (clientConnection), as in kube-scheduler; here the flag takes
		// precedence.
		if o.kubeconfig == "" && in.config != nil {
			o.kubeconfig = in.config.ClientConnection.Kubeconfig
		}
		// A configuration that cannot be read may be the one that names the kubeconfig.
		if o.kubeconfig != "" || in.config != nil {
			in.rest, err = o.restConfig()
			errs = append(errs, err)
		}
	}
	return in, errors.Join(errs...)
}

// readFiles reads the configuration and the policy. A file that cannot be read yields nil.
func (o *options) readFiles() (in inputs, err error) {
	var configErr, policyErr error
	in.config = config.Default()
	if o.config != "" {
		if in.config, configErr = config.Load(o.config, pluginNames()...); configErr != nil {
			configErr = fmt.Errorf("--config: %w", configErr)
		}
	}
	if o.descheduling.policy != "" {
		if in.policy, policyErr = o.descheduling.load(); policyErr != nil {
			policyErr = fmt.Errorf("--policy: %w", policyErr)
		}
	}
	return in, errors.Join(configErr, policyErr)
}

// host returns the API server's address for the log, empty if it is not used.
func (in inputs) host() string {
	if in.rest == nil {
		return ""
	}
	return in.rest.Host
}

// runAll runs every service, the watches of their dependencies, and the web server with the readiness of all of them,
// until the first error or the end of ctx. A service that returns without an error while ctx has not ended is an
// error, too: the process must exit, so that it is restarted. The queue also gets a page (/queue) and the resource
// metrics, which need its state.
func runAll(ctx context.Context, runners map[string]runner, watches watches, web *serve.Server) error {
	g, ctx := errgroup.WithContext(ctx)
	// A dependency that is missing explains why services are not ready, so /readyz shows both.
	for _, w := range watches.dependencies {
		if web != nil {
			web.AddReady(w.Name(), w.Ready)
		}
		g.Go(func() error { return w.Run(ctx) })
	}
	if watches.authentication != nil {
		g.Go(func() error { return watches.authentication.Run(ctx) })
	}
	for name, r := range runners {
		if web != nil {
			web.AddReady(name, r.Ready)
			if q, ok := r.(*queue.Queue); ok {
				web.AddPage("/queue", "pod", q.Explain)
				web.AddHandler("/metrics/resources", telemetry.ResourcesHandler(q.Resources))
			}
		}
		g.Go(func() error {
			if err := r.Run(ctx); err != nil && !errors.Is(err, context.Canceled) {
				return fmt.Errorf("%s: %w", name, err)
			}
			// A service that is asked to stop returns nil or context.Canceled; any other end is a fault.
			if ctx.Err() == nil {
				return fmt.Errorf("%s: exited unexpectedly", name)
			}
			return nil
		})
	}
	if web != nil {
		g.Go(func() error { return web.Run(ctx) })
	}
	return g.Wait()
}

// build creates the services of this process, by member id; none of them runs yet. All services of a process share one
// copy of the state (feed.Feed) and one watch of the ledger (share.Store): four copies would be four times the memory
// and four streams of the same facts.
func (o *options) build(
	ctx context.Context, services []service, in inputs, st *stores, logger *slog.Logger,
) (map[string]runner, error) {
	b := builder{
		in: in, st: st, facts: feed.New(st.log, st.log), ledger: share.New(st.ledger), clock: clock.RealClock{},
		logger: logger, runners: map[string]runner{},
	}
	// The order does not matter: creating a service starts nothing.
	for _, s := range services {
		var err error
		switch s {
		case queueService:
			err = b.queue(ctx, o)
		case schedulerService:
			err = b.shards(ctx, o)
		case binderService:
			err = b.binders(o)
		case deschedulerService:
			err = b.descheduler(o)
		}
		if err != nil {
			return nil, err
		}
	}
	return b.runners, nil
}

// builder creates services. It lives for one call of build.
type builder struct {
	// in and st are the inputs and the open stores of the process.
	in inputs
	st *stores
	// facts and ledger are shared by all services of the process.
	facts  *feed.Feed
	ledger *share.Store
	// clock is the real one; tests of services give them another.
	clock  clock.WithTicker
	logger *slog.Logger
	// runners are the services that were created so far, by member id.
	runners map[string]runner
	// custom are the plugins that profiles enable, created for the first service that needs them.
	custom *plugins.Runtime
}

// add records a service under its member id, unless creating it failed.
func (b *builder) add(id string, r runner, err error) error {
	if err != nil {
		return err
	}
	b.runners[id] = r
	return nil
}

// loggerOf returns the logger of a member: each of its lines names the service and the member, which a process with
// several of them needs.
func (b *builder) loggerOf(s service, member string) *slog.Logger {
	return b.logger.With(telemetry.KeyService, string(s), telemetry.KeyMember, member)
}

// queue creates the queue. It needs the plugins too: their hints decide which events wake a pod.
func (b *builder) queue(ctx context.Context, o *options) error {
	custom, err := b.plugins(ctx, o)
	if err != nil {
		return err
	}
	// Hints decide which events wake a pod that a plugin rejected. They are asked for once, as in kube-scheduler.
	var hints map[string]placement.Hints
	if custom != nil {
		if hints, err = custom.Hints(ctx); err != nil {
			return fmt.Errorf("--config: %w", err)
		}
	}
	id := instanceID(queueService)
	keep, err := b.leaseOf(o, id)
	if err != nil {
		return err
	}
	q, err := queue.New(queue.Config{
		ID: id, Profiles: b.in.config.Profiles, Version: berthVersion(),
		PodInitialBackoff: b.in.config.PodInitialBackoff, PodMaxBackoff: b.in.config.PodMaxBackoff,
		NoBackoff: b.in.config.PodMaxBackoff == 0, MetricsInterval: o.metricsInterval,
		Warnings: o.warnings(b.in),
	}, queue.Deps{
		Log: b.st.log, Snapshots: b.st.log, Facts: b.facts, Bus: b.st.log, Ledger: b.ledger,
		Elections: b.ledger, RestConfig: rest.CopyConfig(b.in.rest), Hints: hints, WhileLeading: keep,
		Logger: b.loggerOf(queueService, id), Clock: b.clock,
	})
	return b.add(id, q, err)
}

// shards creates the scheduler shards of this process, each a member of its own that competes for partitions with all
// others.
func (b *builder) shards(ctx context.Context, o *options) error {
	custom, err := b.plugins(ctx, o)
	if err != nil {
		return err
	}
	for i := range max(o.shards, 1) {
		id := instanceID(schedulerService, i)
		cfg := scheduler.Config{
			ID: id, Profiles: b.in.config.Profiles, WholeCluster: o.wholeCluster, NoEvidence: o.noEvidence,
		}
		s, err := scheduler.New(cfg, scheduler.Deps{
			Log: b.st.log, Facts: b.facts, Bus: b.st.log, Ledger: b.ledger,
			Logger: b.loggerOf(schedulerService, id), Clock: b.clock, Plugins: custom,
		})
		if err := b.add(id, s, err); err != nil {
			return err
		}
	}
	return nil
}

// plugins returns the plugins that the profiles enable; nil if there are none. They are created once, for the first
// service that asks, and run under the errgroup as a service: they have informers of their own. Only a process with
// such plugins reads the kubeconfig for a shard.
func (b *builder) plugins(ctx context.Context, o *options) (*plugins.Runtime, error) {
	// A profile that enables only upstream's plugins needs no runtime for custom ones.
	with := func(p placement.ProfileConfig) bool { return p.Custom != nil }
	if b.custom != nil || !slices.ContainsFunc(b.in.config.Profiles, with) {
		return b.custom, nil
	}
	// The kubeconfig is read only when a plugin asks for a client.
	custom, err := plugins.New(ctx, plugins.Config{
		Profiles: b.in.config.Profiles, Factories: compiledIn, Parallelism: int(b.in.config.Parallelism),
		PodsToActivate: podsToActivate,
	}, plugins.Deps{
		RestConfig: func() (*rest.Config, error) {
			if o.kubeconfig == "" {
				o.kubeconfig = b.in.config.ClientConnection.Kubeconfig
			}
			return o.restConfig()
		},
		Logger: b.logger.With(telemetry.KeyService, "plugins"),
	})
	if err != nil {
		return nil, fmt.Errorf("--config: %w", err)
	}
	b.custom = custom
	return custom, b.add("plugins", custom, nil)
}

// binders creates the binders of this process, each with a client and a rate limit of its own.
func (b *builder) binders(o *options) error {
	for i := range max(o.binders, 1) {
		id := instanceID(binderService, i)
		s, err := binder.New(binder.Config{
			// clientConnection bounds the requests of each binder, not of all of them together.
			ID: id, QPS: b.in.config.ClientConnection.QPS, Burst: int(b.in.config.ClientConnection.Burst),
			Profiles: b.in.config.Profiles, KeepPlace: o.retention.keepPlace, CollectAfter: o.retention.collectAfter,
			ScheduledEvents: o.scheduledEvents, NodeMarks: o.nodeMarks,
		}, binder.Deps{
			Log: b.st.log, Facts: b.facts, Ledger: b.ledger,
			RestConfig: rest.CopyConfig(b.in.rest), Logger: b.loggerOf(binderService, id), Clock: b.clock,
		})
		if err := b.add(id, s, err); err != nil {
			return err
		}
	}
	return nil
}

// descheduler creates the descheduler. It reads the policy again before each cycle if the file has changed.
func (b *builder) descheduler(o *options) error {
	id := instanceID(deschedulerService)
	d, err := descheduler.New(descheduler.Config{
		ID: id, Policy: b.in.policy, Reload: o.descheduling.reload(),
		Interval: o.descheduling.interval, Profiles: b.in.config.Profiles, Prometheus: o.descheduling.prometheus,
	}, descheduler.Deps{
		Log: b.st.log, Facts: b.facts, Ledger: b.ledger,
		Logger: b.loggerOf(deschedulerService, id), Clock: b.clock,
	})
	return b.add(id, d, err)
}

// serviceName is the name of this process in traces: the binary's own name if it runs more than one service.
func serviceName(services []service) string {
	if len(services) > 1 {
		return allServices
	}
	return string(services[0])
}

// idLetters is the number of random letters that make a member id unique.
const idLetters = 8

// instanceID returns the id of one start of one replica, such as scheduler-1-abcdefgh; it is never used again. n is
// the number of the replica in this process, for services of which it runs several. A restarted process is another
// member: what the old one promised is taken over, not continued.
func instanceID(s service, n ...int) string {
	id := string(s)
	for _, i := range n {
		id += fmt.Sprintf("-%d", i)
	}
	return id + "-" + strings.ToLower(rand.Text()[:idLetters])
}

// setDefault changes the default of a flag that was added before, in the help text as well.
func setDefault(f *pflag.FlagSet, name, value string) {
	flag := f.Lookup(name)
	flag.DefValue = value
	_ = flag.Value.Set(value) // a string flag takes any value
}
