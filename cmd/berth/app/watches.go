package app

import (
	"context"
	"fmt"
	"log/slog"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/berth-scheduler/berth/cmd/berth/internal/depend"
	"github.com/berth-scheduler/berth/pkg/events/eventlog"
	"github.com/berth-scheduler/berth/pkg/ledger/identity"
	"github.com/berth-scheduler/berth/pkg/telemetry"
)

// watches are the checks that a process runs in addition to its services. None of them changes what a service does.
type watches struct {
	dependencies []*depend.Watch
	// authentication is nil if no certificate is shown to etcd: for an embedded etcd, or one without TLS.
	authentication *depend.Authentication
}

// watches returns the checks of a process with these services: both stores, and Kubernetes where it is used. Each
// probe is the smallest request that the store itself must answer: a list of one key, the last sequence of a stream,
// one namespace. A cached answer would not show that a quorum is gone.
func (o *options) watches(services []service, in inputs, st *stores, logger *slog.Logger) (watches, error) {
	w := watches{dependencies: []*depend.Watch{
		watch("ledger (etcd)", "etcd", logger, func(ctx context.Context) error {
			_, _, err := st.ledger.List(ctx, identity.KeyCluster)
			return err
		}),
		watch("log (NATS)", "nats", logger, func(ctx context.Context) error {
			_, err := st.log.Last(ctx, eventlog.Facts)
			return err
		}),
	}}
	// The check needs a certificate of the process's own: without one, etcd cannot distinguish it from other clients.
	if o.tls.etcdCert != "" {
		w.authentication = depend.NewAuthentication(st.ledger.Authenticates, telemetry.LedgerAuthenticationOff, logger)
	}
	if !slices.Contains(services, queueService) && !slices.Contains(services, binderService) {
		return w, nil
	}
	// A client of its own: the services' rate limits must not delay a probe.
	client, err := kubernetes.NewForConfig(in.rest)
	if err != nil {
		return watches{}, fmt.Errorf("--kubeconfig: %w", err)
	}
	w.dependencies = append(w.dependencies, watch("Kubernetes API", "kubernetes", logger, func(ctx context.Context) error {
		_, err := client.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
		return err
	}))
	return w, nil
}

// watch returns the watch of a dependency. name is for people, metric is the label of its metric.
func watch(name, metric string, logger *slog.Logger, probe depend.Probe) *depend.Watch {
	return depend.New(depend.Dependency{
		Name: name, Probe: probe, Report: func(up bool) { telemetry.DependencyUp(metric, up) },
	}, logger)
}
