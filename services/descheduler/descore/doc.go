// Package descore is the descheduler's decisions for those who drive them by hand instead of
// running the service: the simulation of the whole system (test/sim). It adds nothing to
// internal/decide, where to start reading; the aliases are the promise that what is simulated
// is what runs.
package descore
