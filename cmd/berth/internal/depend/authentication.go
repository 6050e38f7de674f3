package depend

import (
	"context"
	"log/slog"
	"time"
)

// checkInterval is the interval between two checks. An administrator switches authentication, so it rarely changes; a
// check costs an entry in etcd's log.
const checkInterval = time.Minute

// Authentication watches whether etcd authenticates its clients. If it does not, the certificate of any service or
// reader of metrics is enough to write the ledger, and no other symptom shows it: everything keeps working.
type Authentication struct {
	authenticates func(ctx context.Context) (on bool, err error)
	report        func(off bool)
	logger        *slog.Logger
	// off means that, by the last answer, etcd does not authenticate its clients. It is used by Run's goroutine only.
	off bool
}

// NewAuthentication returns a watch that calls ask. It calls report with every answer.
func NewAuthentication(
	ask func(ctx context.Context) (on bool, err error), report func(off bool), logger *slog.Logger,
) *Authentication {
	return &Authentication{authenticates: ask, report: report, logger: logger}
}

// Run checks at once and then every minute until ctx ends, and then returns nil. A check without an answer changes
// nothing: Watch reports an unreachable etcd.
func (a *Authentication) Run(ctx context.Context) error {
	tick := time.NewTicker(checkInterval)
	defer tick.Stop()
	for {
		a.check(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// check asks once, reports the answer, and logs a change.
func (a *Authentication) check(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	on, err := a.authenticates(ctx)
	if err != nil {
		return
	}
	a.report(!on)
	switch {
	case !on && !a.off:
		a.logger.Warn("etcd authentication is off: any client that can connect can change the ledger; " +
			"enable it with the Job etcd-roles of the manifests or with berth secure-ledger")
	case on && a.off:
		a.logger.Info("etcd authentication is on")
	}
	a.off = !on
}
