// Package config reads kube-scheduler's own configuration file (KubeSchedulerConfiguration,
// kubescheduler.config.k8s.io/v1) and converts it to what Berth's services use: placement profiles, backoffs and
// limits.
//
// Start reading at Configuration (the result), then Load. docs/configuration.md is for users. The steps of Load,
// and where they are:
//
//  1. load.go parses the YAML strictly and checks apiVersion and kind.
//  2. complete.go fills in the defaults of the file and checks what is not about plugins.
//  3. merge.go determines for each profile which plugins run at which point (the rules of enabled, disabled and
//     multiPoint); plugins.go lists at which points each plugin acts.
//  4. args.go decodes the plugins' arguments and fills in their defaults; check.go checks them. berth.go reads
//     Berth's own settings, custom.go the plugins that users have compiled in, extenders.go the extenders.
//  5. convert.go turns a profile in kube-scheduler's terms (Profile) into one of package placement
//     (placement.ProfileConfig). effective.go writes the whole as an API object again, with every default, and idle.go
//     warns of fields without effect.
//
// Example: a file with one profile that disables ImageLocality at score and sets percentageOfNodesToScore to 50
// in the profile. The result has every default plugin except ImageLocality, which has no point left; samples half
// of the nodes; and has the complete arguments of all plugins that take some.
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
//   - DefaultPreemptionArgs limit the nodes that preemption tries only where the file sets them; otherwise all nodes
//     are tried, as for placement.
//   - An entry "Berth" in pluginConfig holds Berth's own settings (see berthArgs).
//   - leaderElection is checked and then ignored: every scheduler shard is active, and the queue and the descheduler
//     elect their leaders in the ledger.
//   - clientConnection.qps and burst apply only when the file sets them. Otherwise there is no limit on the client's
//     side (upstream: 50 and 100): API priority and fairness on the server limits requests.
//   - delayCacheUntilActive is accepted with a warning and has no effect: standbys follow the log.
//   - Plugins that are neither kube-scheduler's own nor compiled into this program, and plugins behind alpha gates,
//     are refused by name. For a plugin that is compiled in, the points at which it acts are not checked against the
//     file: they are known only where the plugin is created.
//   - Stricter than upstream, these are mistakes: an unknown plugin in a disabled list or with arguments, arguments
//     for a plugin that takes none, a negative weight, a plugin twice in multiPoint wherever it runs, wrong
//     arguments for NodeResourcesFit even if it is disabled, an extender without an address, a backoff that exceeds
//     time.Duration, and a plugin at filter or score without the point before it, if the plugin needs that point
//     (see needsBefore).
package config
