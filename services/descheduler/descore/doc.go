// Package descore exports the descheduler's decisions for the simulation of the whole system (test/sim), which drives
// them itself instead of running the service. It adds nothing to internal/decide (start reading there); the aliases
// guarantee that the simulated code is the code that runs.
package descore
