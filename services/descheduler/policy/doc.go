// Package policy reads the descheduler's policy file (DeschedulerPolicy,
// descheduler/v1alpha2) into values that decisions are made on.
//
// Start reading at Policy (the result), then Load. file.go is the file's shape, resolve.go
// turns it into a Policy, evictor.go and taints.go the arguments of the two plugins.
//
// Invariants:
//
//   - Every mistake is reported at once, one line each: "<file>: <field>: <value>: <what is
//     accepted>".
//   - A Policy is complete: selectors are parsed, defaults filled in. It is never changed
//     after Load returns and may be shared.
//
// Where Berth differs from the descheduler of kubernetes-sigs (v0.36):
//
//   - Unknown keys are mistakes everywhere; upstream drops them silently outside of args.
//   - What upstream parses and ignores (presort, sort, disabled lists) and what does not
//     apply here (metrics sources, event notification) is kept as a warning.
//   - Supported are the plugins in Supported; the others are refused by name.
//   - Names that can never match (a namespace with a wildcard, a taint with an effect) are
//     mistakes.
package policy
