// Package depend watches the dependencies of a process: the ledger's etcd, the log's NATS and, for services that use
// it, the API server. It sends each a small linearizable request every few seconds, logs one line when a dependency
// goes missing and one when it is back, and reports the missing one in /readyz.
//
// It decides nothing: every service keeps running and retrying by itself, whatever this package finds. It exists so
// that a person, or a probe, sees the cause instead of the consequences.
//
// It also checks whether etcd authenticates its clients, which no other symptom would show (Authentication).
//
// Start reading at Watch.Run.
package depend
