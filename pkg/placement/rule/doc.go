// Package rule is the vocabulary of placement: what a rule is, what it may look up, and the changes
// that it listens to.
//
// Start reading at Plugin: a rule is compiled once for a pod (Compiled) and then evaluated on nodes, as a Filter and
// as a Scorer. Objects is how it looks at anything but pods and nodes. Change is one change of the cluster as rules
// see it: Plugin.Events and Plugin.Hint decide which changes could turn a rejection into a pass, and Interest which
// waiting pods get the same hints. CrossRule is a hard rule about pods on other nodes, for callers that decide
// concurrently.
//
// Rules know nothing of each other, of profiles, or of how nodes are searched: packages below placement import this
// one, and it imports only pkg/state and pkg/events.
package rule
