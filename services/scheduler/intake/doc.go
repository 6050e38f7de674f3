// Package intake gathers what arrives at a shard (facts, ledger changes, offers, heartbeats) into one input for the
// decision core: everything that is ready at once, so that a burst costs one step.
package intake
