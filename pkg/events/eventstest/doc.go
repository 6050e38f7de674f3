// Package eventstest is the contract of events.Log, events.Snapshots and events.Bus as tests
// and benchmarks, run against every implementation: what package events promises, and nothing
// that only one of them does.
//
// Start reading at Run.
package eventstest
