// Package app is the command berth, for its own main and for programs that add plugins:
//
//	func main() { os.Exit(app.Main(app.WithPlugin("Licences", licences.New))) }
//
// It only connects components: it reads flags and files, opens the stores, builds each service's Config and Deps, and
// runs the services under one errgroup. Every mistake in the command line that can be detected is reported before
// anything is started.
//
// # Commands
//
// Each command has a file of its own, with a constructor new…Command that cobra calls with the flags. They differ in
// the servers that they contact:
//
//	up, run SERVICE            Kubernetes (queue, binder, and shards with custom plugins), NATS, etcd;
//	                           what the configuration names: extenders, Prometheus, metrics.k8s.io
//	status                     NATS for the log and for questions to services, etcd, Kubernetes
//	explain pod, explain node  NATS for the log and for questions to services
//	trace pod                  the same, without the shards
//	export                     NATS for the log
//	replay, simulate           NATS for the log, or a bundle in a file
//	deschedule,                NATS for the log, etcd, Prometheus
//	  explain deschedule
//	deschedule pause, resume   etcd
//	drain-shard                etcd
//	secure-ledger              etcd, as its root user
//	check                      Kubernetes, etcd
//	audit record               Kubernetes, etcd
//	audit FILE                 none
//	log-level                  the HTTP port of one process
//	certs, version             none
//
// The exit code is 0, or 1 after any error, whose text goes to standard error behind "berth: ". The commands that
// judge (check, audit, replay) also exit with 1 if their verdict is bad; their report is on standard output in either
// case. A service that is stopped by SIGINT or SIGTERM exits with 0.
//
// # Where a command finds Berth
//
// Commands that read a running Berth take the addresses of its stores from --nats-url and --etcd-endpoints, else from
// the endpoints.json of a `berth up` (--data-dir), else they forward ports of an installation in the kubeconfig's
// cluster (--berth-namespace). See options.locate.
//
// # State
//
// The process has three variables that main's options set before the command runs, and nothing changes later: version,
// compiledIn and podsToActivate. Everything else belongs to the options of the one command that runs.
//
// Start reading at Main and newRootCommand, then options.run.
package app
