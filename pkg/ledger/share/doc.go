// Package share lets the services of one process watch the ledger over one connection: its Store passes on every call,
// and serves watches of the whole ledger from one watch that it keeps while at least one of them runs.
//
// Start reading at Store.Watch. A watch that begins before what is kept starts another watch of the store. That one
// ends when it has caught up: from then on its watches are served from the shared one. A recorder of the ledger's
// history begins like this after a restart, behind the changes that its service has listed. A watch that is slow holds
// up no other one: it breaks with ErrBehind, and its owner watches again from where it broke, as after any other break
// (replica.Follow).
//
// The shared watch is a source: a goroutine that passes each batch to every watch that it serves, and retains the
// newest ones for watches that begin in the past. It ends with the last watch that it serves. When it breaks, all of
// its watches break too; their owners watch again from where each was, and the next source continues from
// the retained batches. Only watches of the whole ledger are shared, all other calls go to the backend.
package share
