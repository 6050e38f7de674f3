// Package intake gathers what reaches a shard (facts, ledger changes, offers, heartbeats)
// into one input for the decision core: everything at hand at once, so that a burst costs
// one step.
package intake
