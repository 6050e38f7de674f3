package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/berth-scheduler/berth/cmd/berth/internal/embedded"
	"github.com/berth-scheduler/berth/pkg/events/jetstream"
	"github.com/berth-scheduler/berth/pkg/ledger/etcd"
	"github.com/berth-scheduler/berth/pkg/telemetry"
)

// stores are the log and the ledger of this process, embedded or external. embedded is nil if both are external.
type stores struct {
	log      *jetstream.Log
	ledger   *etcd.Store
	embedded *embedded.Stores
}

// openStores connects to the external stores and starts the others in --data-dir. On error nothing is left running. A
// store that cannot be reached at the start is an error, so that a wrong address shows at once; whatever restarts the
// process tries again. Once open, the clients reconnect by themselves without end.
func (o *options) openStores(ctx context.Context, logger *slog.Logger) (*stores, error) {
	s := &stores{}
	// Either store may be embedded while the other is external.
	which := embedded.Which{Etcd: len(o.etcdEndpoints) == 0, NATS: len(o.nats.urls) == 0}
	if which.Etcd || which.NATS {
		if o.dataDir == "" {
			return nil, errors.New("--data-dir: not set: want a directory for the embedded stores, " +
				"or both --nats-url and --etcd-endpoints")
		}
		e, err := embedded.Start(o.dataDir, which, logger)
		if err != nil {
			return nil, err
		}
		s.embedded = e
	}
	if err := s.open(ctx, o, logger); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// open connects to the ledger, then to the log. The embedded etcd is reached without a socket for requests (KV) and
// over its socket for watches, the embedded NATS without a socket (InProcess).
func (s *stores) open(ctx context.Context, o *options, logger *slog.Logger) error {
	// A silent server of an etcd cluster is reported once, when it stops to answer, and once when it is back: the
	// client goes on with the others by itself.
	ledger := etcd.Config{
		Endpoints: o.etcdEndpoints, Prefix: o.ledgerPrefix,
		CAFile: o.tls.etcdCA, CertFile: o.tls.etcdCert, KeyFile: o.tls.etcdKey,
		OnSilence: func(server string, silent bool) {
			if silent {
				logger.Warn("etcd server does not answer; using the others", "server", server)
				return
			}
			logger.Info("etcd server answers again", "server", server)
		},
	}
	if len(ledger.Endpoints) == 0 {
		ledger.Endpoints, ledger.KV = s.embedded.Endpoints.Etcd, s.embedded.KV()
	}
	var err error
	s.ledger, err = etcd.Open(ctx, ledger)
	if err != nil {
		return fmt.Errorf("--etcd-endpoints: %w", err)
	}
	// The name shows in NATS' lists of connections. Replicas apply to streams that are created now, and change
	// existing ones if set.
	cfg := jetstream.Config{
		URLs: o.nats.urls, Name: "berth", Logger: logger, Replicas: o.nats.replicas, OnDropped: telemetry.BusDropped,
		CAFile: o.tls.natsCA, CertFile: o.tls.natsCert, KeyFile: o.tls.natsKey, CredsFile: o.tls.natsCreds,
		InboxPrefix: o.nats.inboxPrefix, Format: jetstream.Format(o.nats.format),
	}
	if s.embedded != nil && s.embedded.HasNATS() {
		cfg.InProcess = s.embedded
		cfg.User, cfg.Password = s.embedded.Endpoints.NATSUser, s.embedded.Endpoints.NATSPass
	}
	s.log, err = jetstream.Open(ctx, cfg)
	if err != nil {
		return fmt.Errorf("--nats-url: %w", err)
	}
	return nil
}

// close closes the connections, then stops the embedded stores. It may be called on stores that were opened in part.
func (s *stores) close() {
	if s.log != nil {
		s.log.Close()
	}
	if s.ledger != nil {
		_ = s.ledger.Close() // only the connection; everything durable is in the store
	}
	if s.embedded != nil {
		s.embedded.Stop()
	}
}
