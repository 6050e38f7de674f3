// Package record builds the records of a shard's decisions for the log and for people: the evidence of a choice,
// what the choice depends on besides facts and ledger, and how each attempt ended.
//
// Start reading at Recorder.
package record
