// Package depend watches what a process cannot work without: the ledger's etcd, the log's NATS, and
// for those that have to do with it the API server. It asks each for something small, linearizable,
// every few seconds; says in one line when one goes missing and in one when it is back; and tells
// /readyz which one is missing.
//
// It decides nothing: every service keeps running and trying by itself, whatever this package
// thinks. It exists so that a person, or a probe, is told the cause instead of the consequences.
//
// It also asks whether etcd checks who its clients are, which nothing else would show (Authentication).
//
// Start reading at Watch.Run.
package depend
