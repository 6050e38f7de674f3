// Package eventstest is the contract of eventlog.Log, eventlog.Snapshots and eventlog.Bus, in the form of tests and
// benchmarks that run against every implementation. It tests what package events promises, and nothing that is
// specific to one implementation.
//
// Start reading at Run.
package eventstest
