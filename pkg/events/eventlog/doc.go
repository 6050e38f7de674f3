// Package eventlog is the log as its implementations provide it, jetstream and memlog: streams of records that are
// appended with an expected sequence, read from a position, and searched (Log, Reader, History), and a Bus for messages
// that are not kept. It knows nothing of what the records contain.
package eventlog
