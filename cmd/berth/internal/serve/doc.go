// Package serve answers /healthz, /livez, /readyz, /metrics, /metrics/slis, pages that describe the process (/configz,
// /flagz, /statusz), pages of the services and (if enabled) /debug/pprof over HTTP.
//
// Liveness means that the process's own loops run; readiness that it can do its work (stores reached, facts applied).
// Both list one line per check with ?verbose, as Kubernetes components do. A process that is not ready keeps working:
// a member that waits for etcd must not be restarted for it.
//
// # Who may do what
//
//	                           without either  certificate (--http-client-ca-file)     token (--http-token-review)
//	/healthz, /livez, /readyz  any client      any client: a kubelet has none to show  any client
//	/metrics, /metrics/...     any client      any, or those of --http-allowed-names   as RBAC says, verb get
//	change the log level       this machine    those of --http-admin-names             as RBAC says, verb put
//	/configz, /flagz           this machine    those of --http-admin-names             as RBAC says, verb get
//	all else: pages, profiles  any client      those of --http-admin-names             as RBAC says, verb get
//
// Certificates are verified here, without the API server. Tokens are reviewed by it (TokenReview, SubjectAccessReview)
// with the libraries of Kubernetes' own components; a request with both needs only one that allows it.
//
// Certificates and authorities are read from their files again when these change. All times that a client may take are
// bounded (timeouts), so that a slow one holds no connection for long, and so are the requests for reviews.
//
// # Order of calls
//
// Listen takes the port and reads the certificates; AddReady, AddPage and AddHandler add what the services provide,
// Describe what the process is, and ReviewTokens who reviews tokens; Run serves until its context ends, and then lets
// requests in flight finish for shutdownTimeout. Checks are called on the goroutine of the request that asks for them.
//
// Start reading at Server.Run.
package serve
