// Package share lets the services of one process watch the ledger over one connection: its Store passes on every call,
// and serves watches of the whole ledger from one watch that it keeps while at least one of them runs.
//
// Start reading at Store.Watch. A watch that cannot be served in that way, because it begins before what is kept, is
// passed on. A watch that is slow holds up no other one: it breaks with ErrBehind, and its owner watches again from
// where it broke, as after any other break (replica.Follow).
package share
