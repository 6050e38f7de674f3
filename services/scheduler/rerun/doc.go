// Package rerun makes the decisions of scheduler shards again, from the log alone: the facts, the history of the
// ledger, and the record that each decision left. `berth replay` runs it.
//
// A record contains the state of the shard (its facts, its revision of the ledger, what it had staged and learned
// ahead) and the result. Shard brings a core of decide to the state of the record and makes it decide; the result is
// compared with the record. The core never sees the recorded result of a decision (Erase). In a strict run it does
// not even use the recorded nodes of pods that the decision counted before the ledger showed them, but the nodes
// that it chose itself.
//
// Missing data is reported, not guessed: facts or revisions that the log does not hold, records of choices that were
// counted, configurations that differ.
//
// # How a run goes
//
//  1. gather reads all decisions once, and keeps of each the raw record and its place in the order of its shard.
//  2. For one shard after the other, newShard opens the facts and the ledger's history at their beginning (or at a
//     snapshot).
//  3. For each decision, in the order of the shard's moments, advance moves both forward to the record's position,
//     and the Replica decides.
//  4. compare lists the values that differ; explain adds a known reason.
//
// The log is read forward only. So a decision whose data is missing may end the run of its shard: what comes after
// it may depend on state that cannot be restored (Shard.failed), while a decision that lacks only its own data is
// reported alone.
//
// rerun.Rebuild is the other use of the package: the state of the cluster and of the ledger at a moment, for tools
// that look at the past.
//
// Start reading at Run, then Shard.remake. The package writes nothing. It is for one goroutine.
package rerun
