package placement

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	configv1 "k8s.io/kube-scheduler/config/v1"
)

// PDBPolicy says what disruption budgets mean to preemption.
type PDBPolicy string

const (
	// PDBRespect: victims that exceed a budget are none. The default.
	PDBRespect PDBPolicy = "respect"
	// PDBBestEffort: victims that exceed a budget are taken last, as kube-scheduler does.
	PDBBestEffort PDBPolicy = "bestEffort"
)

// PreemptionConfig is what a profile says about preemption besides DefaultPreemptionArgs. The
// zero value is Berth's default. With PDBBestEffort, SameNodeOnly, NoKeepers, ChargeLeaving and
// KeepDevices, preemption is kube-scheduler's.
type PreemptionConfig struct {
	// PDB is what budgets mean; empty for PDBRespect.
	PDB PDBPolicy
	// SameNodeOnly leaves pods on other nodes alone, though they are why the pod may not go
	// to a node (anti-affinity, hard spread).
	SameNodeOnly bool
	// MaxBlockers is how many such pods one plan may make victims of, 1 to MaxBlockersLimit; 0
	// for DefaultMaxBlockers.
	MaxBlockers int
	// MaxTargets is on how many nodes plans with victims elsewhere are tried; 0 for
	// DefaultMaxTargets.
	MaxTargets int
	// NoKeepers gives up a node when the pod's required affinity needs one of the victims.
	NoKeepers bool
	// KeeperChoices is how many pods are tried as the one that is kept; 0 for
	// DefaultKeeperChoices.
	KeeperChoices int
	// ChargeLeaving counts victims that are leaving already like others. Otherwise they cost
	// nothing: they go anyway.
	ChargeLeaving bool
	// KeepDevices does not count on the devices of victims, so that nobody goes for a pod that only
	// lacks devices. Otherwise those are free that claims have which victims alone use.
	KeepDevices bool
}

const (
	// DefaultMaxBlockers keeps a plan in one transaction of the ledger with room to spare.
	DefaultMaxBlockers = 16
	// MaxBlockersLimit is what the documents of one transaction can hold.
	MaxBlockersLimit = 64
	// DefaultMaxTargets bounds one decision on a large cluster.
	DefaultMaxTargets = 256
	// DefaultKeeperChoices: who is kept seldom matters, and each choice costs a dry run.
	DefaultKeeperChoices = 3
	// maxChoices bounds MaxTargets and KeeperChoices: more is a typing error.
	maxChoices = 100_000
)

// Defaults of DefaultPreemptionArgs (pkg/scheduler/apis/config/v1/defaults.go), for the field
// that arguments leave open.
const (
	defaultMinCandidatePercentage int32 = 10
	defaultMinCandidateAbsolute   int32 = 100
)

// preempting is a PreemptionConfig made ready.
type preempting struct {
	PreemptionConfig
	// enabled: the profile has DefaultPreemption.
	enabled bool
	// limited: the search ends with enough candidates, by percentage and absolute.
	limited              bool
	percentage, absolute int32
}

func newPreempting(cfg PreemptionConfig) (preempting, error) {
	p := preempting{PreemptionConfig: cfg}
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

// limit takes in the arguments of DefaultPreemption; without any the search is not limited.
func (p *preempting) limit(args runtime.Object) error {
	p.enabled = true
	if args == nil {
		return nil
	}
	a, err := argsOf[configv1.DefaultPreemptionArgs](args)
	if err != nil {
		return err
	}
	p.orLimit()
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

// orLimit limits a search that is not, by upstream's defaults.
func (p *preempting) orLimit() {
	if !p.limited {
		p.limited = true
		p.percentage = defaultMinCandidatePercentage
		p.absolute = defaultMinCandidateAbsolute
	}
}

// enough is how many candidates end the search among nodes that could become one. Source:
// plugins/defaultpreemption calculateNumCandidates.
func (p *preempting) enough(nodes int) int {
	if !p.limited {
		return nodes
	}
	return min(max(nodes*int(p.percentage)/maxPercent, int(p.absolute)), nodes)
}
