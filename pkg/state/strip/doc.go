// Package strip removes from Kubernetes' objects what no decision reads (Strip), before they become facts, and has
// the annotations and labels that say what an object in the facts has lost.
//
// It decides how much memory a process needs per pod and how many bytes a change costs in the log. To make use of a
// further field, keep it here first: stored facts lack it until their objects are written again.
package strip
