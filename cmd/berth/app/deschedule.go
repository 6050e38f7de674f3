package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/utils/clock"

	"github.com/berth-scheduler/berth/cmd/berth/internal/embedded"
	"github.com/berth-scheduler/berth/cmd/berth/internal/reach"
	"github.com/berth-scheduler/berth/cmd/berth/internal/render"
	"github.com/berth-scheduler/berth/pkg/descheduling/plan"
	"github.com/berth-scheduler/berth/pkg/events/jetstream"
	"github.com/berth-scheduler/berth/pkg/state/feed"
	"github.com/berth-scheduler/berth/services/descheduler"
)

// storeFlags are the flags of a command that reads the stores of a Berth: how to locate and open them, and the form of
// the output. `berth deschedule` uses all of them; status and the commands that read the log embed it for its flags
// and openLog.
type storeFlags struct {
	options
	// runOnce requests the evictions from the binders; dryRun only shows the plan.
	runOnce, dryRun bool
	output          string
	// write prints the plan.
	write func(w io.Writer, r *plan.Report, format string) error
}

// newDescheduleCommand returns the command `berth deschedule`. It reads the log into memory as a service does, the
// ledger if one is named, and the policy's Prometheus. With --once it is a descheduler for one cycle: it takes part in
// the election, and requests evictions in the log only as its leader; binders carry them out later. A crash in between
// leaves what a crash of the service leaves: evictions that were requested or not, none of which is carried out twice.
//
// The exit code is 0 when the plan was printed, even if it is empty, and 1 if no cycle could be planned or, with
// --once, requested.
func newDescheduleCommand() *cobra.Command {
	o := &storeFlags{write: render.Plan}
	cmd := &cobra.Command{
		Use:   "deschedule",
		Short: "Run one descheduling cycle, or show what it would do",
		Long: "Plans one cycle of a DeschedulerPolicy and prints it: the pods to evict, the nodes on which their\n" +
			"replacements are expected, and the pods that a strategy picked but that stay, with the reason. With --dry-\n" +
			"run nothing is evicted, and read access to the log suffices; with --once the binders are asked to evict,\n" +
			"unless another descheduler is running. On the same facts both compute the same plan.",
		Example: "  berth deschedule --dry-run --policy policy.yaml --data-dir berth-data\n" +
			"  berth deschedule --once --policy policy.yaml --nats-url nats://nats:4222 --etcd-endpoints http://etcd:2379",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.deschedule(cmd.Context(), cmd.OutOrStdout()) },
	}
	f := cmd.Flags()
	f.BoolVar(&o.runOnce, "once", false, "run one cycle")
	f.BoolVar(&o.dryRun, "dry-run", false, "show the plan without evicting")
	f.StringVarP(&o.output, "output", "o", "", "json or yaml; default: tables")
	o.addDescheduling(f)
	cmd.MarkFlagsMutuallyExclusive("once", "dry-run")
	cmd.MarkFlagsOneRequired("once", "dry-run")
	_ = cmd.MarkFlagRequired("policy") // fails only for a flag that does not exist
	cmd.AddCommand(newPauseCommand(), newResumeCommand())
	return cmd
}

// addDescheduling adds the flags of a command that plans a cycle: those that locate the log, the ledger and
// Prometheus, the policy, and the profiles by which replacements are placed.
func (o *storeFlags) addDescheduling(f *pflag.FlagSet) {
	o.addLedger(f)
	o.addNATS(f)
	f.StringVar(&o.config, "config", "",
		"KubeSchedulerConfiguration whose profiles place the replacements; default: one profile, default-scheduler")
	f.StringVar(&o.descheduling.policy, "policy", "", "DeschedulerPolicy (descheduler/v1alpha2) file")
	f.BoolVar(&o.descheduling.strict, "strict", false,
		"reject a policy with keys that have no effect, instead of warning about them")
}

// addLog adds the flags of a command that reads the log of a Berth and asks its services; such a command needs no
// access to the ledger.
func (o *storeFlags) addLog(f *pflag.FlagSet) {
	f.StringVar(&o.dataDir, "data-dir", "",
		"directory of a running berth up with an embedded log; default: "+defaultDataDir+", if one runs there")
	o.addKubeconfig(f)
	o.addNATS(f)
	o.addInstallation(f, locatedByDefault)
}

