// Package inquire collects what the log and the running services know about a pod or a node, for the operator's
// commands. It only reads.
//
// A pod given by name is found in this order: the leading queue knows the UIDs of pods that exist; for others, the
// facts in the log are searched for the last pod with the name. With the UID, the history is read by subject from the
// facts and the decisions, and the shard that the queue names is asked for the nodes. A service that does not answer
// within its timeout is left out with a note: the history alone answers most questions, and is there when every
// service is down.
//
// All methods run on the caller's goroutine and may be called at the same time.
//
// Start reading at Inquiry.Pod.
package inquire
