// Package telemetry makes the services observable: traces, metrics and logs, set up once per process.
//
// Traces: the trace id of a pod's path is its UID, the root span's id is derived from the trace id, and a hash of the
// trace id decides whether the path is recorded. So every service can add a span to a pod's path knowing only the UID
// (StartPodSpan), all services agree on which pods are recorded, and a UID pasted into a trace viewer finds the path.
// The root span itself is written once, at the end of the path, by the service that sees that end (EmitRoot). Export
// follows the OTEL_* variables, runs in the background through a bounded queue and drops what does not fit: nothing
// here ever waits for a collector.
//
// Metrics: functions over package-level metrics in component-base's legacy registry, with the names of kube-scheduler
// and the descheduler where they measure the same thing, else with the prefix berth_. Before Register they count
// nothing, so that packages that count can be tested and embedded without a registry. A new metric is a declaration in
// one of the metrics_*.go files, a function with typed arguments, and, if its labels are a fixed set, its first values
// in begin.go; `make generate` then updates the reference.
//
// Logs: log/slog; klog, which the Kubernetes libraries use, is redirected to the same handler. The level can be
// changed while the process runs (SetLevel). Keys that several services use are constants (KeyPod and others).
//
// # State
//
// The package has process-wide state, as the libraries under it do: the registry, the logger's level, the sampler and
// the tracer provider. Setup and Logger set them once, before services start; afterwards all functions are safe for
// concurrent use. Nothing is read back: no decision depends on a metric or a span.
//
// # Files
//
//   - setup.go, pod.go, sampler.go: traces
//   - metrics.go: families of metrics, which package declare declares; metrics_scheduler.go and package alpha have
//     upstream's, metrics_berth.go Berth's and the descheduler's
//   - begin.go: series that exist from the start; certificates.go, resources.go: collectors, which compute at each
//     scrape
//   - logging.go: logs; package unreadable: records of the log that cannot be read
//
// Start reading at Setup, then StartPodSpan.
package telemetry
