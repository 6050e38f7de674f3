// Package watchdog searches the ledger, the pods and the decisions for anomalies: ledger entries that stay in one state
// for too long, pods that wait although they could be tried, and workloads that are evicted, released or rescued by the
// periodic flush again and again. It exports what it finds as gauges and as the status that people ask for. It only
// observes: no decision depends on it.
//
// Start reading at Monitor. The rules and their limits are package anomaly's; this package keeps the times that they
// need. The ledger has no times of its own, so an entry's age counts from when this replica first saw the entry in its
// current state. A replica that does not lead keeps these times too, and so a new leader reports an old entry at once.
// It exports zeros, so that each finding is reported by one replica only.
//
// A log of decisions that has lost records is read again from an earlier record. The counts of workloads then start
// over, because the records that are delivered again would count twice.
package watchdog
