// Package balance decides which partitions should move from one shard to another, so that no shard is idle while
// another has a backlog. It is pure: what the shards do and the time come in, moves come out.
//
// The hash gives the shards equal shares of the partitions, and so on average equal shares of the pods. Sometimes the
// shares are uneven, or a shard is slower than others, or hangs. If one shard is idle while another has a backlog,
// the queue requests some of the busy shard's partitions for the idle one: it records that in the ledger, and the
// shards hand over. Whole partitions move, so pods that share a partition stay together.
//
// Nothing moves for a transient imbalance, and nothing oscillates. One shard must have been idle, and the other busy,
// without a break for busyAfter. A move must leave the busy shard at least as much as the idle one then has. After a
// round that moved anything, the next round waits until the effect shows. For holdTime, a shard that has gained a
// partition gives none away unless it hangs, and a shard that has given one away gains none. A request is withdrawn
// when the member named in it is gone, and when no shard has had much to do for EvenAfter; the latter waits that long
// because the lack of a backlog may be due to the moves.
//
// Start reading at Balancer.Moves.
package balance
