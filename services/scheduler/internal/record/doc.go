// Package record puts together what a shard records of its decisions for the log and for people: the evidence that a
// choice was computed from, what it depends on besides facts and ledger, and how each attempt ended.
//
// Start reading at Recorder.
package record
