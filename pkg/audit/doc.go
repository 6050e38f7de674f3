// Package audit is an oracle: it reads the recorded history of a ledger and of the API server, and reports where the
// history breaks a safety invariant. It receives no data from the services and shares no rules with them: it uses the
// ledger's codec, and upstream's own arithmetic for the requests of a pod, and implements everything else a second
// time. That is deliberate duplication: a counting rule that both sides imported would be wrong on both sides at once,
// and no history would show it.
//
// There are two ways in. Replay checks a whole history (`berth audit`), revision by revision. Check adds up the
// current state of a cluster (`berth check`), for which no recording is needed. Both are pure: they read no clock and
// no server, run on the caller's goroutine, and give the same report for the same input. Neither changes anything.
//
// # What is where
//
// A replay is built from parts that own their state. From the bottom up:
//
//   - package recording (the file format), package fit (what a pod needs of a node), package mark (what binds and
//     fences leave on a pod), and package strip (the fields of an object that the rules read);
//   - evidence.go: all of the history in memory, with the versions of each object in histories.go and
//     claimhistories.go, the classes of pods in classes.go, and the marks in timeline.go. The
//     history itself does not change after it was loaded; the walk keeps what it has computed of it there;
//   - state.go: the ledger at the revision that the walk has reached. ledgerState.apply alone changes it, and checks
//     nothing;
//   - placements.go: the reservations that were committed so far and may still become, or have become, a pod on a
//     node;
//   - generation.go: which generation of the ledger is open;
//   - the rules, a type for each group of invariants: ledgerlaws.go and collected.go (single documents: S3, S4, S5,
//     S10, S11, S12, S16), generation.go (a lost or restored ledger: S17), plans.go, moves.go and budgets.go (victims,
//     budgets and moves: S5, S6, S9), capacity.go (S1), topology.go (S7), gangs.go (S8), binds.go (binds at the API
//     server: S2 and I3) and claims.go (S14: a claim for one pod has one user; S15: a device is in one claim);
//   - replay.go: the walk, which calls all of them in a fixed order.
//
// The names of invariants are those of the protocol (ARCHITECTURE.md lists I1 to I12; docs/operations.md describes S1
// to S17 for operators). current.go and the files check*.go are Check.
//
// # A pod's way through a replay
//
// A pod is created, reserved on a node, bound, and deleted; its versions and two revisions of the node's document are
// in the history.
//
//  1. Loading: evidence.load appends each version to the pod's podHistory, with the requests and the class of that
//     version.
//  2. The revision with its entry: documentLaws.checkArrival checks that the shard which made the entry owned the
//     pod's partition, and placements.commit makes a placement of it; capacityLaws and topologyLaws compare the
//     placement with all others.
//  3. The revision without its entry: documentLaws.checkDeparture requires a fact, at or below the document's
//     high-water mark, that the pod is bound or gone; the placement stays active, as the pod now uses the node
//     itself.
//  4. After the walk: bindLaws.checkBinds finds the placement that the bind names, and checks that it had not been
//     released.
//
// # Two orders
//
// The ledger has an order, its revisions, and the API server has one, its resourceVersions. The two are related only
// by cause and effect, and by the marks of the recording: for a mark the recorder has read the ledger's revision, then
// the API server's, then the ledger's again, so that everything up to that point in one came before everything beyond
// it in the other. Between two marks, usually half a second, the oracle does not know the order, and gives the history
// the benefit of the doubt: it reports only what is wrong in every order that the evidence allows. So a finding is
// always a broken promise, never a matter of timing; and what was wrong for less than the time between two marks, and
// left no other trace, is not found.
//
// In code, this is a pair of bounds for every question. An event of the API server is a moment, which is certain by
// one resourceVersion and possible by another; a decision saw at least its high-water marks, and at most
// timeline.upperBound of its revision. A check takes from each range the value that is best for the placement: the
// fewest requests, the most allocatable, the fewest pods in its own domain.
//
// # What a history cannot show
//
// An object does not record whose request deleted or evicted a pod. It does record that a pod was preempted, and by
// which scheduler: so S9 is checked for pods that Berth's profiles preempt. That no other client uses a budget is the
// responsibility of the API server. With `preemption.pdb: bestEffort` more may be claimed from a budget than it
// allows, as configured: such claims are marked in the ledger, and the mark is trusted.
//
// # Cost
//
// A replay holds the whole history in memory. A committed placement is compared with the placements on its node, and,
// if a rule about other pods selects them, with the placements of every class that the rule selects; a spread
// constraint also visits every node. The rest is linear in the size of the history.
//
// Start reading at replay.run and replay.step; a test in story_test.go shows a history in a few lines.
package audit
