// Package audit is an oracle: it reads the recorded history of a ledger and of the API
// server beside it, and says where the history breaks a safety invariant. It is told nothing
// by the services and shares no rule with them: it has the ledger's codec, and upstream's own
// arithmetic for what a pod asks for, and everything else is written down a second time.
//
// Start reading at Record (what a history is made of), then Replay (what is done with it),
// then one file for each group of invariants: ledgerlaws.go (documents by themselves: S3, S4,
// S5, S10, S11, S12), plans.go (victims and budgets: S5, S6, S9), binds.go (what the API server
// saw: S2 and I3), capacity.go (S1), topology.go (S7) and claims.go (S14: a claim for one pod has one user;
// S15: a device is in one claim). Names of invariants are those of the protocol.
//
// # Two orders
//
// The ledger has an order, its revisions, and the API server has one, its resourceVersions.
// Nothing orders the two but cause and effect, and the marks of the recording: at a mark the
// recorder has read the ledger's revision, then the API server's, then the ledger's again, so
// that everything in one up to there came before everything in the other beyond. Between two
// marks, usually a second, the oracle does not know, and believes the history: it
// reports what is wrong in every order that the evidence allows. So a finding is a broken
// promise, never a matter of timing; and what was wrong for less than the time between two
// marks, and left no other trace, is not found.
//
// # What a history cannot tell
//
// Whose request deleted or evicted a pod is not part of an object. That a pod was preempted, and
// by which scheduler, is: so S9 is checked for those that Berth's profiles preempt, and that
// nobody else used a budget is the API server's to see to. With `preemption.pdb: bestEffort`
// more may be claimed from a budget than it allows, as asked for: such claims say so, and are
// believed. Gangs, and S8 with them, do not exist.
package audit
