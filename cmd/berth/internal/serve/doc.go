// Package serve answers /healthz, /livez, /readyz, /metrics, pages of the services and (if enabled) /debug/pprof over
// HTTP.
//
// Liveness means that the process's own loops run; readiness that it can do its work (stores reached, facts applied).
// Both list one line per check with ?verbose, as Kubernetes components do.
package serve
