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
	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/services/descheduler/internal/usage"
)

// DefaultInterval is the usual time between the starts of two cycles (upstream's packaging
// uses the same).
const DefaultInterval = 5 * time.Minute

// Config of a replica.
type Config struct {
	// ID is the member id, unique for every start of every replica ("descheduler-k3x9").
	ID string
	// Policy says what to evict; see package policy.
	Policy *policy.Policy
	// Reload, if set, is asked before every cycle for a policy to go by from then on; nil goes on
	// with the one before, and so does an error, which is logged.
	Reload func() (*policy.Policy, error)
	// Interval is the time between the starts of two cycles; a cycle that takes longer
	// delays the next. 0 runs one cycle and ends.
	Interval time.Duration
	// Profiles are the rules by which nodeFit looks for another place, chosen by the pod's
	// scheduler name; pods of other schedulers go by the default profile. May be empty.
	Profiles []placement.ProfileConfig
	// DryRun logs what would be asked for and asks nothing. It needs no leadership.
	DryRun bool
	// Prometheus says how the server is reached that the policy names, if it names one.
	Prometheus Prometheus
	// Report, if set, is called with every plan, before anything of it is done. It must not block.
	Report func(plan.Report)
}

// Prometheus is how a Prometheus server is reached.
type Prometheus = usage.Config

// Ledger is what a replica needs of the ledger: leadership, what is promised to whom, to keep places
// itself, and the stop switch.
type Ledger interface {
	ledger.Store
	ledger.Elections
}

// Deps are the outside worlds of a replica.
type Deps struct {
	Log       events.Log
	Snapshots events.Snapshots
	// Ledger may be nil in a dry run, which knows nothing of what is promised then.
	Ledger Ledger
	Logger *slog.Logger
	Clock  clock.Clock
}

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

func (d Deps) validate(dryRun bool) error {
	var missing []error
	for _, dep := range []struct {
		name string
		nil  bool
	}{
		{"Log", d.Log == nil},
		{"Snapshots", d.Snapshots == nil},
		{"Ledger", d.Ledger == nil && !dryRun},
		{"Logger", d.Logger == nil},
		{"Clock", d.Clock == nil},
	} {
		if dep.nil {
			missing = append(missing, fmt.Errorf("descheduler: %s: nil: want one", dep.name))
		}
	}
	return errors.Join(missing...)
}

// placementBy makes the profiles ready and returns the choice between them.
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
