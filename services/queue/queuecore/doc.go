// Package queuecore exports the decision core of a queue replica, the code that turns the streams it reads into its
// inputs, and the code that turns lists and watches into facts and writes them, for the simulation of the whole
// system (test/sim), which drives all that itself instead of running the service. It adds nothing to internal/decide
// (start reading there), internal/intake and internal/commit; the aliases guarantee that the simulated code is the
// code that runs.
package queuecore
