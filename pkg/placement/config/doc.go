// Package config reads kube-scheduler's own configuration file (KubeSchedulerConfiguration,
// kubescheduler.config.k8s.io/v1) and converts it to what Berth's services use: placement profiles, backoffs and
// limits.
//
// Start reading at Configuration (the result), then Load. plugins.go holds what is known about each plugin,
// merge.go the rules of enabled, disabled and multiPoint, args.go and check.go the plugins' arguments.
// docs/configuration.md is for users.
//
// Invariants:
//
//   - A file that kube-scheduler 1.36 accepts means the same here, with the differences below; a file that it
//     refuses is refused, for the same fields and kinds of mistakes. test/conformance compares the two on random
//     files and names each exception.
//   - Every mistake in the file is reported at once, one line each: "<file>: <field>: <value>: <what is accepted>";
//     the error is a *strictyaml.Mistakes. What can be read is checked even if the rest cannot be read.
//   - A Configuration is complete: every default is filled in. It is never changed after Load returns and may be
//     shared.
//
// Where Berth differs from kube-scheduler:
//
//   - percentageOfNodesToScore 0 or absent, in a profile too, means all nodes, not an adaptive share: evaluating
//     every node makes decisions reproducible.
//   - DefaultPreemptionArgs limit the nodes that preemption tries only where the file sets them; otherwise all
//     nodes are tried, as for placement.
//   - An entry "Berth" in pluginConfig holds Berth's own settings (see berthArgs).
//   - leaderElection is checked and then ignored: every scheduler shard is active, and the queue and the
//     descheduler elect their leaders in the ledger.
//   - clientConnection.qps and burst apply only when the file sets them. Otherwise there is no limit on the
//     client's side (upstream: 50 and 100): API priority and fairness on the server limits requests.
//   - delayCacheUntilActive is accepted with a warning and has no effect: standbys follow the log.
//   - Plugins that are neither kube-scheduler's own nor compiled into this program, and plugins behind alpha gates,
//     are refused by name. For a plugin that is compiled in, the points at which it acts are not checked against
//     the file: they are known only where the plugin is created.
//   - Stricter than upstream, these are mistakes: an unknown plugin in a disabled list or with arguments, arguments
//     for a plugin that takes none, a negative weight, a plugin twice in multiPoint wherever it runs, wrong
//     arguments for NodeResourcesFit even if it is disabled, an extender without an address, a backoff that exceeds
//     time.Duration, and a plugin at filter or score without the point before it, if the plugin needs that point
//     (see needsBefore).
package config
