// Package depend watches the dependencies of a process: the ledger's etcd, the log's NATS and, for services that use
// it, the API server. It sends each a small linearizable request every few seconds, logs one line when a dependency
// goes missing and one when it is back, and reports the missing one in /readyz.
//
// It decides nothing: every service keeps running and retrying by itself, whatever this package finds. It exists so
// that a person, or a probe, sees the cause instead of the consequences.
//
// It also checks whether etcd authenticates its clients, which no other symptom would show (Authentication).
//
// Each Watch and each Authentication runs on one goroutine, that of its Run; Ready may be called from any other. A
// dependency counts as missing after two failed probes in a row: 2 to 8 s after it stopped to answer, depending on
// whether it refuses or hangs.
//
// Start reading at Watch.Run.
package depend
