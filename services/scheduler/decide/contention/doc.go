// Package contention estimates whether a shard's decisions collide with those of other shards, from what the shard
// sees: what other shards reserve while one of its own transactions is under way, the races that it loses, and its
// backlog.
//
// For one goroutine. Start reading at Meter.Contended.
package contention
