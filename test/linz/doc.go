// Package linz checks that the ledger on a real etcd behaves as the protocol assumes: a set of registers that change
// all at once or not at all, in one order for all clients.
//
// Concurrent clients, each a shard as the protocol defines it, take partitions, place pods on the documents of
// several nodes in one transaction, admit nodes that share a name, hand over, collect empty documents, and read,
// through the adapter and the builders that the product uses, while members of the etcd are killed, the leader first.
// The operations of all clients and their answers form a history, and porcupine looks for an order that explains it
// (Herlihy and Wing's linearizability). An answer that never came is an operation without an end: it may have
// happened at any later time, or not at all. A lease that runs out is one too.
//
// Epochs need no model of their own: the key own/<p> is created by the client that takes the partition, and a
// transaction that compares it is explained only if no other client had taken the partition before.
//
// The same check must detect a client whose transactions omit the compares of documents; otherwise the check would be
// worthless.
//
// Start reading at model.go. `make linz` runs it.
package linz
