// Package audit is an oracle: it reads the recorded history of a ledger and of the API server, and reports where
// the history breaks a safety invariant. It receives no data from the services and shares no rules with them: it
// uses the ledger's codec, and upstream's own arithmetic for the requests of a pod, and implements everything else
// a second time.
//
// Start reading at Record (the contents of a history), then Replay (how a history is checked), then one file for
// each group of invariants: ledgerlaws.go (single documents: S3, S4, S5, S10, S11, S12, S16), collected.go (deleted
// documents: S12), generation.go (a lost or restored ledger: S17), plans.go and moves.go (victims, budgets and
// moves: S5, S6, S9), binds.go (binds at the API server: S2 and I3), capacity.go (S1), topology.go (S7) and
// claims.go (S14: a claim for one pod has one user; S15: a device is in one claim). The names of invariants are
// those of the protocol.
//
// # Two orders
//
// The ledger has an order, its revisions, and the API server has one, its resourceVersions. The two are related
// only by cause and effect, and by the marks of the recording: for a mark the recorder has read the ledger's
// revision, then the API server's, then the ledger's again, so that everything up to that point in one came before
// everything beyond it in the other. Between two marks, usually a second, the oracle does not know the order, and
// gives the history the benefit of the doubt: it reports only what is wrong in every order that the evidence
// allows. So a finding is always a broken promise, never a matter of timing; and what was wrong for less than the
// time between two marks, and left no other trace, is not found.
//
// # What a history cannot show
//
// An object does not record whose request deleted or evicted a pod. It does record that a pod was preempted, and by
// which scheduler: so S9 is checked for pods that Berth's profiles preempt. That no other client uses a budget is
// the responsibility of the API server. With `preemption.pdb: bestEffort` more may be claimed from a budget than it
// allows, as configured: such claims are marked in the ledger, and the mark is trusted. Gangs, and S8 with them, do
// not exist.
package audit
