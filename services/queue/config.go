package queue

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/trace"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/berth-scheduler/berth/pkg/events/eventlog"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/state/feed"
)

// These are the defaults of Config.
const (
	// DefaultPodInitialBackoff and DefaultPodMaxBackoff are kube-scheduler's defaults (podInitialBackoffSeconds,
	// podMaxBackoffSeconds).
	DefaultPodInitialBackoff = time.Second
	DefaultPodMaxBackoff     = 10 * time.Second
	// DefaultOfferLease is many heartbeats of a shard, and short enough that losing an offer goes unnoticed.
	DefaultOfferLease = 10 * time.Second
	// DefaultDeliveryLimit allows two offers together with other pods and three offers alone.
	DefaultDeliveryLimit = 5
	// DefaultFlushAfter is the default of kube-scheduler's --pod-max-in-unschedulable-pods-duration.
	DefaultFlushAfter = 5 * time.Minute
	// DefaultSessionTTL bounds how long the absence of a dead leader goes unnoticed. Together with the second or two
	// that a takeover needs, pods wait for less than five seconds. Taking a live leader for dead costs one list; etcd
	// itself extends leases when its own leader changes.
	DefaultSessionTTL = 3 * time.Second
	// DefaultSnapshotEvery and DefaultSnapshotInterval bound how much of the log a new reader must read.
	DefaultSnapshotEvery    = 50_000
	DefaultSnapshotInterval = 5 * time.Minute
	// DefaultStartTimeout is how long Run waits at start for an API server that cannot be reached.
	DefaultStartTimeout = 30 * time.Second
)

// tracerName names the instrumentation of this service.
const tracerName = "github.com/berth-scheduler/berth/services/queue"

const (
	// minSessionTTL is the shortest lease that etcd grants.
	minSessionTTL = 2 * time.Second
	// minMetricsInterval is far shorter than the sampling interval (metrics-server: every 15 s).
	minMetricsInterval = time.Second
	// minDeliveryLimit lets a pod be offered alone at least once before its quarantine.
	minDeliveryLimit = 3
)

// Config configures one replica. A zero value means the default named at the field.
type Config struct {
	// ID is this replica's member id, unique per life of a process ("queue-…"). It is required.
	ID string
	// Profiles are the shards' profiles: their pods are queued, and their rules determine which changes wake a pod
	// that fits nowhere. At least one is required, and scheduler names must be unique.
	Profiles []placement.ProfileConfig
	// PodInitialBackoff (default 1 s) doubles with each failed attempt, up to PodMaxBackoff (default 10 s).
	PodInitialBackoff, PodMaxBackoff time.Duration
	// NoBackoff disables the backoff (podMaxBackoffSeconds: 0 in kube-scheduler's configuration).
	NoBackoff bool
	// OfferLease is how long a shard may work on an offer without renewing it (default
	// 10 s). It must be several times the shards' heartbeat.
	OfferLease time.Duration
	// DeliveryLimit is how many offers of one pod in a row may end without an answer before the pod is quarantined
	// (default 5, at least 3).
	DeliveryLimit int
	// FlushAfter is the longest time a pod waits for an event (default 5 min).
	FlushAfter time.Duration
	// SessionTTL is how long after the leader's death another replica leads (default 3 s, at least 2 s, in whole
	// seconds).
	SessionTTL time.Duration
	// SnapshotEvery counts facts (default 50,000) and SnapshotInterval is a time (default 5 min). The leader stores a
	// snapshot of the state when either is reached.
	SnapshotEvery    uint64
	SnapshotInterval time.Duration
	// StartTimeout bounds the wait for the API server at start (default 30 s). Later outages are waited out.
	StartTimeout time.Duration
	// MetricsInterval is the time between two polls of metrics.k8s.io, for services that use actual usage (default 0:
	// no polls; otherwise at least 1 s). Readers of the log that are older than this field stop at facts of usage.
	MetricsInterval time.Duration
	// Address (host:port of HTTP, or empty) and Version are shown to people in the list of members.
	Address, Version string
	// Warnings are about this process's settings, for people; they are part of the status while this replica leads.
	Warnings []string
}

// Deps holds the external systems of one replica. All but Hints, WhileLeading, Tracer, Logger and Clock are
// required.
type Deps struct {
	Log       eventlog.Log
	Snapshots eventlog.Snapshots
	// Facts is the feed of the process, which its services share.
	Facts     *feed.Feed
	Bus       eventlog.Bus
	Ledger    ledger.Store
	Elections ledger.Elections
	// RestConfig reaches the API server. Its identity must be allowed to get, list and watch pods, nodes, namespaces,
	// priority classes, disruption budgets, services, replication controllers, replica sets and stateful sets; with
	// MetricsInterval also to list nodes and pods of metrics.k8s.io.
	RestConfig *rest.Config
	// Hints holds the queueing hints of custom plugins, by the scheduler name of their profile. Without an entry for
	// a profile, any change wakes the pods that its custom plugins have rejected.
	Hints map[string]placement.Hints
	// WhileLeading, if not nil, is called in each term of this replica, and must return as soon as its context ends.
	// Nothing depends on what it does.
	WhileLeading func(ctx context.Context)
	// Tracer starts the root spans of the pods' traces. It defaults to one of the global provider.
	Tracer trace.Tracer
	// Logger defaults to slog.Default.
	Logger *slog.Logger
	// Clock defaults to the real one. Only differences between its times are used.
	Clock clock.WithTicker
}

