// Package config reads kube-scheduler's own configuration file
// (KubeSchedulerConfiguration, kubescheduler.config.k8s.io/v1) into what Berth's services
// use: placement profiles, backoffs and limits.
//
// Start reading at Configuration (the result), then Load. plugins.go holds what is known
// about each plugin, merge.go the rules of enabled, disabled and multiPoint, args.go and
// check.go the plugins' arguments. docs/configuration.md is for users.
//
// Invariants:
//
//   - A file that kube-scheduler 1.36 accepts means the same here, with the differences
//     below; a file that it refuses is refused, for the same fields and kinds of mistakes.
//     test/conformance compares the two on random files and names each exception.
//   - Every mistake in the file is reported at once, one line each:
//     "<file>: <field>: <value>: <what is accepted>"; the error is a *strictyaml.Mistakes.
//     What can be read is judged even if the rest cannot be read.
//   - A Configuration is complete: every default is filled in. It is never changed after
//     Load returns and may be shared.
//
// Where Berth differs from kube-scheduler:
//
//   - percentageOfNodesToScore 0 or absent, in a profile too, means all nodes, not an
//     adaptive share: considering every node is what makes decisions reproducible.
//   - DefaultPreemptionArgs limit the nodes that preemption tries only where the file sets
//     them: without, all are tried, as for placing.
//   - An entry "Berth" in pluginConfig holds Berth's own settings (see berthArgs).
//   - leaderElection is checked and then unused: every scheduler shard is active, and the
//     queue and the descheduler elect their leaders in the ledger.
//   - clientConnection.qps and burst hold when the file sets them. Otherwise there is no
//     limit on the client's side (upstream: 50 and 100): API priority and fairness on the
//     server governs.
//   - delayCacheUntilActive is accepted with a warning and means nothing: standbys follow the
//     log.
//   - Plugins that are neither kube-scheduler's own nor compiled into this program, and plugins behind
//     alpha gates, are refused by name. Of a plugin that is compiled in, a file is not asked at which
//     points it acts: that is known where it is made.
//   - Stricter than upstream: an unknown plugin in a disabled list or with arguments,
//     arguments for a plugin that takes none, a negative weight, a plugin twice in
//     multiPoint wherever it runs, wrong arguments for NodeResourcesFit even if it is off,
//     an extender without an address, a backoff that no time.Duration holds, and a plugin
//     at filter or score without the point before, if it cannot do without (see
//     needsBefore), are mistakes.
package config
