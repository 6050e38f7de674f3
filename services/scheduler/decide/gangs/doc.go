// Package gangs decides about the pods of a gang together: all that are needed get a place, or none.
//
// A gang is decided in one step. Each pod is decided like a pod that is placed alone, by the port Place, and counts on
// its node for the pods after it. If enough of them have a node, all stay staged, and one transaction reserves them
// (package reserve). Otherwise none does: what they counted is taken back within the step, so that no other decision
// has seen it.
//
// The offer names the lead only. The pods are those that the shard's facts show, which are not older than those of the
// queue when it made the offer. Pods that have a reservation or are bound already count as placed: the rest of a gang
// goes where they are.
//
// A crash leaves nothing: before the transaction the gang is in this process only, and after it all reservations are in
// the ledger.
//
// Start reading at Former.Try.
package gangs
