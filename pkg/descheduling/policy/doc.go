// Package policy reads the descheduler's policy file (DeschedulerPolicy,
// descheduler/v1alpha2) into values that decisions are made on.
//
// Start reading at Policy (the result), then Load. args.go are the arguments of the ten
// strategies; file.go is the file's shape, resolve.go turns it into a Policy, plugins.go and
// evictor.go read the arguments, v1alpha1.go translates the version before.
//
// Invariants:
//
//   - Every mistake is reported at once, one line each: "<file>: <field>: <value>: <what is
//     accepted>". What upstream refuses too is said in upstream's words.
//   - A Policy is complete: selectors are parsed, defaults filled in. It is never changed
//     after Load returns and may be shared.
//   - What kubernetes-sigs/descheduler v0.36 accepts is accepted, the exceptions below
//     aside. What upstream drops without a word is a warning here and, in strict mode, a
//     mistake.
//
// Refused here although upstream loads it, because it fails or does nothing there in every
// cycle: a negative grace period, a node selector that cannot be parsed, a utilisation source
// that does not exist, a key given twice in one map.
package policy
