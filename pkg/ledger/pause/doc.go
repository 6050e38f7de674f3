// Package pause pauses the descheduler: an operator writes a Pause into the ledger, and deschedulers ask for no
// eviction while it is there.
package pause
