// Package engine gives the answers of placement.Profile.Evaluate and preempt.Run from state that it keeps up to
// date. The cost of a decision then depends on what changed since the last decision about a similar pod, and not
// on the number of nodes times the number of rules.
//
// # How it works
//
// Pods that no rule can distinguish form a class, such as the replicas of one Deployment. A class keeps, for every
// node, the verdict and the score of all rules that read only that node and the pods on it. A journal records which
// node changed when. Before a class is used, it replays the journal and evaluates only the nodes that changed
// (class.catchUp). What no rule reads does not enter the journal: a reserved pod becomes bound, starts and becomes
// ready, and a node has heartbeats, without any class evaluating a node again (Engine.ChangePod, state.Pod.CountsLike).
//
// Rules about pods on other nodes cannot be kept per node, because one pod that starts in a zone changes the
// result on every node of the zone. They keep sums per topology domain instead (tallies), updated by differences.
// Nodes whose inputs to such rules are equal form a group, and a decision evaluates these rules once per group. A
// cluster of 5,000 nodes in three zones usually has a handful of groups.
//
// # An example
//
// A Deployment spreads its replicas over three zones (DoNotSchedule, maxSkew 1).
//
//  1. The first replica has a signature that no class has. Engine.find creates the class: newPlan compiles the
//     rules, class.catchUp evaluates every node once, and a tally counts the pods of the Deployment per zone.
//  2. rating.list asks the spread rule about each group of nodes (three, if nothing else distinguishes nodes),
//     rating.rate computes what the scores that compare nodes add to each group, and shortlist.scan finds the nodes
//     with the largest totals: the class's base of the node plus the points of its group.
//  3. The caller adds the pod to the chosen node and calls Engine.ChangePod. The node's row of resources is updated,
//     and the journal gets a change: this slot, this kind of pod, plus one.
//  4. The second replica is found by identity (podKey). The class replays that single change: it computes the fit
//     and the usage scores of one node again, and adds one to the tally of its zone. The node stays in its group,
//     because groups are formed by zone and not by the sum of the zone. The decision allocates nothing.
//
// # Main types
//
//   - Engine holds everything and is the only type that callers use. Its methods are in engine.go (changes of the
//     cluster), evaluate.go (decisions) and preempt.go (preemption).
//   - class is the state of the pods of one class; classCache keeps the most recently used ones within a budget.
//   - columns.Columns (internal/columns) holds what the engine keeps about nodes, in arrays indexed by slot.
//   - plan is the profile compiled for a class: the rules sorted by what they read of a node.
//   - crossNodeState holds the tallies of rules about other pods; classes whose pods are alike for those rules
//     share one.
//   - groups, rating and shortlist turn the state of a class into a ranking.
//   - preemptionCache remembers, per class, what a dry run of preemption found on each node. internal/fittrial makes
//     the usual dry runs, for pods that only lack resources.
//   - internal/signature writes the bytes by which pods are sorted into classes.
//
// Start reading at Engine, then class.catchUp, then Engine.decide.
//
// # Invariants
//
//   - An answer equals that of the evaluation from scratch, always: where the engine keeps no columns for a rule, it
//     calls the rule, and where it cannot keep results at all (plan.scratch), it calls Profile.Evaluate.
//     TestEngineAgreesWithTwin and TestEnginePreemptsAsTwin compare the two after every event of random histories.
//   - After class.catchUp, a node is in a group if and only if it passes all rules about a single node; all other
//     nodes have the base infeasible.
//   - The numbers of kinds, traits and domains are not reused while a class may refer to them. Removing unused
//     numbers (Engine.compact) drops all classes. A slot is reused when its node is removed: the journal shows both.
//   - Decisions of a class that is known allocate nothing (TestAllocationsOfDecisions), except for decisions from
//     scratch and for the diagnosis of a pod that fits nowhere.
//
// An engine starts no goroutine, has no clock and is not safe for concurrent use. It has no durable state: after
// a restart, the caller adds all nodes again.
package engine
