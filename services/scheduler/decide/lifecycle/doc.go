// Package lifecycle ends attempts or puts them back in their queues: an attempt is deferred, decided again, given
// back to the queue, failed, or parked as unplaceable. It withdraws what the attempt has staged, and remembers what
// later decisions must know about that.
//
// Start reading at Attempts.
package lifecycle
