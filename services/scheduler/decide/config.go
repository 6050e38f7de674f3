package decide

import (
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/placement/engine"
)

// Config configures a Core. Shard, Profiles and Window are required; without Home there are no home nodes and no
// turns.
type Config struct {
	// Shard is this member's id, as in own/<partition>.
	Shard string
	// Profiles by scheduler name.
	Profiles map[string]*placement.Profile
	// Window is how many offers the shard holds at once, without those that wait for a plan. The queue leases no
	// more.
	Window int
	// HomeFirst makes all pods prefer a home node among nodes with the same total, and plain pods try home nodes before
	// the whole cluster where their profile says so, so that shards rarely compete for a node.
	HomeFirst bool
	// HomeNodesFirst applies to profiles that do not say when home nodes are tried first; empty means HomeAuto.
	HomeNodesFirst placement.HomePolicy
	// NoEvidence omits evidence.Evidence from the decisions, to measure its cost.
	NoEvidence bool
	// Gates are the scheduler names of profiles with custom plugins that may hold pods back before they are tried.
	Gates map[string]bool
	// Acts are the scheduler names of profiles with custom plugins that act once a node has been chosen.
	Acts map[string]bool
	// PostFilters are the scheduler names of profiles with custom plugins that are asked about pods that fit nowhere.
	PostFilters map[string]bool
	// Laps, if not nil, receives the timing of evaluations; see engine.Laps.
	Laps engine.Timer
	// Home reports whether a node is a home node of this shard, given the live shards (sorted).
	Home func(members []string, nodeUID string) bool
}
