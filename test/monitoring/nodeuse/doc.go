// Package nodeuse runs the descheduler against a Prometheus: Prometheus' own storage, query engine
// and HTTP API (web/api/v1) behind TLS and a bearer token on a real listener, filled with what a
// node exporter counts. Nothing of the descheduler is replaced: it reads its policy, asks with
// its own client and plans a cycle from facts in a log.
//
// Start reading at TestMovesFromBusyNodes.
package nodeuse
