// Package memory encodes and decodes what a queue replica that stops in an orderly way writes down of the attempts at
// pods: how often each pod was tried, and that nothing up to the replica's position in the facts and the ledger can
// help the parked ones. The decisions log contains all of that except the last part, which saves a start from trying
// every parked pod again. A memory also names the pods that were let go through the quota gate, because the log is
// read only from the memory's position on.
//
// A memory only saves work. A replica that starts without one, or with one that does not belong to the log, tries each
// parked pod once and reads more of the decisions log; a replica that crashes writes none. So a memory is trusted only
// as far as its positions go: verdicts about parked pods count from the facts and the ledger revision at which it was
// written, and whatever happened after them is in the facts, the ledger and the log.
//
// The encoding is one protobuf message without generated code (see version): pods refer to texts by number, because
// thousands of pods share a few messages and rules. Unknown fields are skipped, so that an older replica can read what
// a newer one wrote, and a field that is missing reads as zero.
//
// Start reading at Memory, then Writer and Decode.
package memory
