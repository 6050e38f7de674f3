// Package queuecore is the decision core of a queue replica, what turns the streams it reads
// into its inputs, and what turns lists and watches into facts and writes them, for those who
// drive all that by hand instead of running the service: the simulation of the whole system
// (test/sim). It adds nothing to internal/decide, where to start reading, internal/intake and
// internal/commit; the aliases are the promise that what is simulated is what runs.
package queuecore
