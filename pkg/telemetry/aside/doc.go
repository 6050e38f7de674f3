// Package aside is what a reader of the log does with a record that it cannot read: it is set
// aside, counted, and told to people at a bounded rate. A single record must end no service, and
// must not be passed over in silence either.
//
// Start reading at Notes.Record. Who reads facts goes by package follow, which makes a hole of
// such a record.
package aside
