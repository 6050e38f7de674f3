// Package preempt determines which pods have to be evicted for a pod that fits on no node.
//
// Start reading at Run; continue at attempt.take (one node) and Search.crossNode (victims on several nodes). Budgets
// holds what disruption budgets leave, Cost orders plans. Candidates and Among are the
// two halves of Run when HTTP extenders have a say in between.
//
// Like Profile.Evaluate, Run starts from scratch and is a function of its arguments. Search is for package engine,
// which tries nodes in the same way and remembers the results.
package preempt
