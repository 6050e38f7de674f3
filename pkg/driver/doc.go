// Package driver states the contract of the decision cores and has the one loop that drives them.
//
// A service consists of an intake, a decision core and a commit. The core is pure: it has no clock, no goroutine, no
// I/O and no randomness (see Core). A Loop connects it to the world. The queue, the scheduler, the binder and the
// descheduler each supply
//
//   - a Source, which has the service's own select over its own channels and returns what to step next,
//   - a Sink, which carries out what a step has decided, and
//   - a Drainer, if the service has work to finish when it is stopped.
//
// Loop.Run is called on one goroutine, the deciding goroutine. It alone calls the core, the source, the sink and the
// drainer, so none of them needs a lock. A service starts its other goroutines (readers, workers, the membership)
// itself; they meet the deciding goroutine in channels.
//
// # The order of things
//
// One turn of the loop is
//
//	Source.Next     waits for an Event: inputs, or a question of an operator, or nothing
//	Event.Query     answers the question, between two steps
//	Clock.Now       once for each input
//	Core.Step       decides
//	Sink.Execute    carries out, or hands over, the result of this step
//	Sink.Publish    shows other goroutines the state after the event: readiness, ownership
//
// When the context of the service ends, the loop begins to drain. It steps the drain input once, and then goes on
// with turns, in which the source may return less (a binder receives only answers), until the drainer reports that
// the service is idle or Loop.Bound has passed. Then the drainer writes what is still in memory, and Run returns.
// Nothing is stepped after that.
//
// # Two contexts
//
// Run has two contexts, because a service that drains still needs its goroutines. The first is the request to work;
// its end starts the drain. The second, the lifetime, is that of the goroutines which serve the loop. Its end means
// that one of them has failed or that the process is giving up: the loop returns at once, without a drain. A service
// without a Drainer passes the same context twice.
//
// # Errors
//
// An error ends the loop without a drain, and Run returns it. It comes from Source.Next (an input that cannot be
// decoded) or from Sink.Execute. A core does not return errors: what it cannot continue after is part of its result,
// and the sink turns that into an error. An error of the sink after the end of the lifetime is only its consequence
// and is dropped.
//
// # What a crash leaves
//
// The loop keeps nothing that outlives the process. A crash between Step and Execute loses the decision: the core
// decides again after the restart, on the facts and the ledger. What a crash between two effects of one step leaves is
// stated where their order is: in the sink of each service.
//
// Start reading at Loop.Run, then turn.
package driver
