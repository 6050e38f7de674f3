package descheduler

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	"github.com/berth-scheduler/berth/pkg/descheduling/plan"
	"github.com/berth-scheduler/berth/pkg/descheduling/policy"
	"github.com/berth-scheduler/berth/pkg/events/eventlog"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/state/feed"
	"github.com/berth-scheduler/berth/services/descheduler/usage"
)

// DefaultInterval is the usual time between the starts of two cycles (the same as in upstream's packaging). New does
// not apply it, because an Interval of 0 means a single cycle.
const DefaultInterval = 5 * time.Minute

// Config configures a replica. New checks it and names the field and what is accepted.
type Config struct {
	// ID is the member id, unique for every start of every replica ("descheduler-k3x9").
	ID string
	// Policy determines what to evict; see package policy.
	Policy *policy.Policy
	// Reload, if set, is called before every cycle and may return a new policy to use from then on. If it returns
	// nil, or an error, which is logged, the previous policy stays in force.
	Reload func() (*policy.Policy, error)
	// Interval is the time between the starts of two cycles. A cycle that takes longer delays the next. 0 runs one
	// cycle and ends.
	Interval time.Duration
	// Profiles are the rules by which nodeFit looks for another place, chosen by the pod's scheduler name. Pods of
	// other schedulers use the default profile. It may be empty.
	Profiles []placement.ProfileConfig
	// DryRun logs the evictions that would be requested and requests none. It needs no leadership.
	DryRun bool
	// Prometheus configures the connection to the server that the policy names, if it names one.
	Prometheus Prometheus
	// Report, if set, is called with every plan before any of it is carried out. It must not block.
	Report func(plan.Report)
}

// Prometheus configures the connection to a Prometheus server.
type Prometheus = usage.Config

// Ledger is a replica's access to the ledger: leadership, the promises of other members, its own places for
// replacements, and the stop switch.
type Ledger interface {
	ledger.Store
	ledger.Elections
}

// Deps holds the external systems of a replica. New reports every one that is missing, not only the first.
type Deps struct {
	Log eventlog.Log
	// Facts is the feed of the process, which its services share.
	Facts *feed.Feed
	// Ledger may be nil in a dry run, which then does not know what is promised.
	Ledger Ledger
	Logger *slog.Logger
	Clock  clock.Clock
}

// validate returns an error about the first field that cannot be used as given.
func (c Config) validate() error {
	switch {
	case c.ID == "":
		return errors.New("descheduler: ID: empty: want a member id")
	case c.Policy == nil:
		return errors.New("descheduler: Policy: nil: want a policy")
	case c.Interval < 0:
		return fmt.Errorf("descheduler: Interval: %s: want 0 (run once) or more", c.Interval)
	default:
		return nil
	}
}

// validate returns an error about the systems that are missing.
func (d Deps) validate(dryRun bool) error {
	var missing []error
	for _, dep := range []struct {
		name string
		nil  bool
	}{
		{"Log", d.Log == nil},
		{"Facts", d.Facts == nil},
		{"Ledger", d.Ledger == nil && !dryRun},
		{"Logger", d.Logger == nil},
		{"Clock", d.Clock == nil},
	} {
		if dep.nil {
			missing = append(missing, fmt.Errorf("descheduler: Deps.%s: nil: want an implementation", dep.name))
		}
	}
	return errors.Join(missing...)
}

// placementBy builds the profiles and returns a function that selects one by scheduler name. The function is safe for
// concurrent use. Pods of a scheduler without a profile are judged by the default profile, because the policy may name
// pods that Berth does not place.
func placementBy(configs []placement.ProfileConfig) (func(string) *placement.Profile, error) {
	fallback, err := placement.NewProfile(placement.DefaultProfile(corev1.DefaultSchedulerName))
	if err != nil {
		return nil, fmt.Errorf("descheduler: default profile: %w", err)
	}
	byName := make(map[string]*placement.Profile, len(configs))
	for i, c := range configs {
		if byName[c.SchedulerName] != nil {
			return nil, fmt.Errorf("descheduler: Profiles[%d]: %q: given twice; want distinct scheduler names",
				i, c.SchedulerName)
		}
		p, err := placement.NewProfile(c)
		if err != nil {
			return nil, fmt.Errorf("descheduler: Profiles[%d]: %w", i, err)
		}
		byName[c.SchedulerName] = p
	}
	return func(scheduler string) *placement.Profile {
		if p, ok := byName[scheduler]; ok {
			return p
		}
		return fallback
	}, nil
}
