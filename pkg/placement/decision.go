package placement

import (
	"slices"

	"github.com/berth-scheduler/berth/pkg/placement/devices"
	"github.com/berth-scheduler/berth/pkg/placement/names"
	"github.com/berth-scheduler/berth/pkg/placement/rule"
	"github.com/berth-scheduler/berth/pkg/state"
)

// TopK is how many feasible nodes a Result ranks by default: the best one, and enough alternatives for a shard
// whose reservation conflicts with that of another shard.
const TopK = 16

// Input is everything that a decision depends on in addition to the profile.
type Input struct {
	// Pod is the pod to place; its Template must be set.
	Pod *state.Pod
	// Nodes holds all nodes of the cluster, with the pods as the caller counts them, in a stable order. Some rules
	// and scores depend on nodes that do not take the pod, so leaving some out changes the answer; use Candidates
	// or Excluded for nodes that must not be used now.
	Nodes []*state.NodeInfo
	// Candidates holds those of Nodes to choose from, in the same order; the Result is about these. nil means all.
	Candidates []*state.NodeInfo
	// Objects holds the other objects of the cluster; nil for none. Without them no pod is spread by default, and
	// no namespace has labels.
	Objects rule.Objects
	// Seed breaks ties. Equal inputs give equal results.
	Seed uint64
	// Home holds the UIDs of nodes that are ranked before others with the same total; nil for none.
	Home map[string]bool
	// Start is where a profile that samples starts, 0 or more: a position in ZoneOrder, modulo its length. The next
	// Start is (Start + Examined) modulo NodesTotal.
	Start int
	// Excluded maps UIDs of nodes that must not be used to the reason that is counted for them.
	Excluded map[string]string
	// Opinions holds the results of custom plugins and extenders for nodes, by node name. Nodes without an entry
	// are not rejected.
	Opinions map[string]Opinion
	// Guidance is the result of custom plugins for the pod before nodes are evaluated; nil for none.
	Guidance *Guidance
	// Everywhere evaluates all nodes, even if the pod fits on the node that it has been nominated to.
	Everywhere bool
	// Unsampled evaluates all nodes, even if the profile samples.
	Unsampled bool
	// Limit is how many feasible nodes to rank: 0 means TopK, a negative value means all.
	Limit int
	// Weigh requests Result.Weighed for this many of the best nodes.
	Weigh int
	// Details requests Result.Nodes and Scored.ByPlugin, which cost an allocation per node and plugin.
	Details bool
}

// Result is the answer for one pod.
type Result struct {
	// Feasible ranks the best feasible nodes, best first: by total, then Input.Home, then a hash of seed and node
	// UID. For a pod that fits on the node that it has been nominated to, it holds that node only.
	Feasible []Scored
	// FeasibleCount is the number of feasible nodes; NodesTotal is the number of nodes to choose from. A profile
	// that samples counts the feasible nodes it found, not all that exist.
	FeasibleCount, NodesTotal int
	// Examined is how many nodes the search has judged, without those that rules narrowed out. It is 0 when there
	// was no search: the pod is placed on the node that it has been nominated to, or a rule rejects it on all
	// nodes.
	Examined int
	// Diagnosis explains why no node is feasible; empty when one is.
	Diagnosis Diagnosis
	// Class is the same for pods that no rule can distinguish, in all processes of one version of Berth; 0 from
	// Profile.Evaluate. Weighed and Rejected are set when Query.Weigh requests them: Weighed if nodes were
	// compared, Rejected by an engine. The engine counts nodes by the first rule that rejects them among the rules
	// on a single node, and counts the remaining nodes together under the names of the other rules. Like Feasible,
	// both belong to the engine, except Weighed.Plugins.
	Class uint64
	// Swayed reports that preferred terms of pods on nodes (or required affinity, where the profile weighs it) give
	// the pod points on some nodes. Only an engine sets it, for Query.Home and Query.Near, and not where it evaluates
	// from scratch: then this is not known.
	Swayed   bool
	Weighed  Weighed
	Rejected []RejectedBy
	// Nodes reports on every candidate that has been judged, in the order of the input, if Details requested it.
	Nodes []NodeReport
	// Err is set if the attempt failed for a reason other than that no node fits (upstream's SchedulerError).
	// Everything else is then empty.
	Err error
}

// Scored is one feasible node.
type Scored struct {
	Node *state.NodeInfo
	// Total is the weighted sum; 0 when the node is the only one, because it is not scored then.
	Total int64
	// ByPlugin is set if Details requested it.
	ByPlugin []PluginScore
}

// Weighed shows how the totals of the best nodes are composed: Points[i][j] is the number of points that Plugins[j]
// added to the total of Feasible[i], weights included.
type Weighed struct {
	Plugins []string
	Points  [][]int64
}

// RejectedBy counts the nodes that a rule rejected. Plugin holds several names, separated by commas, where it is
// not known which of them it was.
type RejectedBy struct {
	Plugin string
	Nodes  int32
}

// PluginScore is one rule's contribution: Weight times Normalized.
type PluginScore struct {
	Plugin          string
	Raw, Normalized int64
	Weight          int64
}

// NodeReport is the full report on one node.
type NodeReport struct {
	Node *state.NodeInfo
	// Code is the verdict. Plugin and Reasons are set for a node that failed: the first rule that rejected it, with
	// its reasons. Plugin is empty for an excluded node.
	Code    rule.Code
	Plugin  string
	Reasons []string
	// Total and Scores are set for a node that passed.
	Total  int64
	Scores []PluginScore
}

// Opinion is the combined result of custom plugins and extenders for one node and one pod.
type Opinion struct {
	// Rejected reports that the pod must not be placed on the node. Unresolvable reports that evictions would not
	// change that, so that no pod is evicted there for this pod.
	Rejected, Unresolvable bool
	// Spared reports that no pod is evicted there for this pod, because nominated pods hold the room. Evictions could
	// make the pod fit, so that the node still counts as one where it may wait for pods that are leaving.
	Spared bool
	// Plugin is the plugin that rejects the node; empty for an extender. Reasons are in its words; none if it gave
	// none.
	Plugin  string
	Reasons []string
	// Points are added to the total, weights and scale included (see ExtenderPoints).
	Points int64
}

// Spares reports whether no pod is evicted on the node for this pod.
func (o Opinion) Spares() bool { return o.Unresolvable || o.Spared }

// Failure is one rule that rejects a node. A decision stops at the first one; an explanation has all of them.
type Failure struct {
	Plugin  string
	Code    rule.Code
	Reasons []string
	// Details are more specific than the reasons, whose wording is upstream's: which taints, which labels.
	Details []string `json:",omitempty"`
}

// LacksDevices reports whether the node has too few devices.
func (f Failure) LacksDevices() bool {
	return f.Plugin == names.DynamicResources && slices.Contains(f.Reasons, devices.CannotAllocate)
}
