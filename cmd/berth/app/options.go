package app

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	cliflag "k8s.io/component-base/cli/flag"

	"github.com/berth-scheduler/berth/cmd/berth/internal/foreign"
	"github.com/berth-scheduler/berth/cmd/berth/internal/lease"
	"github.com/berth-scheduler/berth/cmd/berth/internal/serve"
	"github.com/berth-scheduler/berth/pkg/descheduling/policy"
	"github.com/berth-scheduler/berth/pkg/events/jetstream"
	"github.com/berth-scheduler/berth/pkg/telemetry"
	"github.com/berth-scheduler/berth/services/binder"
	"github.com/berth-scheduler/berth/services/descheduler"
)

// options are the flags shared by `berth up` and `berth run`, and by other commands in parts: a command that embeds
// options adds only the flags that it uses, and the other fields keep their zero value.
type options struct {
	// kubeconfig is the path of a kubeconfig, empty for kubectl's defaults.
	kubeconfig string
	// config is the path of a KubeSchedulerConfiguration, empty for the default one.
	config string
	// dataDir is the directory of embedded stores: of this process for `berth up`, of a running one for operators'
	// commands.
	dataDir string
	// logLevel and logFormat are the values of the flags; logger parses them.
	logLevel  string
	logFormat string
	// http configures the HTTP port; an empty address disables it.
	http serve.Config

	// nats, etcdEndpoints and ledgerPrefix locate the stores, with the certificates of tls. Without addresses, dataDir
	// or installation does.
	nats          natsFlags
	etcdEndpoints []string
	ledgerPrefix  string
	tls           tlsFiles
	installation  installation

	replicas
	// metricsInterval is how often actual usage is polled; 0 is never.
	metricsInterval time.Duration
	retention       retention
	descheduling    descheduling
	// scheduledEvents is the binders' policy for events of successful binds.
	scheduledEvents string
	// lease names the Lease that the leading queue keeps, empty for none.
	lease string
	// foreign are flags of kube-scheduler and the descheduler that were given.
	foreign foreign.Flags
	// flags are all flags of a command that runs services.
	flags *pflag.FlagSet
	// nodeMarks is what the binders do about marks on nodes for autoscalers.
	nodeMarks string
}

// retention is how long binders keep the places of moved pods (keepPlace) and the documents of objects that are gone
// (collectAfter).
type retention struct {
	keepPlace, collectAfter time.Duration
}

// descheduling are the flags of the descheduler, and of the commands that plan a cycle.
type descheduling struct {
	// policy is the path of a DeschedulerPolicy, empty for none.
	policy string
	// strict treats warnings about a policy as errors.
	strict bool
	// interval is the time between the starts of two cycles; 0 is a single cycle.
	interval time.Duration
	// prometheus configures the connection to the policy's server.
	prometheus descheduler.Prometheus
	// oldMetricNames adds the names of metrics from before the descheduler's 0.34.
	oldMetricNames bool
}

// load reads the policy file.
func (d descheduling) load() (*policy.Policy, error) {
	if d.strict {
		return policy.LoadStrict(d.policy)
	}
	return policy.Load(d.policy)
}

// reload returns a function that reads the policy again if the file has changed since the last time; it returns nil
// for an unchanged file. The descheduler calls it before each cycle, from one goroutine. A file that cannot be read or
// parsed is an error each time, and the policy before stays in use. It compares contents, not modification times: a
// ConfigMap's file is a symbolic link that changes its target.
func (d descheduling) reload() func() (*policy.Policy, error) {
	// It was read a moment ago; if it is gone, the next read fails.
	last, _ := os.ReadFile(d.policy)
	return func() (*policy.Policy, error) {
		now, err := os.ReadFile(d.policy)
		if err != nil || bytes.Equal(now, last) {
			return nil, err
		}
		last = now
		if d.strict {
			return policy.ParseStrict(d.policy, now)
		}
		return policy.Parse(d.policy, now)
	}
}

