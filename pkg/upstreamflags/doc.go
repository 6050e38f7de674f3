// Package upstreamflags lists the flags of kube-scheduler 1.36 and of descheduler 0.36 that Berth does not have, each
// with one line that names what replaces it, or why it is not needed. `berth up`, `berth run scheduler` and `berth run
// descheduler` answer such a flag with this line instead of "unknown flag".
//
// A flag is refused if the process would do something else than its user expects: it would listen elsewhere, trust
// other clients, or evaluate other features. It is ignored with a warning if nothing that others rely on depends on it,
// such as the size of a log buffer.
//
// test/conformance compares the lists with the flags of both upstream programs: a flag that upstream adds, or that
// takes a value differently, fails there.
//
// Sources: cmd/kube-scheduler/app/options and cmd/descheduler/app/options. Start reading at Flag.
package upstreamflags
