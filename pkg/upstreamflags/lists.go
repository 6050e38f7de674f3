package upstreamflags

import "slices"

// scheduler are the flags that only kube-scheduler has.
var scheduler = slices.Concat(
	refuse("use the command `berth config print FILE`", "write-config-to"),
	refuse("use --kubeconfig with a file that names this API server", "master"),
	refuse("use clientConnection.qps and clientConnection.burst in the file of --config; without them there is no limit",
		"kube-api-qps", "kube-api-burst"),
	ignore("requests are always sent as protobuf", "kube-api-content-type"),
	switches(ignore("blocking is not profiled; --profiling serves all other profiles", "contention-profiling")),
	ignore("parked pods are tried again every 5 minutes", "pod-max-in-unschedulable-pods-duration"),
	refuse("Berth has no feature gates: it evaluates what the API server serves (docs/migrate.md)",
		"feature-gates", "emulated-version", "min-compatibility-version"),
	ignore("all metrics and labels are served; drop what you do not need in Prometheus (metricRelabelings)",
		"allow-metric-labels", "allow-metric-labels-manifest", "disabled-metrics", "show-hidden-metrics-for-version"),
	switches(refuse("use the command `berth version`", "version")),
)

// delegation are the flags about who may read the endpoints of kube-scheduler.
var delegation = slices.Concat(
	refuse("use --http-token-review: bearer tokens are reviewed by the API server of --kubeconfig",
		"authentication-kubeconfig", "authorization-kubeconfig"),
	switches(ignore("nothing is looked up in the cluster; --http-client-ca-file names the authority of certificates",
		"authentication-skip-lookup", "authentication-tolerate-lookup-failure")),
	ignore("reviews are kept for 10 seconds", "authentication-token-webhook-cache-ttl",
		"authorization-webhook-cache-authorized-ttl", "authorization-webhook-cache-unauthorized-ttl"),
	refuse("only /healthz, /livez and /readyz are open; grant others with RBAC (nonResourceURLs) and --http-token-review",
		"authorization-always-allow-paths"),
	refuse("use --http-client-ca-file, and --http-allowed-names and --http-admin-names for what certificates may do",
		"client-ca-file"),
	refuse("front proxies are not trusted: clients show a certificate or a token themselves",
		"requestheader-allowed-names", "requestheader-client-ca-file", "requestheader-extra-headers-prefix",
		"requestheader-group-headers", "requestheader-uid-headers", "requestheader-username-headers"),
)

// serving are the flags of both programs about the HTTP port.
var serving = slices.Concat(
	refuse("use --http-address HOST:PORT", "bind-address", "secure-port"),
	refuse("use --http-cert-file and --http-key-file; without them the port is plain HTTP", "cert-dir"),
	refuse("use --http-cert-file", "tls-cert-file"),
	refuse("use --http-key-file", "tls-private-key-file"),
	refuse("use --http-cert-file with a certificate for all names: one is served", "tls-sni-cert-key"),
	ignore("only TLS 1.3 is accepted", "tls-min-version"),
	ignore("only TLS 1.3 is accepted, whose cipher suites cannot be chosen", "tls-cipher-suites"),
	refuse("the key exchanges are those of Go and cannot be chosen", "tls-curve-preferences"),
	switches(refuse("HTTP/2 is always offered with TLS", "disable-http2-serving")),
	ignore("the number of streams is Go's default", "http2-max-streams-per-connection"),
	switches(refuse("each process needs a port of its own: use --http-address",
		"permit-address-sharing", "permit-port-sharing")),
)

// election are the flags of both programs about leader election.
var election = slices.Concat(
	switches(ignore(elected, "leader-elect")),
	ignore(elected, "leader-elect-lease-duration", "leader-elect-renew-deadline", "leader-elect-retry-period",
		"leader-elect-resource-lock", "leader-elect-resource-name", "leader-elect-resource-namespace"),
)

const elected = "shards and binders are all active, and the queue and the descheduler elect their leaders in etcd; " +
	"for what watches kube-scheduler's Lease, the queue has --lease"

// logging are the flags of both programs about logs.
var logging = slices.Concat(
	refuse("use --log-format text or json", "logging-format"),
	[]Flag{{
		Name: "v", Shorthand: "v", Ignored: true,
		Answer: "use --log-level: debug is klog's verbosity 4; `berth log-level` changes it in a running process",
	}},
	ignore("levels are for the whole process: use --log-level", "vmodule"),
	ignore("the log is not buffered", "log-flush-frequency", "log-json-info-buffer-size", "log-text-info-buffer-size"),
	switches(ignore("the log is one stream, standard error", "log-json-split-stream", "log-text-split-stream")),
)

// descheduler are the flags that only the descheduler has.
var descheduler = slices.Concat(
	refuse("use --policy", "policy-config-file"),
	switches(refuse("use the command `berth deschedule --dry-run`", "dry-run")),
	refuse("use --kubeconfig, of the queue and the binder: the descheduler does not use the API server",
		"client-connection-kubeconfig"),
	refuse("use clientConnection.qps and clientConnection.burst in the file of --config of the binder, which evicts",
		"client-connection-qps", "client-connection-burst"),
	switches(refuse(`use --http-address "", which also ends the health checks`, "disable-metrics")),
	switches(ignore("HTTP/2 is always offered with TLS", "enable-http2")),
	refuse("Berth has no feature gates (docs/descheduling.md)", "feature-gates"),
	refuse("set the environment variable OTEL_EXPORTER_OTLP_ENDPOINT", "otel-collector-endpoint"),
	refuse("set the environment variable OTEL_EXPORTER_OTLP_CERTIFICATE", "otel-transport-ca-cert"),
	refuse("set the environment variable OTEL_SERVICE_NAME", "otel-service-name"),
	refuse("set the environment variable OTEL_RESOURCE_ATTRIBUTES=service.namespace=NAMESPACE", "otel-trace-namespace"),
	refuse("set the environment variables OTEL_TRACES_SAMPLER=traceidratio and OTEL_TRACES_SAMPLER_ARG",
		"otel-sample-rate"),
	switches(ignore("a collector that does not answer never stops a process", "otel-fallback-no-op-on-error")),
)
