// Package telemetry is how the services are seen from outside: traces, metrics and logs, set
// up once per process.
//
// Traces: the trace id of a pod's path is its UID, the root span's id is derived from it, and
// whether the path is recorded is decided by a hash of it. So every service can add a span to
// a pod's path knowing only the UID (StartPodSpan), all of them agree on which pods are
// recorded, and a UID pasted into a trace viewer finds the path. The root span itself is
// written once, at the end of the path, by whoever sees that end (EmitRoot). Export follows
// the OTEL_* variables, goes in the background through a bounded queue and drops what does
// not fit: nothing here ever waits for a collector.
//
// Metrics: functions over package-level metrics in component-base's legacy registry, with
// kube-scheduler's and the descheduler's names where the thing is the same, else with the
// prefix berth_. Before Register they count nothing.
//
// Logs: log/slog; klog, which the Kubernetes libraries use, is led into the same handler.
//
// Start reading at Setup, then StartPodSpan.
package telemetry
