// Package policy reads the descheduler's policy file (DeschedulerPolicy, descheduler/v1alpha2) into the values on
// which decisions are based.
//
// Start reading at Policy (the result), then Load. args.go holds the arguments of the ten strategies.
//
// The way of a file: Load reads it, parse converts YAML to JSON and rejects other text; checkType rejects
// other versions (a v1alpha1 file with its translation, v1alpha1.go); decodeEnvelope reads everything but the
// plugins' arguments into a document (file.go); resolver.policy checks it and builds the Policy, for which
// profile.go looks up the reader of each plugin's arguments (plugins.go, utilization.go, evictor.go), sources.go
// reads the sources of utilisation and berth.go the block that upstream does not have. Every step records its
// mistakes in one report, and only resolver.policy's result without mistakes is returned.
//
// To add an argument: a field in file.go with upstream's name, a field in args.go, and the check in the plugin's
// reader. To add a strategy: its name and arguments in args.go, its reader, and an entry in one of the tables in
// profile.go; package descheduling then fails for its arguments until it implements the strategy.
//
// Invariants:
//
//   - Every mistake is reported at once, one line each: "<file>: <field>: <value>: <what is accepted>". Mistakes
//     that upstream refuses too are reported in upstream's words.
//   - A Policy is complete: selectors are parsed, defaults filled in. It is never changed after Load returns and
//     may be shared.
//   - What kubernetes-sigs/descheduler v0.36 accepts is accepted, with the exceptions below. What upstream silently
//     ignores is a warning here and, in strict mode, a mistake.
//
// The following are refused here although upstream loads them, because there they fail or have no effect in every
// cycle: a negative grace period, a node selector that cannot be parsed, a utilisation source that does not exist,
// a key given twice in one map.
package policy
