// Package monitoring checks what deploy/monitoring ships, with Prometheus' own parsers: every
// rule file is one that Prometheus loads, and every query of rules and dashboards asks for
// metrics that Berth has, by labels that they have. It is a module of its own for the sake of
// what Prometheus depends on.
//
// Start reading at TestQueries. Package nodeuse below it has the descheduler ask a Prometheus.
package monitoring
