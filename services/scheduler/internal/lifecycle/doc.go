// Package lifecycle ends attempts or puts them back in their queues: an attempt is deferred, decided again, given back
// to the queue, failed, or parked as unplaceable. It takes back what the attempt has staged, and keeps what must be
// known of that afterwards.
//
// Start reading at Attempts.
package lifecycle
