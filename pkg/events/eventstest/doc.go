// Package eventstest is the contract of events.Log, events.Snapshots and events.Bus, in the form of tests and
// benchmarks that run against every implementation. It tests what package events promises, and nothing that is
// specific to one implementation.
//
// Start reading at Run.
package eventstest
