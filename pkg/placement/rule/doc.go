// Package rule is the vocabulary of placement: what a rule is, what it may look up, and the changes that it
// listens to.
//
// Start reading at Plugin: a rule is compiled once for a pod (Compiled) and then evaluated on nodes, as a Filter
// and as a Scorer. Objects is how it looks at anything but pods and nodes. Change is one change of the cluster as
// rules see it: Plugin.Events and Plugin.Hint decide which changes could turn a rejection into a pass, and
// Interest which waiting pods get the same hints. CrossRule is a hard rule about pods on other nodes, for callers
// that decide concurrently.
//
// The counterparts upstream: Compile is PreFilter and PreScore, Filter.Check is Filter, Scorer.Score is Score
// with NormalizeScore, Admitter is PreEnqueue, Events and Hint are EnqueueExtensions and QueueingHintFn. Reserve,
// Permit and PreBind have no counterpart: a rule decides, and other services act.
//
// Example: NodePorts compiles a pod with host port 80 into a Filter, and a pod without host ports into the zero
// Compiled. Check rejects a node where another pod has the port. The rejected pod waits for "a pod was deleted"
// and "a node was added" (Events). When a pod without host ports is deleted, Hint reports false, and the waiting
// pod is not tried.
//
// Rules know nothing of each other, of profiles, or of how nodes are searched: packages below placement import
// this one, and it imports only pkg/state and pkg/events. Nothing here has a clock, goroutines or randomness; a
// Plugin may be used by several goroutines at once, a Filter or Scorer only by one.
package rule
