// Package bindercore is the decision core of a binder, and what turns the streams it reads
// into its inputs, for those who drive it by hand instead of running the service: the
// simulation of the whole system (test/sim). It adds nothing to internal/decide, where to
// start reading, and internal/intake; the aliases are the promise that what is simulated is
// what runs.
package bindercore
