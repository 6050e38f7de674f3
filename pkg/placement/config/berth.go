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

// berthSettings is the name in pluginConfig under which a profile has Berth's own settings.
// kube-scheduler ignores arguments for a plugin it does not know, so that it takes the same
// file.
const berthSettings = "Berth"

// berthArgs are Berth's own settings of one profile.
type berthArgs struct {
	Preemption preemptionArgs `json:"preemption"`
}

type preemptionArgs struct {
	PDB           placement.PDBPolicy `json:"pdb"`
	CrossNode     crossNodeArgs       `json:"crossNode"`
	Keepers       keeperArgs          `json:"keepers"`
	ChargeLeaving bool                `json:"chargeLeaving"`
}

type crossNodeArgs struct {
	Enabled     *bool `json:"enabled"`
	MaxBlockers *int  `json:"maxBlockers"`
	MaxTargets  *int  `json:"maxTargets"`
}

type keeperArgs struct {
	Enabled *bool `json:"enabled"`
	Choices *int  `json:"choices"`
}

// maxChoices bounds what costs time only: more is a typing error.
const maxChoices = 100_000

// resolveBerth reads Berth's own settings of a profile; without any, they are the defaults.
func resolveBerth(
	given []schedulerv1.PluginConfig, path *field.Path, r *strictyaml.Report,
) placement.PreemptionConfig {
	var args berthArgs
	if i := slices.IndexFunc(given, func(c schedulerv1.PluginConfig) bool { return c.Name == berthSettings }); i >= 0 {
		path = path.Index(i).Child("args")
		if raw := given[i].Args.Raw; len(raw) > 0 && !strictyaml.Decode(raw, &args, path, r) {
			return placement.PreemptionConfig{}
		}
	}
	return args.Preemption.complete(path.Child("preemption"), r)
}

func (a preemptionArgs) complete(path *field.Path, r *strictyaml.Report) placement.PreemptionConfig {
	orDefault(&a.CrossNode.Enabled, true)
	orDefault(&a.Keepers.Enabled, true)
	c := placement.PreemptionConfig{
		PDB: a.PDB, ChargeLeaving: a.ChargeLeaving,
		SameNodeOnly: !*a.CrossNode.Enabled, NoKeepers: !*a.Keepers.Enabled,
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

// limitsPreemption tells whether the file says how many nodes preemption tries. What it leaves
// open is upstream's default then; without a word, all nodes are tried.
func limitsPreemption(given []schedulerv1.PluginConfig) bool {
	return slices.ContainsFunc(given, func(c schedulerv1.PluginConfig) bool {
		var args schedulerv1.DefaultPreemptionArgs
		return c.Name == "DefaultPreemption" && json.Unmarshal(c.Args.Raw, &args) == nil &&
			(args.MinCandidateNodesPercentage != nil || args.MinCandidateNodesAbsolute != nil)
	})
}
