// Package budgets keeps what the disruption budgets of the cluster have left, for the search for victims: what their
// status allows, less what is claimed in the ledger and not in the status yet.
//
// It is derived from the facts and the ledger, and for one goroutine. Start reading at Book.
package budgets
