package depend

import (
	"context"
	"log/slog"
	"time"
)

// askEvery is the time between two questions. Authentication is switched by an administrator, so it rarely changes; a
// question takes an entry of etcd's log.
const askEvery = time.Minute

// Authentication watches whether etcd checks who its clients are. Without that, the certificate of any service or
// reader of metrics is enough to write the ledger, and nothing else shows it: all works as it should.
type Authentication struct {
	ask    func(ctx context.Context) (on bool, err error)
	report func(off bool)
	logger *slog.Logger
	// off: by the last answer, etcd does not authenticate its clients.
	off bool
}

// NewAuthentication watches by asking. The report hears every answer.
func NewAuthentication(
	ask func(ctx context.Context) (on bool, err error), report func(off bool), logger *slog.Logger,
) *Authentication {
	return &Authentication{ask: ask, report: report, logger: logger}
}

// Run asks at once and then every minute until ctx ends, and then returns nil. A question without an answer changes
// nothing: that etcd is away is for Watch to say.
func (a *Authentication) Run(ctx context.Context) error {
	tick := time.NewTicker(askEvery)
	defer tick.Stop()
	for {
		a.once(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

func (a *Authentication) once(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	on, err := a.ask(ctx)
	if err != nil {
		return
	}
	a.report(!on)
	switch {
	case !on && !a.off:
		a.logger.Warn("authentication of etcd is off: any client that it accepts may change the ledger; " +
			"the Job etcd-roles of the manifests, or berth secure-ledger, switches it on")
	case on && a.off:
		a.logger.Info("authentication of etcd is on")
	}
	a.off = !on
}
