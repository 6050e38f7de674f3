// Package rerun makes the decisions of scheduler shards again, from the log alone: the facts, the history of the
// ledger, and the record that each decision left. `berth replay` runs it.
//
// A record contains the state of the shard (its facts, its revision of the ledger, what it had staged and learned
// ahead) and the result. Shard brings a core of decide to the state of the record and makes it decide; the
// result is compared with the record. The core never sees the recorded result of a decision (Erase). In a strict run
// it does not even use the recorded nodes of pods that the decision counted before the ledger showed them, but the
// nodes that it chose itself.
//
// Missing data is reported, not guessed: facts or revisions that the log does not hold, records of choices that were
// counted, configurations that differ.
//
// Start reading at Run, then Shard.Remake. The package writes nothing. It is for one goroutine.
package rerun
