// Package serve answers /healthz, /livez, /readyz, /metrics, pages of the services and (if enabled) /debug/pprof over
// HTTP.
//
// Liveness means that the process's own loops run; readiness that it can do its work (stores reached, facts applied).
// Both list one line per check with ?verbose, as Kubernetes components do. A process that is not ready keeps working:
// a member that waits for etcd must not be restarted for it.
//
// # Who may do what
//
//	                               without a client CA   with --http-client-ca-file
//	/healthz, /livez, /readyz      any client            any client: a kubelet has no certificate to show
//	/metrics, /metrics/resources   any client            any certificate, or those of --http-allowed-names
//	change the log level           this machine          certificates of --http-admin-names
//	all else: pages, profiles      any client            certificates of --http-admin-names
//
// Certificates and authorities are read from their files again when these change. All times that a client may take are
// bounded (timeouts), so that a slow one holds no connection for long.
//
// # Order of calls
//
// Listen takes the port and reads the certificates; AddReady, AddPage and AddHandler add what the services provide;
// Run serves until its context ends, and then lets requests in flight finish for shutdownTimeout. Checks are called on
// the goroutine of the request that asks for them.
//
// Start reading at Server.Run.
package serve
