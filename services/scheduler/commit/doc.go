// Package commit carries out the effects that the decision core requests: reservation transactions (one at a time),
// decisions on the log (in order), questions to extenders and plugins, and messages to the queue and to other shards
// (hints).
//
// Executor.Do is called by the deciding goroutine after each step. It only hands over: five queues lead to goroutines
// that do the work, and the answers come back through channels that intake receives from. The order in Do, and what a
// crash leaves at each point:
//
//  1. Commit goes to Transact. Before it is committed nothing has happened, and the lease of the offer expires. After
//     it is committed, the binders find the reservation through their own watch, whatever this process still does.
//  2. Lost and Decisions go to Publish. A decision about a transaction is part of the step that has received the
//     transaction's result, so it never precedes the reservation. A crash in between loses the record, not the place.
//  3. Request goes to the bus. The next heartbeat repeats it.
//  4. Consults and Performs go to Consult and Perform. Their attempts end with the process; a place that is held for
//     plugins is given up by the partition's next owner.
//  5. Turns go to the bus. A lost turn costs a race.
//
// A transaction whose answer is lost is sent again unchanged until an answer arrives: all copies compare the same
// revisions, so at most one is applied. The core asks for each copy (Commit.Resubmitted counts them); this package only
// spaces them. Decisions appended twice are harmless: their readers act on the ledger and the facts.
//
// None of the queues can grow without bound, and none can make the core wait for itself: the core has at most one
// transaction in flight and at most step.MaxConsults questions, and the goroutines of Perform always receive. Only
// Publish can make the core wait, when the log is decisionsBuffer steps behind.
//
// A placed pod passes through like this: the core stages the attempt and emits T1; Transact commits it; the result
// reaches the core as step.Result; the core emits the decision "placed"; Publish appends it to the log, where binders
// and people read it.
//
// Start reading at Executor.Do.
package commit
