// Package scale predicts the throughput of Berth with many shards: it plays package scale's simulation for 10 to 64
// shards and 10,000 to 1,000,000 nodes, with one ledger and one log and with several, and before that compares it
// with real processes at 1, 2 and 4 shards (reports of berthbench path), and its twin of a shard's core with the core
// itself. It fails when they are further apart than compare.go allows.
//
// Start reading at options.Run; rows.go has the scenarios.
package scale
