// Package inquire gathers what there is to say about a pod or a node from the log and from the
// running services, for the operator's commands. It reads only.
//
// Start reading at Inquiry.Pod.
package inquire
