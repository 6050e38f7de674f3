// Package memory encodes and decodes what a queue replica that stops in an orderly way writes down of the attempts at
// pods: how often each pod was tried, and that nothing up to the replica's position in the facts and the ledger can
// help the parked ones. The decisions log contains all of that except the last part, which saves a start from trying
// every parked pod again. A memory also names the pods that were let go through the quota gate, because the log is
// read only from the memory's position on.
//
// Start reading at Memory.
package memory
