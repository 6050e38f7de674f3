// Package engine gives the answers of Profile.Evaluate and preempt.Run from state that it keeps up to date, so that
// the cost of a decision depends on what changed since the last one.
//
// Start reading at Engine. Continue at class (the pods that no rule can distinguish), columns (what the engine keeps
// about nodes, in a package of its own), plan (the rules of a profile compiled for a class, sorted by what they
// read), groups (why a decision need not evaluate every node with every rule) and wide (rules about other pods,
// updated by differences). preempt.go does the same for preemption, by remembering what was found on each node.
//
// An answer is that of the evaluation from scratch, always: where the engine keeps no columns for a rule, it calls
// it. Decisions of a class that is known allocate nothing (TestAllocationsOfDecisions).
package engine
