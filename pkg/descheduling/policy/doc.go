// Package policy reads the descheduler's policy file (DeschedulerPolicy, descheduler/v1alpha2) into the values on
// which decisions are based.
//
// Start reading at Policy (the result), then Load. args.go holds the arguments of the ten strategies; file.go is
// the file's structure, resolve.go turns it into a Policy, plugins.go and evictor.go read the arguments,
// v1alpha1.go translates the previous version.
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
