// Package watchdog searches the ledger, the pods and the decisions for anomalies, and exports what it finds.
package watchdog
