package config

import (
	"encoding/json"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"
	schedulerv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/strictyaml"
)

// berthSettings is the name in pluginConfig under which a profile has Berth's own settings. kube-scheduler ignores
// arguments for a plugin it does not know, so it accepts the same file.
const berthSettings = "Berth"

// berthArgs are Berth's own settings of one profile. The comments of its fields, and of those below,
// are the users' reference (docs/fields.md).
type berthArgs struct {
	// How pods of the profile preempt others.
	Preemption preemptionArgs `json:"preemption"`
	// When a scheduler shard tries its home nodes, its share of the cluster, before all others for pods without
	// preferences. auto: while shards would otherwise choose the same nodes at the same time. always: for each such
	// pod. never: each decision looks at all nodes. Default auto, or never with --whole-cluster.
	HomeNodesFirst placement.HomePolicy `json:"homeNodesFirst"`
}

type preemptionArgs struct {
	// respect (default): a PodDisruptionBudget is never exceeded. bestEffort: as kube-scheduler, which
	// exceeds budgets where nothing else makes room.
	PDB placement.PDBPolicy `json:"pdb"`
	// Victims on nodes other than the one where the pod is to stand.
	CrossNode crossNodeArgs `json:"crossNode"`
	// Pods that stay because the preemptor's required affinity needs them.
	Keepers keeperArgs `json:"keepers"`
	// Whether victims that are leaving already count as others do, as in kube-scheduler. Otherwise they
	// cost nothing and are taken first. Default false.
	ChargeLeaving bool `json:"chargeLeaving"`
	// Devices that less important pods have in claims nobody else uses.
	Devices deviceArgs `json:"devices"`
}

type deviceArgs struct {
	// Whether they count as free where their pods would go. false: as kube-scheduler, which evicts nobody
	// for devices. Default true.
	Enabled *bool `json:"enabled"`
}

type crossNodeArgs struct {
	// Default true.
	Enabled *bool `json:"enabled"`
	// How many such pods one plan may make victims of, 1 to 64. Default 16.
	MaxBlockers *int `json:"maxBlockers"`
	// On how many nodes such plans are tried. Default 256.
	MaxTargets *int `json:"maxTargets"`
}

type keeperArgs struct {
	// Default true.
	Enabled *bool `json:"enabled"`
	// How many pods are tried as the one that stays. Default 3.
	Choices *int `json:"choices"`
}

// maxChoices bounds settings that only cost time: a larger number is a typing error.
const maxChoices = 100_000

// resolveBerth reads Berth's own settings of a profile; without any, it fills in the defaults.
func resolveBerth(p *Profile, given []schedulerv1.PluginConfig, path *field.Path, r *strictyaml.Report) {
	var args berthArgs
	if i := slices.IndexFunc(given, func(c schedulerv1.PluginConfig) bool { return c.Name == berthSettings }); i >= 0 {
		path = path.Index(i).Child("args")
		if raw := given[i].Args.Raw; len(raw) > 0 {
			strictyaml.Decode(raw, &args, path, r)
		}
	}
	p.Preemption = args.Preemption.resolve(path.Child("preemption"), r)
	p.HomeNodesFirst = args.HomeNodesFirst
	if policies := placement.HomePolicies(); p.HomeNodesFirst != "" && !slices.Contains(policies, p.HomeNodesFirst) {
		r.AddKind(field.ErrorTypeNotSupported, path.Child("homeNodesFirst"), string(p.HomeNodesFirst),
			fmt.Sprintf("want %s, %s or %s", placement.HomeAuto, placement.HomeAlways, placement.HomeNever))
	}
}

// resolve fills in the defaults and checks the ranges. Fields are pointers where 0 or false is a value of its
// own.
func (a preemptionArgs) resolve(path *field.Path, r *strictyaml.Report) placement.PreemptionConfig {
	orDefault(&a.CrossNode.Enabled, true)
	orDefault(&a.Keepers.Enabled, true)
	orDefault(&a.Devices.Enabled, true)
	c := placement.PreemptionConfig{
		PDB: a.PDB, ChargeLeaving: a.ChargeLeaving,
		SameNodeOnly: !*a.CrossNode.Enabled, NoKeepers: !*a.Keepers.Enabled, KeepDevices: !*a.Devices.Enabled,
	}
	switch c.PDB {
	case "":
		c.PDB = placement.PDBRespect
	case placement.PDBRespect, placement.PDBBestEffort:
	default:
		r.AddKind(field.ErrorTypeNotSupported, path.Child("pdb"), string(c.PDB),
			fmt.Sprintf("want %s or %s", placement.PDBRespect, placement.PDBBestEffort))
	}
	number := func(given *int, otherwise, high int, at *field.Path) int {
		orDefault(&given, otherwise)
		checkRange(int64(*given), 1, int64(high), at, r)
		return *given
	}
	cross := path.Child("crossNode")
	c.MaxBlockers = number(a.CrossNode.MaxBlockers, placement.DefaultMaxBlockers, placement.MaxBlockersLimit,
		cross.Child("maxBlockers"))
	c.MaxTargets = number(a.CrossNode.MaxTargets, placement.DefaultMaxTargets, maxChoices, cross.Child("maxTargets"))
	c.KeeperChoices = number(a.Keepers.Choices, placement.DefaultKeeperChoices, maxChoices,
		path.Child("keepers", "choices"))
	return c
}

// limitsPreemption reports whether the file sets how many nodes preemption tries. If so, what it leaves open has
// upstream's default; if not, all nodes are tried. The arguments themselves do not show it, because their
// defaults are filled in.
func limitsPreemption(given []schedulerv1.PluginConfig) bool {
	return slices.ContainsFunc(given, func(c schedulerv1.PluginConfig) bool {
		var args schedulerv1.DefaultPreemptionArgs
		return c.Name == "DefaultPreemption" && json.Unmarshal(c.Args.Raw, &args) == nil &&
			(args.MinCandidateNodesPercentage != nil || args.MinCandidateNodesAbsolute != nil)
	})
}
