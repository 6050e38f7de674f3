// Package rerun makes the decisions of scheduler shards again, from the log alone: the facts, the
// history of the ledger, and the records that each decision left. It is what `berth replay` runs.
//
// A record says where a shard stood (which facts, which revision of the ledger, what it had staged
// and learned ahead) and what came of it. Shard brings a core of internal/decide to where the
// record stood and has it decide; the result is compared with the record. The core never sees
// what came of a decision (Erase); in a strict run it does not even see where the pods went that
// the decision counted before the ledger showed them: it uses the nodes that it found itself.
//
// What is missing is said, not guessed: facts or revisions that the log does not hold, records of
// choices that were counted, configurations that differ.
//
// Start reading at Run, then Shard.Remake. Nothing here is written anywhere. For one goroutine.
package rerun
