// Package record builds the records of a shard's decisions for the log and for people: the evidence of a choice, the
// state besides facts and ledger on which it depends, and how each attempt ended.
//
// A record must let decide.Replica make the decision again. So the evidence of a choice names everything that the
// choice depends on and that the log of facts and the history of the ledger do not show: the revision up to which
// the shard had read the ledger, the keys that it had learned ahead of that, the choices that were staged (by their
// order numbers), the nodes that were avoided, and where the search started. Pods decided later may have counted a
// choice that was then given up; that is why lost and abandoned choices are recorded too.
//
// Start reading at Recorder.
package record
