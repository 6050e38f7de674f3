// Package bindercore exports the decision core of a binder, and the code that turns the streams it reads into its
// inputs, for the simulation of the whole system (test/sim), which drives the core itself instead of running the
// service. It adds nothing to internal/decide (start reading there) and internal/intake; the aliases guarantee that
// the simulated code is the code that runs.
package bindercore