// natsFlags locate the NATS servers that keep the log, and set its number of replicas.
type natsFlags struct {
	// urls are the servers' addresses; one that answers is enough, it names the others.
	urls []string
	// replicas is the number of replicas of each stream; 0 leaves streams as they are.
	replicas int
	// format is the format of the streams, see jetstream.Format.
	format string
	// inboxPrefix is the prefix of the subjects on which the servers answer this process.
	inboxPrefix string
}

const (
	// defaultInboxPrefix is the NATS client's own default.
	defaultInboxPrefix = "_INBOX"
	inboxPrefixHelp    = "prefix of the subjects on which NATS answers; the user needs permission to subscribe to them"
)

// replicas are how many instances of a service one process runs, and how they share the work.
type replicas struct {
	// shards and binders are the numbers in this process. wholeCluster lets shards look at all nodes
	// in every decision, under profiles that do not say when home nodes come first.
	shards, binders int
	wholeCluster    bool
	// noEvidence leaves the evidence of attempts (what they weighed) out of the log.
	noEvidence bool
}

// tlsFiles are paths of PEM files, empty for none: the authorities that sign the servers' certificates, and the
// certificate, key or credentials by which this process identifies itself. They are read again for new connections, so
// a renewal needs no restart.
type tlsFiles struct {
	// NATS accepts a certificate, a credentials file, or both.
	natsCA, natsCert, natsKey, natsCreds string
	etcdCA, etcdCert, etcdKey            string
}

// maxReplicas bounds --shards and --binders: more in one process would only contend for its processors.
const maxReplicas = 64

// maxNATSReplicas is JetStream's own bound on the replicas of a stream.
const maxNATSReplicas = 5

// addKubeconfig adds the flag --kubeconfig, with kubectl's defaults.
func (o *options) addKubeconfig(f *pflag.FlagSet) {
	f.StringVar(&o.kubeconfig, "kubeconfig", "",
		"kubeconfig of the cluster; default: $KUBECONFIG, ~/.kube/config, or the pod's service account")
}

// addCommon adds the flags of every service. Words of a flag may be separated by underscores, too, as for Kubernetes'
// own commands.
func (o *options) addCommon(f *pflag.FlagSet) {
	f.SetNormalizeFunc(cliflag.WordSepNormalizeFunc)
	o.flags = f
	o.addKubeconfig(f)
	o.addHTTP(f)
	f.StringVar(&o.config, "config", "",
		"KubeSchedulerConfiguration (kubescheduler.config.k8s.io/v1) file; default: one profile, default-scheduler")
	f.StringVar(&o.logLevel, "log-level", "info", "debug, info, warn or error")
	f.StringVar(&o.logFormat, "log-format", "text", "text or json")
	f.StringSliceVar(&o.nats.urls, "nats-url", nil, "URLs of the NATS servers (JetStream) that keep the log")
	// A URL may hold a password, which /flagz must not show.
	_ = f.SetAnnotation("nats-url", "classified", []string{"true"})
	f.StringSliceVar(&o.etcdEndpoints, "etcd-endpoints", nil, "endpoints of the etcd cluster that keeps the ledger")
	f.StringVar(&o.ledgerPrefix, "etcd-prefix", "/berth/", "key prefix of this Berth in etcd; one per Kubernetes cluster")
	// The number of replicas of existing streams changes while they are in use; NATS copies the data.
	f.IntVar(&o.nats.replicas, "nats-replicas", 0,
		"number of replicas of each stream in a NATS cluster (1 to 5); 0: unchanged, or 1 for new streams")
	f.StringVar(&o.nats.format, "nats-format", "",
		"format of the streams of facts and decisions: frames, or records, which versions without frames read;\n"+
			"default: unchanged, or frames for new streams")
	f.StringVar(&o.tls.natsCA, "nats-ca-file", "", "CA certificates (PEM) for NATS")
	f.StringVar(&o.tls.natsCert, "nats-cert-file", "", "client certificate (PEM) for NATS")
	f.StringVar(&o.tls.natsKey, "nats-key-file", "", "client key (PEM) for NATS")
	f.StringVar(&o.tls.natsCreds, "nats-creds-file", "", "NATS credentials file (JWT and nkey)")
	f.StringVar(&o.nats.inboxPrefix, "nats-inbox-prefix", defaultInboxPrefix, inboxPrefixHelp)
	f.StringVar(&o.tls.etcdCA, "etcd-ca-file", "", "CA certificates (PEM) for etcd")
	f.StringVar(&o.tls.etcdCert, "etcd-cert-file", "", "client certificate (PEM) for etcd")
	f.StringVar(&o.tls.etcdKey, "etcd-key-file", "", "client key (PEM) for etcd")
}

