package placement

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/berth-scheduler/berth/pkg/placement/rule"
)

// PDBPolicy defines how preemption treats disruption budgets.
type PDBPolicy string

const (
	// PDBRespect never evicts victims that exceed a budget. The default.
	PDBRespect PDBPolicy = "respect"
	// PDBBestEffort evicts victims that exceed a budget last, as kube-scheduler does.
	PDBBestEffort PDBPolicy = "bestEffort"
)

// PreemptionConfig is a profile's configuration of preemption in addition to DefaultPreemptionArgs. The zero value
// is Berth's default. With PDBBestEffort, SameNodeOnly, NoKeepers, ChargeLeaving and KeepDevices, preemption
// behaves as in kube-scheduler.
type PreemptionConfig struct {
	// PDB defines how budgets are treated; empty means PDBRespect.
	PDB PDBPolicy
	// SameNodeOnly does not evict pods on other nodes, even though they are the reason why the pod cannot be placed
	// on a node (anti-affinity, hard spread).
	SameNodeOnly bool
	// MaxBlockers is how many such pods one plan may evict, 1 to MaxBlockersLimit; 0 means DefaultMaxBlockers.
	MaxBlockers int
	// MaxTargets is on how many nodes plans with victims elsewhere are tried; 0 means DefaultMaxTargets.
	MaxTargets int
	// NoKeepers gives up a node when the pod's required affinity needs one of the victims.
	NoKeepers bool
	// KeeperChoices is how many pods are tried as the keeper; 0 means DefaultKeeperChoices.
	KeeperChoices int
	// ChargeLeaving counts victims that are already terminating like others. Otherwise they cost nothing.
	ChargeLeaving bool
	// KeepDevices does not count on the devices of victims, so that no pod is evicted for a pod that only lacks
	// devices. Otherwise the devices of claims that only victims use count as free.
	KeepDevices bool
}

// The defaults and bounds of PreemptionConfig.
const (
	// DefaultMaxBlockers keeps a plan well within one transaction of the ledger.
	DefaultMaxBlockers = 16
	// MaxBlockersLimit is the number that fits into the documents of one transaction.
	MaxBlockersLimit = 64
	// DefaultMaxTargets bounds the cost of one decision on a large cluster.
	DefaultMaxTargets = 256
	// DefaultKeeperChoices is small because the choice of the keeper seldom matters, and each choice costs a dry
	// run.
	DefaultKeeperChoices = 3
	// maxChoices bounds MaxTargets and KeeperChoices: a larger number is a typing error.
	maxChoices = 100_000
)

// Defaults of DefaultPreemptionArgs (pkg/scheduler/apis/config/v1/defaults.go), for fields that the arguments leave
// empty.
const (
	defaultMinCandidatePercentage int32 = 10
	defaultMinCandidateAbsolute   int32 = 100
)

// PreemptionRules is a PreemptionConfig with its defaults applied and checked.
type PreemptionRules struct {
	PreemptionConfig
	// Enabled reports whether the profile has DefaultPreemption.
	Enabled bool
	// Limited reports whether the search ends with enough candidates, by percentage and absolute.
	Limited bool
	// percentage is that of the nodes which could become candidates, and absolute a number of them; see Enough.
	percentage, absolute int32
}

// newPreemptionRules applies the defaults and checks the ranges. The error names every field that is out of
// range.
func newPreemptionRules(cfg PreemptionConfig) (PreemptionRules, error) {
	p := PreemptionRules{PreemptionConfig: cfg}
	var errs []error
	orElse := func(field string, value *int, otherwise, highest int) {
		if *value == 0 {
			*value = otherwise
		}
		if *value < 1 || *value > highest {
			errs = append(errs, fmt.Errorf("preemption.%s is %d, want 1 to %d", field, *value, highest))
		}
	}
	orElse("maxBlockers", &p.MaxBlockers, DefaultMaxBlockers, MaxBlockersLimit)
	orElse("maxTargets", &p.MaxTargets, DefaultMaxTargets, maxChoices)
	orElse("keeperChoices", &p.KeeperChoices, DefaultKeeperChoices, maxChoices)
	switch p.PDB {
	case "":
		p.PDB = PDBRespect
	case PDBRespect, PDBBestEffort:
	default:
		errs = append(errs, fmt.Errorf("preemption.pdb is %q, want %s or %s", p.PDB, PDBRespect, PDBBestEffort))
	}
	return p, errors.Join(errs...)
}

// limit applies the arguments of DefaultPreemption; without any the search is not limited.
func (p *PreemptionRules) limit(args runtime.Object) error {
	p.Enabled = true
	if args == nil {
		return nil
	}
	a, err := rule.Args[configv1.DefaultPreemptionArgs](args)
	if err != nil {
		return err
	}
	p.OrLimit()
	if a.MinCandidateNodesPercentage != nil {
		p.percentage = *a.MinCandidateNodesPercentage
	}
	if a.MinCandidateNodesAbsolute != nil {
		p.absolute = *a.MinCandidateNodesAbsolute
	}
	switch {
	case p.percentage < 0 || p.percentage > maxPercent:
		return fmt.Errorf("minCandidateNodesPercentage is %d, want 0 to %d", p.percentage, maxPercent)
	case p.absolute < 0:
		return fmt.Errorf("minCandidateNodesAbsolute is %d, want 0 or more", p.absolute)
	case p.percentage == 0 && p.absolute == 0:
		return errors.New("minCandidateNodesPercentage and minCandidateNodesAbsolute are 0, want more in one of them")
	}
	return nil
}

// OrLimit limits an unlimited search by upstream's defaults.
func (p *PreemptionRules) OrLimit() {
	if !p.Limited {
		p.Limited = true
		p.percentage = defaultMinCandidatePercentage
		p.absolute = defaultMinCandidateAbsolute
	}
}

// Enough returns how many candidates end the search among this many nodes that could become one. Source:
// plugins/defaultpreemption calculateNumCandidates.
func (p *PreemptionRules) Enough(nodes int) int {
	if !p.Limited {
		return nodes
	}
	return min(max(nodes*int(p.percentage)/maxPercent, int(p.absolute)), nodes)
}
