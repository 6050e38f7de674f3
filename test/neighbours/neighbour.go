package neighbours

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/berth-scheduler/berth/test/e2e/harness"
)

// Neighbour is a program, or a set of them, that lives beside a scheduler.
type Neighbour struct {
	// Name is the one that `make neighbours NEIGHBOURS=name` takes.
	Name string
	// Version is the module and the version that it is built from, as the page names them.
	Version string
	// Programs are targets of the cluster's driver, built before the first scenario.
	Programs []string
	// Played is empty if the neighbour itself runs. Otherwise it states, for the page, what plays its part and which
	// source that follows.
	Played string
	// Scenarios are in the order of the page.
	Scenarios []Scenario
}

// Scenario is a script with one neighbour. It runs once beside each scheduler.
type Scenario struct {
	// Name is unique within the neighbour; letters, digits and hyphens.
	Name string
	// About is one sentence for the page: what happens, and what must come of it.
	About string
	// Sized reports whether the script has as many pods as Scene.Pods.
	Sized bool
	// Cluster is the cluster that the scenario runs on; its Dir is filled in.
	Cluster harness.ClusterConfig
	// Scheduling is the configuration of either scheduler.
	Scheduling Scheduling
	// Run plays the script. The scheduler runs already. An error means that the scenario could not be played; what a
	// scheduler or a neighbour does wrong belongs into the result.
	Run func(ctx context.Context, s *Scene) (Result, error)
	// Unmet is empty if Berth has to pass. Otherwise it states what Berth lacks to pass: differences are then reported
	// and are no failure.
	Unmet string
}

// Scheduling is what both schedulers are configured with.
type Scheduling struct {
	// Config is the text of a KubeSchedulerConfiguration; empty for default-scheduler with the scheduler's defaults.
	Config string
	// Policy is the text of a DeschedulerPolicy; empty for no descheduler. It makes a pass every Interval.
	Policy   string
	Interval time.Duration
	// DeschedulerGates are feature gates of the upstream descheduler, in the notation of its flag.
	DeschedulerGates string
	// Start replaces how either scheduler is started, and all other fields; nil for the usual way.
	Start func(ctx context.Context, s *Scene) error
	// BerthArgs are appended to the command line of Berth alone.
	BerthArgs []string
}

// Scheduler names one of the two that are compared.
type Scheduler string

// The schedulers, in the order in which they run.
const (
	KubeScheduler Scheduler = "kube-scheduler"
	Berth         Scheduler = "berth"
)

// Schedulers are both.
var Schedulers = []Scheduler{KubeScheduler, Berth}

// All returns every neighbour, in the order of the page.
func All() []Neighbour {
	return []Neighbour{
		clusterAutoscaler(),
		karpenter(),
		kueue(),
		jobSet(),
		leaderWorkerSet(),
		kubePrometheus(),
		kubeVirt(),
	}
}

// Select returns the neighbours of these names, in the order of All, or all for "all".
func Select(names []string) ([]Neighbour, error) {
	all := All()
	known := make([]string, 0, len(all))
	for _, n := range all {
		known = append(known, n.Name)
	}
	for _, name := range names {
		if name != "all" && !slices.Contains(known, name) {
			return nil, fmt.Errorf("neighbour %q: want all, or some of %s", name, strings.Join(known, ", "))
		}
	}
	if len(names) == 0 || slices.Contains(names, "all") {
		return all, nil
	}
	return slices.DeleteFunc(all, func(n Neighbour) bool { return !slices.Contains(names, n.Name) }), nil
}
