// Package mark reads what binds and fences of Berth leave on a pod, as the audit understands it: it shares nothing with
// the binder that writes it.
//
// Start reading at AttemptOf.
package mark
