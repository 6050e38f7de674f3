// Package serve answers /healthz, /livez, /readyz, /metrics, pages of the services and (when
// asked to) /debug/pprof over HTTP.
//
// Liveness says that the process's own loops turn; readiness that it can do its work
// (stores reached, facts applied). Both list one line per check with ?verbose, as
// Kubernetes components do.
package serve