// withDefaults returns the configuration with a value in every field. NoBackoff becomes a PodMaxBackoff of 0, which
// only package decide reads as "no backoff": in a Config, 0 is the default.
func (c Config) withDefaults() Config {
	c.PodInitialBackoff = or(c.PodInitialBackoff, DefaultPodInitialBackoff)
	c.PodMaxBackoff = or(c.PodMaxBackoff, DefaultPodMaxBackoff)
	if c.NoBackoff {
		c.PodMaxBackoff = 0
	}
	c.OfferLease = or(c.OfferLease, DefaultOfferLease)
	c.DeliveryLimit = or(c.DeliveryLimit, DefaultDeliveryLimit)
	c.FlushAfter = or(c.FlushAfter, DefaultFlushAfter)
	c.SessionTTL = or(c.SessionTTL, DefaultSessionTTL)
	c.SnapshotEvery = or(c.SnapshotEvery, DefaultSnapshotEvery)
	c.SnapshotInterval = or(c.SnapshotInterval, DefaultSnapshotInterval)
	c.StartTimeout = or(c.StartTimeout, DefaultStartTimeout)
	return c
}

// or returns a value, or another one instead of the zero value.
func or[T comparable](value, instead T) T {
	var zero T
	if value == zero {
		return instead
	}
	return value
}

// Validate reports the first field that cannot be used as given, with its value and what is accepted. Fields that are
// zero are checked with their defaults.
func (c Config) Validate() error {
	c = c.withDefaults()
	if c.ID == "" {
		return errors.New("queue: Config.ID is empty, want a member id")
	}
	if _, err := c.profiles(nil); err != nil {
		return err
	}
	durations := []struct {
		name         string
		value, least time.Duration
	}{
		{"PodInitialBackoff", c.PodInitialBackoff, time.Millisecond},
		{"PodMaxBackoff", c.PodMaxBackoff, 0},
		{"OfferLease", c.OfferLease, time.Millisecond},
		{"FlushAfter", c.FlushAfter, time.Second},
		{"SessionTTL", c.SessionTTL, minSessionTTL},
		{"SnapshotInterval", c.SnapshotInterval, time.Second},
		{"StartTimeout", c.StartTimeout, time.Millisecond},
	}
	for _, d := range durations {
		if d.value < d.least {
			return fmt.Errorf("queue: Config.%s is %s, want at least %s", d.name, d.value, d.least)
		}
	}
	if c.DeliveryLimit < minDeliveryLimit || c.DeliveryLimit > math.MaxInt16 {
		return fmt.Errorf("queue: Config.DeliveryLimit is %d, want %d to %d",
			c.DeliveryLimit, minDeliveryLimit, math.MaxInt16)
	}
	if c.MetricsInterval != 0 && c.MetricsInterval < minMetricsInterval {
		return fmt.Errorf("queue: Config.MetricsInterval is %s, want 0 (never) or at least %s",
			c.MetricsInterval, minMetricsInterval)
	}
	if c.SessionTTL%time.Second != 0 {
		return fmt.Errorf("queue: Config.SessionTTL is %s, want whole seconds", c.SessionTTL)
	}
	if !c.NoBackoff && c.PodInitialBackoff > c.PodMaxBackoff {
		return fmt.Errorf("queue: Config.PodInitialBackoff is %s, want at most PodMaxBackoff (%s)",
			c.PodInitialBackoff, c.PodMaxBackoff)
	}
	return nil
}

// profiles builds the profiles, together with the hints of their custom plugins.
func (c Config) profiles(hints map[string]placement.Hints) (map[string]*placement.Profile, error) {
	if len(c.Profiles) == 0 {
		return nil, errors.New("queue: Config.Profiles is empty, want at least one")
	}
	ready := make(map[string]*placement.Profile, len(c.Profiles))
	for i, pc := range c.Profiles {
		if ready[pc.SchedulerName] != nil {
			return nil, fmt.Errorf("queue: Config.Profiles[%d].SchedulerName is %q, which is given twice, want unique names",
				i, pc.SchedulerName)
		}
		p, err := placement.NewProfile(pc)
		if err != nil {
			return nil, fmt.Errorf("queue: Config.Profiles[%d]: %w", i, err)
		}
		ready[pc.SchedulerName] = p.Hinted(hints[pc.SchedulerName])
	}
	return ready, nil
}

// complete reports the first dependency that is missing, and sets the defaults of the optional ones.
func (d *Deps) complete() error {
	missing := ""
	switch {
	case d.Log == nil:
		missing = "Log"
	case d.Snapshots == nil:
		missing = "Snapshots"
	case d.Facts == nil:
		missing = "Facts"
	case d.Bus == nil:
		missing = "Bus"
	case d.Ledger == nil:
		missing = "Ledger"
	case d.Elections == nil:
		missing = "Elections"
	}
	if missing != "" {
		return fmt.Errorf("queue: Deps.%s is nil, want an implementation", missing)
	}
	if d.Logger == nil {
		d.Logger = slog.Default()
	}
	if d.Tracer == nil {
		d.Tracer = otel.Tracer(tracerName)
	}
	if d.Clock == nil {
		d.Clock = clock.RealClock{}
	}
	return nil
}
