// Package unreadable handles records that a reader of the log cannot read: such a record is set aside, counted, and
// logged at a bounded rate. A single unreadable record must not end a service, and must not be skipped silently either.
//
// The same holds for messages that the log refuses to store (WithoutRefused): the rest of a batch is appended without
// them.
//
// Start reading at Log.Record. Readers of facts use package follow, which turns such a record into a hole: a shard
// must not use what it does not know.
package unreadable
