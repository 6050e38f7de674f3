// Package telemetry makes the services observable: traces, metrics and logs, set up once per process.
//
// Traces: the trace id of a pod's path is its UID, the root span's id is derived from the trace id, and a hash of
// the trace id decides whether the path is recorded. So every service can add a span to a pod's path knowing only
// the UID (StartPodSpan), all services agree on which pods are recorded, and a UID pasted into a trace viewer finds
// the path. The root span itself is written once, at the end of the path, by the service that sees that end
// (EmitRoot). Export follows the OTEL_* variables, runs in the background through a bounded queue and drops what
// does not fit: nothing here ever waits for a collector.
//
// Metrics: functions over package-level metrics in component-base's legacy registry, with the names of
// kube-scheduler and the descheduler where they measure the same thing, else with the prefix berth_. Before
// Register they count nothing.
//
// Logs: log/slog; klog, which the Kubernetes libraries use, is redirected to the same handler.
//
// Start reading at Setup, then StartPodSpan.
package telemetry