// addNATS adds the flags that locate the log and Prometheus, and those of the command's own logging.
func (o *storeFlags) addNATS(f *pflag.FlagSet) {
	o.descheduling.addPrometheus(f)
	f.StringVar(&o.logLevel, "log-level", "warn", "debug, info, warn or error")
	f.StringVar(&o.logFormat, "log-format", "text", "text or json")
	f.StringSliceVar(&o.nats.urls, "nats-url", nil, "URLs of the NATS servers (JetStream) that keep the log")
	f.StringVar(&o.tls.natsCA, "nats-ca-file", "", "CA certificates (PEM) for NATS")
	f.StringVar(&o.tls.natsCert, "nats-cert-file", "", "client certificate (PEM) for NATS")
	f.StringVar(&o.tls.natsKey, "nats-key-file", "", "client key (PEM) for NATS")
	f.StringVar(&o.tls.natsCreds, "nats-creds-file", "", "NATS credentials file (JWT and nkey)")
	f.StringVar(&o.nats.inboxPrefix, "nats-inbox-prefix", defaultInboxPrefix, inboxPrefixHelp)
}

// deschedule plans one cycle with the descheduler's own code, and prints the plan. The service runs until its one
// cycle is over. A dry run needs no ledger: without one it does not know which pods are claimed, and may plan to evict
// them.
func (o *storeFlags) deschedule(ctx context.Context, w io.Writer) error {
	if err := checkOutput(o.output); err != nil {
		return err
	}
	o.shards, o.binders = 1, 1 // not used here, but validated
	// The same checks as for the service, so that a policy that works here works there.
	in, err := o.read([]service{deschedulerService})
	if err != nil {
		return err
	}
	logger, err := o.logger()
	if err != nil {
		return err
	}
	log, err := o.openLog(ctx, logger)
	if err != nil {
		return err
	}
	defer log.Close()
	deps := descheduler.Deps{Log: log, Facts: feed.New(log, log), Logger: logger, Clock: clock.RealClock{}}
	store, err := o.openLedger(ctx)
	switch {
	case err != nil:
		return err
	case store != nil: // without a ledger, a dry run does not know the promises
		defer func() { _ = store.Close() }() // only the connection
		deps.Ledger = store
	case o.runOnce:
		return errors.New("--etcd-endpoints: not set: want the endpoints of the ledger, or --data-dir, to run a cycle")
	}
	// Report is called before Run returns, so no lock is needed.
	var report *plan.Report
	// The Interval of 0 makes Run plan one cycle and return.
	d, err := descheduler.New(descheduler.Config{
		ID: instanceID(deschedulerService), Policy: in.policy, Profiles: in.config.Profiles, DryRun: o.dryRun,
		Prometheus: o.descheduling.prometheus,
		Report:     func(r plan.Report) { report = &r },
	}, deps)
	if err != nil {
		return err
	}
	if err := d.Run(ctx); err != nil {
		return err
	}
	if report == nil {
		return errors.New("deschedule: interrupted before a plan was computed")
	}
	return o.write(w, report, o.output)
}

// openLog connects to the log that the flags name, in this order: --nats-url, the installation, the embedded log of
// --data-dir. In an installation the command is the observer, whose user may subscribe only below its own inbox
// prefix. The caller closes the log.
func (o *storeFlags) openLog(ctx context.Context, logger *slog.Logger) (*jetstream.Log, error) {
	// The name shows in NATS' list of connections, for every command that reads the log.
	cfg := jetstream.Config{
		URLs: o.nats.urls, Name: "berth-command", Logger: logger,
		CAFile: o.tls.natsCA, CertFile: o.tls.natsCert, KeyFile: o.tls.natsKey, CredsFile: o.tls.natsCreds,
		InboxPrefix: o.nats.inboxPrefix,
	}
	switch {
	case len(cfg.URLs) > 0:
	// The address is a forwarded port on this machine.
	case o.installation.Namespace != "":
		e, err := o.endpoint(ctx, reach.NATS)
		if err != nil {
			return nil, err
		}
		cfg.URLs, cfg.TLS = []string{"nats://" + e.Address}, e.TLS
		cfg.InboxPrefix = defaultInboxPrefix + "." + o.installation.Observer()
	case o.dataDir == "":
		return nil, errors.New("--nats-url: not set: want the URL of the log, or the --data-dir of a running berth up")
	default:
		running, err := embedded.ReadEndpoints(o.dataDir)
		if err != nil {
			return nil, err
		}
		if running.NATS == "" {
			return nil, fmt.Errorf("--data-dir: %s: its log is not embedded: want --nats-url instead", o.dataDir)
		}
		cfg.URLs = []string{running.NATS}
		cfg.User = running.NATSUser
		cfg.Password = running.NATSPass
	}
	log, err := jetstream.Open(ctx, cfg)
	return log, o.explainStore("--nats-url", err)
}
