// Package aside handles records that a reader of the log cannot read: such a record is set aside, counted, and
// logged at a bounded rate. A single unreadable record must not end a service, and must not be skipped silently
// either.
//
// Start reading at Notes.Record. Readers of facts use package follow, which turns such a record into a hole.
package aside
