package depend

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/berth-scheduler/berth/pkg/telemetry"
)

const (
	// probeInterval is the interval between probes of each dependency.
	probeInterval = 2 * time.Second
	// probeTimeout bounds the wait for one answer.
	probeTimeout = 3 * time.Second
	// toleratedFailures is the number of failures in a row that are not reported: etcd may be electing a leader, or a NATS
	// connection moving to another server.
	toleratedFailures = 1
)

// Probe sends a request to a dependency; nil means that it answered. It must return when ctx ends, and must be
// answered by the dependency itself: a client's cache would hide that a quorum is lost.
type Probe func(ctx context.Context) error

// Dependency is a store or an API that a process needs to work. All three fields are required.
type Dependency struct {
	// Name is for people, such as "ledger (etcd)".
	Name string
	// Probe is called every two seconds.
	Probe Probe
	// Report is called with whether the dependency answers, after each probe that decides it: after every answer, and
	// after a failure beyond the tolerated ones.
	Report func(up bool)
}

// Watch watches one dependency. It is safe for concurrent use; Run is called once.
type Watch struct {
	dependency Dependency
	logger     *slog.Logger
	mu         struct {
		sync.Mutex
		// missing is the error while the dependency does not answer; nil while it answers. since is when the first
		// failed probe began.
		missing error
		since   time.Time
	}
}

// New returns the watch of a dependency, which counts as answering until Run finds otherwise: at the start the stores
// have just been opened.
func New(d Dependency, logger *slog.Logger) *Watch { return &Watch{dependency: d, logger: logger} }

// Name returns the dependency's name.
func (w *Watch) Name() string { return w.dependency.Name }

// Ready returns nil while the dependency answers, and otherwise an error with the time since when it has not. It is a
// check of /readyz.
func (w *Watch) Ready() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.mu.missing == nil {
		return nil
	}
	return fmt.Errorf("missing for %s: %w", time.Since(w.mu.since).Round(time.Second), w.mu.missing)
}

// Run probes until ctx ends, and then returns nil. A probe that ends because of ctx is not counted: the process is
// stopping.
func (w *Watch) Run(ctx context.Context) error {
	tick := time.NewTicker(probeInterval)
	defer tick.Stop()
	failures := 0
	var first time.Time
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		// The time of the first failed probe counts as the beginning, not that of the one that is reported.
		asked := time.Now()
		err := w.probe(ctx)
		// The process stops: the probe's failure says nothing about the dependency.
		if ctx.Err() != nil {
			return nil
		}
		if err == nil {
			failures = 0
			w.setAnswering()
			continue
		}
		if failures++; failures == 1 {
			first = asked
		}
		if failures > toleratedFailures {
			w.setMissing(err, first)
		}
	}
}

// probe sends one request, with the time limit of this package.
func (w *Watch) probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	return w.dependency.Probe(ctx)
}

// setMissing records that the dependency does not answer, and logs the first time.
func (w *Watch) setMissing(err error, since time.Time) {
	w.dependency.Report(false)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.mu.missing == nil {
		w.mu.since = since
		w.logger.Error("dependency missing; continuing without it until it answers",
			"dependency", w.dependency.Name, telemetry.KeyError, err)
	}
	w.mu.missing = err
}

// setAnswering records an answer, and logs if there was none before.
func (w *Watch) setAnswering() {
	w.dependency.Report(true)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.mu.missing != nil {
		w.logger.Info("dependency is back",
			"dependency", w.dependency.Name, "after", time.Since(w.mu.since).Round(time.Second))
	}
	w.mu.missing = nil
}