// addHTTP adds the flags of the HTTP port.
func (o *options) addHTTP(f *pflag.FlagSet) {
	f.StringVar(&o.http.Address, "http-address", "127.0.0.1:10351",
		"address for /healthz, /livez, /readyz and /metrics; \"\" disables it")
	f.BoolVar(&o.http.Profiling, "profiling", false,
		"serve /debug/pprof on --http-address; profiles expose what the process holds in memory")
	f.StringVar(&o.http.TLS.CertFile, "http-cert-file", "", "certificate (PEM) of --http-address; without it, plain HTTP")
	f.StringVar(&o.http.TLS.KeyFile, "http-key-file", "", "key (PEM) of --http-cert-file")
	f.StringVar(&o.http.TLS.ClientCAFile, "http-client-ca-file", "",
		"CA certificates (PEM): everything but health checks requires a client certificate that they have signed")
	f.StringSliceVar(&o.http.TLS.AllowedNames, "http-allowed-names", nil,
		"common names of the client certificates that may read metrics; default: any signed by --http-client-ca-file")
	f.StringSliceVar(&o.http.TLS.AdminNames, "http-admin-names", nil,
		"common names of the client certificates that may also change the log level and read pages and profiles;\n"+
			"default: none")
	f.BoolVar(&o.http.TLS.TokenReview, "http-token-review", false,
		"accept bearer tokens, too: the API server of --kubeconfig reviews them (TokenReview), and what their users may\n"+
			"read (SubjectAccessReview of nonResourceURLs such as /metrics)")
}

// addQueue, addShards, addBinders and addDescheduler add the flags of one service.
func (o *options) addQueue(f *pflag.FlagSet) {
	f.DurationVar(&o.metricsInterval, "metrics-interval", 0,
		"interval between polls of metrics.k8s.io, for a policy with metricsUtilization of source KubernetesMetrics;\n"+
			"0: never")
	f.StringVar(&o.lease, "lease", "",
		"Lease (NAMESPACE/NAME) that the leading queue keeps for what watches kube-scheduler's, such as\n"+
			"kube-system/kube-scheduler; Berth does not read it. Default: none")
}

func (o *options) addShards(f *pflag.FlagSet) {
	f.IntVar(&o.shards, "shards", 1, "scheduler shards in this process (1 to 64), all active")
	f.BoolVar(&o.wholeCluster, "whole-cluster", false,
		"let shards always choose among all nodes, also while they compete for the same ones; such pods may get better\n"+
			"nodes, but shards conflict more often. Profiles with homeNodesFirst have their own setting")
	f.BoolVar(&o.noEvidence, "no-evidence", false,
		"do not record in the log what attempts weighed; berth explain, trace and replay then know less")
}

