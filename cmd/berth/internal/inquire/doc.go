// Package inquire collects what the log and the running services know about a pod or a node, for the operator's
// commands. It only reads.
//
// Start reading at Inquiry.Pod.
package inquire
