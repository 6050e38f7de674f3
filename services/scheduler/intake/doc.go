// Package intake gathers what arrives at a shard (facts, ledger changes, offers, messages about turns, answers to the
// core's own effects, heartbeats, questions) into one input for the decision core: everything that is ready at once, so
// that a burst costs one step.
//
// Four goroutines read the outside world: Ledger and Facts follow the process's shared watch and feed, Offers and
// Turns are subscriptions of the bus. Each writes to a channel of its own. The deciding goroutine receives from all
// of them in Next, together with the channels of package commit. The channels differ in what happens when the shard
// is behind:
//
//   - facts and the ledger block their readers, because a shard must not miss any; the feed merges the steps that wait;
//   - offers and turns are dropped, because both are hints: an offer comes again when its lease expires.
//
// Order matters in one place only. The ledger is listed before the first fact is read, and the feed then reads the log
// to its end. So the shard sees every fact that an earlier owner of its partitions may have acted on. Within one input,
// the core applies the ledger before the facts, and both before offers.
//
// Start reading at Reader.Next.
package intake