func (o *options) addBinders(f *pflag.FlagSet) {
	f.IntVar(&o.binders, "binders", 1, "binders in this process (1 to 64), all active")
	f.DurationVar(&o.retention.keepPlace, "keep-place", binder.DefaultKeepPlace,
		"how long the place of an evicted pod is kept for its replacement (1s to 10m)")
	f.DurationVar(&o.retention.collectAfter, "collect-after", binder.DefaultCollectAfter,
		"how long the empty ledger document of a deleted node, budget, volume or pool is kept (1s to 24h)")
	f.StringVar(&o.scheduledEvents, "scheduled-events", binder.DefaultScheduledEvents,
		"Kubernetes events about pods that were scheduled: all (one for each pod, as kube-scheduler), aggregated (one for\n"+
			"each burst of a workload's pods) or none; events about failures are always written")
	f.StringVar(&o.nodeMarks, "node-marks", binder.DefaultNodeMarks,
		"marks on nodes that show cluster autoscalers which nodes take no pods for now, and which must not be removed:\n"+
			"none, write (the binder needs the rights to get and patch nodes), or remove those written before")
}

func (o *options) addDescheduler(f *pflag.FlagSet) {
	f.StringVar(&o.descheduling.policy, "policy", "", "DeschedulerPolicy (descheduler/v1alpha2) file")
	f.BoolVar(&o.descheduling.strict, "strict", false,
		"reject a policy with keys that have no effect, instead of warning about them")
	o.descheduling.addPrometheus(f)
	f.DurationVar(&o.descheduling.interval, "descheduling-interval", 5*time.Minute,
		"interval between descheduling cycles, e.g. 30s or 5m")
	f.BoolVar(&o.descheduling.oldMetricNames, "old-metric-names", false,
		"also serve the descheduler's metrics under the names that its version 0.34 deprecated\n"+
			"(descheduler_pods_evicted and others), for older dashboards")
}

// addPrometheus adds the flags for strategies that use actual usage.
func (d *descheduling) addPrometheus(f *pflag.FlagSet) {
	f.StringVar(&d.prometheus.TokenFile, "prometheus-token-file", "",
		"file with the bearer token for the policy's Prometheus; read for every cycle")
	f.StringVar(&d.prometheus.CAFile, "prometheus-ca-file", "",
		"CA certificates (PEM) for the policy's Prometheus; default: the system's")
}

// validate checks everything that the flags alone show, and reports all mistakes, each with its flag, its value and
// what is accepted.
func (o *options) validate() error {
	var errs []error
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if o.shards < 1 || o.shards > maxReplicas {
		wrong("--shards: %d: want 1 to %d", o.shards, maxReplicas)
	}
	if o.binders < 1 || o.binders > maxReplicas {
		wrong("--binders: %d: want 1 to %d", o.binders, maxReplicas)
	}
	// JetStream refuses more, but only when a stream is created.
	if o.nats.replicas < 0 || o.nats.replicas > maxNATSReplicas {
		wrong("--nats-replicas: %d: want 0 to %d", o.nats.replicas, maxNATSReplicas)
	}
	switch jetstream.Format(o.nats.format) {
	case "", jetstream.FormatFrames, jetstream.FormatRecords:
	default:
		wrong("--nats-format: %q: want frames, records or \"\"", o.nats.format)
	}
	if o.descheduling.interval < 0 {
		wrong("--descheduling-interval: %s: want 0 or more", o.descheduling.interval)
	}
	if o.http.Address != "" {
		if _, _, err := net.SplitHostPort(o.http.Address); err != nil {
			wrong("--http-address: %q: want host:port or \"\"", o.http.Address)
		}
	}
	if o.lease != "" {
		if _, err := lease.Parse(o.lease); err != nil {
			wrong("--lease: %w", err)
		}
	}
	if !strings.HasPrefix(o.ledgerPrefix, "/") || !strings.HasSuffix(o.ledgerPrefix, "/") {
		wrong("--etcd-prefix: %q: want a path that starts and ends with /", o.ledgerPrefix)
	}
	// Level and format are parsed again when the logger is made; here they are only checked.
	if _, err := telemetry.ParseLevel(o.logLevel); err != nil {
		wrong("--log-level: %w", err)
	}
	if _, err := telemetry.NewLogger(io.Discard, o.logFormat, slog.LevelInfo); err != nil {
		wrong("--log-format: %w", err)
	}
	return errors.Join(append(errs, o.http.TLS.Validate(), o.tls.validate(), o.foreign.Validate())...)
}

