package app

import (
	"slices"

	"github.com/spf13/cobra"

	"github.com/berth-scheduler/berth/pkg/upstreamflags"
)

// service names one of the four services, as in `berth run <service>`. The names are also labels of metrics, parts of
// member ids and of names in the manifests.
type service string

const (
	// The services, in the order of a pod's path.
	queueService       service = "queue"
	schedulerService   service = "scheduler"
	binderService      service = "binder"
	deschedulerService service = "descheduler"
)

// defaultDataDir is the default directory of the embedded stores, in the working directory.
const defaultDataDir = "berth-data"

// httpPorts are the default addresses of services that run alone, so that one of each fits on a host.
var httpPorts = map[service]string{
	queueService: "127.0.0.1:10352", schedulerService: "127.0.0.1:10353",
	binderService: "127.0.0.1:10354", deschedulerService: "127.0.0.1:10355",
}

// newUpCommand returns the command `berth up`. It contacts the API server of --kubeconfig, and the stores that flags
// name; a store that no flag names is embedded. Two of them must not run on one data directory, and one cluster must
// have only one Berth: a ledger each would let both reserve the same places.
//
// It runs until it is interrupted, and then exits with 0, or until a service fails, and then exits with 1.
func newUpCommand() *cobra.Command {
	o := &options{}
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Run all four services in one process",
		Long: "Runs the queue, scheduler shards, binders and the descheduler in one process. Without --nats-url and\n" +
			"--etcd-endpoints it runs embedded stores, which persist in --data-dir. The descheduler runs if --policy is\n" +
			"given.",
		Example: "  berth up --kubeconfig ~/.kube/config\n" +
			"  berth up --kubeconfig ~/.kube/config --config berth.yaml --shards 2 --binders 2",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			// The descheduler runs only with a policy: without one it would have nothing to do.
			run := []service{queueService, schedulerService, binderService}
			if o.descheduling.policy != "" {
				run = append(run, deschedulerService)
			}
			return o.run(cmd.Context(), run)
		},
	}
	f := cmd.Flags()
	o.addCommon(f)
	o.addQueue(f)
	o.addShards(f)
	o.addBinders(f)
	o.addDescheduler(f)
	o.foreign.Add(f, slices.Concat(upstreamflags.KubeScheduler(), upstreamflags.Descheduler()))
	f.StringVar(&o.dataDir, "data-dir", defaultDataDir, "directory of the embedded stores; one per Kubernetes cluster")
	return cmd
}

// newRunCommand returns the command `berth run`, which only has subcommands.
func newRunCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Run one service, with external NATS and etcd",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(
		newServiceCommand(queueService, "Watches Kubernetes, publishes facts, and decides which pod is tried when"),
		newServiceCommand(schedulerService, "Picks nodes and reserves them; any number may be active"),
		newServiceCommand(binderService,
			"Carries decisions out: the only service that writes to Kubernetes; any number may be active"),
		newServiceCommand(deschedulerService, "Finds pods that should move to another node"),
	)
	return cmd
}

// newServiceCommand returns the command `berth run <service>`. A service that runs alone has its own default port, and
// requires external stores: another process could not reach embedded ones.
func newServiceCommand(s service, short string) *cobra.Command {
	// Both numbers are validated for every service, so a service without their flags needs valid ones.
	o := &options{replicas: replicas{shards: 1, binders: 1}}
	cmd := &cobra.Command{
		Use:   string(s),
		Short: short,
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.run(cmd.Context(), []service{s})
		},
	}
	f := cmd.Flags()
	o.addCommon(f)
	setDefault(f, "http-address", httpPorts[s])
	switch s {
	case queueService:
		o.addQueue(f)
	case schedulerService:
		o.addShards(f)
		o.foreign.Add(f, upstreamflags.KubeScheduler())
	case binderService:
		o.addBinders(f)
	case deschedulerService:
		o.addDescheduler(f)
		o.foreign.Add(f, upstreamflags.Descheduler())
	}
	for _, name := range []string{"nats-url", "etcd-endpoints"} {
		_ = cmd.MarkFlagRequired(name) // fails only for a flag that does not exist
	}
	return cmd
}
