package decide

import (
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/placement/engine"
)

// Config of a Core.
type Config struct {
	// Shard is this member's id, as it stands in own/<partition>.
	Shard string
	// Profiles by scheduler name.
	Profiles map[string]*placement.Profile
	// Window is how many offers the shard holds at once.
	Window int
	// HomeFirst makes plain pods try the shard's home nodes before the whole cluster, so
	// that shards rarely meet on a node. Pods with node preferences always see all nodes.
	// All pods prefer a home node among nodes of the same total.
	HomeFirst bool
	// NoEvidence leaves evidence.Evidence out of the decisions, to measure what it costs.
	NoEvidence bool
	// Gates are the scheduler names of profiles with custom plugins that may hold pods back before they are tried.
	Gates map[string]bool
	// Acts are the scheduler names of profiles with custom plugins that act once a node has been chosen.
	Acts map[string]bool
	// PostFilters are the scheduler names of profiles with custom plugins that are asked about pods that fit nowhere.
	PostFilters map[string]bool
	// Laps, if not nil, is told how far evaluations are; see engine.Laps.
	Laps engine.Laps
	// Home says whether a node is this shard's home for the given live shards (sorted).
	Home func(members []string, nodeUID string) bool
}