// validate checks both durations against the binder's own bounds.
func (l retention) validate() error {
	var errs []error
	if err := binder.ValidKeepPlace(l.keepPlace); err != nil {
		errs = append(errs, fmt.Errorf("--keep-place: %w", err))
	}
	if err := binder.ValidCollectAfter(l.collectAfter); err != nil {
		errs = append(errs, fmt.Errorf("--collect-after: %w", err))
	}
	return errors.Join(errs...)
}

// validate checks that certificates come with their keys, and that all files exist. Whether they can be used is found
// when the stores are opened.
func (t tlsFiles) validate() error {
	var errs []error
	if (t.natsCert == "") != (t.natsKey == "") {
		errs = append(errs, errors.New("--nats-cert-file and --nats-key-file: want both or neither"))
	}
	if (t.etcdCert == "") != (t.etcdKey == "") {
		errs = append(errs, errors.New("--etcd-cert-file and --etcd-key-file: want both or neither"))
	}
	// A file that is missing is found now, with its flag; whether its content is valid, when a connection is opened.
	for _, file := range []struct{ flag, path string }{
		{"--nats-ca-file", t.natsCA}, {"--nats-cert-file", t.natsCert}, {"--nats-key-file", t.natsKey},
		{"--nats-creds-file", t.natsCreds}, {"--etcd-ca-file", t.etcdCA}, {"--etcd-cert-file", t.etcdCert},
		{"--etcd-key-file", t.etcdKey},
	} {
		if file.path == "" {
			continue
		}
		if _, err := os.Stat(file.path); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", file.flag, err))
		}
	}
	return errors.Join(errs...)
}

// certificates returns the files whose expiry the process exports as a metric: those that the flags name, not those of
// the kubeconfig.
func (o *options) certificates() []telemetry.CertificateFile {
	return []telemetry.CertificateFile{
		{Connection: "etcd", Path: o.tls.etcdCert}, {Connection: "etcd", Path: o.tls.etcdCA, Authority: true},
		{Connection: "nats", Path: o.tls.natsCert}, {Connection: "nats", Path: o.tls.natsCA, Authority: true},
		{Connection: "http", Path: o.http.TLS.CertFile},
		{Connection: "http", Path: o.http.TLS.ClientCAFile, Authority: true},
	}
}

// kubectlNamespace returns the namespace that kubectl would use: that of the kubeconfig's context, else "default". It
// works without a kubeconfig, and makes no request.
func (o *options) kubectlNamespace() string {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = o.kubeconfig
	namespace, _, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).Namespace()
	if err != nil || namespace == "" {
		return metav1.NamespaceDefault
	}
	return namespace
}

// restConfig reads the kubeconfig, by kubectl's rules: --kubeconfig, $KUBECONFIG, ~/.kube/config, or the service
// account of the pod. It makes no request to the cluster.
func (o *options) restConfig() (*rest.Config, error) {
	// Whether the file exists is checked here, so that the error names the flag.
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	if o.kubeconfig != "" {
		if _, err := os.Stat(o.kubeconfig); err != nil {
			return nil, fmt.Errorf("--kubeconfig: %w", err)
		}
		rules.ExplicitPath = o.kubeconfig
	}
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil)
	// An empty configuration has an error of its own in the library, which does not say where it looked.
	cfg, err := loader.ClientConfig()
	if err != nil {
		if clientcmd.IsEmptyConfig(err) {
			return nil, fmt.Errorf("--kubeconfig: not set, none found in $KUBECONFIG or ~/.kube/config, " +
				"and this is not a pod with a service account")
		}
		return nil, fmt.Errorf("--kubeconfig: %s: %w", o.kubeconfig, err)
	}
	// The user agent shows in audit logs of the API server.
	cfg.UserAgent = "berth/" + berthVersion()
	return cfg, nil
}
