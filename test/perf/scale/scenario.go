package scale

import (
	"fmt"
	"slices"
	"strings"

	"github.com/berth-scheduler/berth/pkg/ledger"
)

// Workloads.
const (
	// Plain pods prefer the home nodes of their shard.
	Plain = "plain"
	// Leaning pods would rather be in their zone, so that every shard looks at all nodes.
	Leaning = "leaning"
)

// Scenario is the input of a run.
type Scenario struct {
	Shards int `json:"shards"`
	Nodes  int `json:"nodes"`
	// Pods arrive at once. Full is how full the nodes are before, in percent; nodes differ.
	Pods     int    `json:"pods"`
	Full     int    `json:"full"`
	Workload string `json:"workload"`
	Binders  int    `json:"binders"`
	// Cores is how many processors all processes share; 0 gives each its own.
	Cores int `json:"cores"`
	// BindsPerSecond is the rate that the API server accepts; 0 for a sink that accepts any rate, and uses some of
	// the processors if they are shared.
	BindsPerSecond float64 `json:"bindsPerSecond,omitempty"`
	Split
	// Engine has the real cores decide, not the twin.
	Engine bool `json:"engine"`
	// Even shares the partitions of pods out evenly, as the queue's levelling does after a
	// while; without it by hash alone.
	Even bool   `json:"even"`
	Seed uint64 `json:"seed"`
}

// Split counts the parts that a plain installation has once. The nodes are split into as many ranges, the shards with
// their home nodes and their pods into as many groups.
type Split struct {
	// Ledgers are etcd clusters, each with a range of the nodes.
	Ledgers int `json:"ledgers"`
	// Logs are streams of facts, each with its leading queue and NATS server.
	Logs int `json:"logs"`
	// OwnRange has a shard read the facts and the ledger of its own range alone.
	OwnRange bool `json:"ownRange"`
}

const (
	// podsPerNode, nodeCPU (thousandths) and nodeMemory (MiB) are the capacity of a node, podCPU and podMemory the
	// requests of a pod: those of berthbench path.
	podsPerNode, nodeCPU, nodeMemory, podCPU, podMemory = 110, 32_000, 256 << 10, 100, 500
	// zones that nodes are spread over.
	zones = 3
	// mostSplit bounds Split, mostNodes and mostPods the size of a run.
	mostSplit, mostNodes, mostPods = 16, 2_000_000, 2_000_000
	// mostEngineNodes bounds the nodes that all pictures of the real cores have together.
	mostEngineNodes = 1_000_000
)

// Validate returns an error with the field, its value and the accepted values.
func (s Scenario) Validate() error {
	wrong := func(field string, value any, want string) error {
		return fmt.Errorf("scale: %s: %v: want %s", field, value, want)
	}
	switch {
	case s.Shards < 1 || s.Shards > ledger.Partitions:
		return wrong("Shards", s.Shards, fmt.Sprintf("1 to %d", ledger.Partitions))
	case s.Nodes < 1 || s.Nodes > mostNodes:
		return wrong("Nodes", s.Nodes, fmt.Sprintf("1 to %d", mostNodes))
	case s.Full < 0 || s.Full > 95:
		return wrong("Full", s.Full, "0 to 95 percent")
	case s.Pods < 1 || s.Pods > min(mostPods, s.room()):
		return wrong("Pods", s.Pods, fmt.Sprintf("1 to %d, half of what fits", min(mostPods, s.room())))
	case !slices.Contains([]string{Plain, Leaning}, s.Workload):
		return wrong("Workload", fmt.Sprintf("%q", s.Workload), Plain+" or "+Leaning)
	case s.Binders < 1:
		return wrong("Binders", s.Binders, "at least 1")
	case s.Cores < 0:
		return wrong("Cores", s.Cores, "0 for one a process, or more")
	case s.BindsPerSecond < 0:
		return wrong("BindsPerSecond", s.BindsPerSecond, "0 for a sink, or more")
	case s.Engine && s.Shards*s.Nodes > mostEngineNodes:
		return wrong("Engine", fmt.Sprintf("%d shards of %d nodes", s.Shards, s.Nodes),
			fmt.Sprintf("at most %d nodes in all pictures together", mostEngineNodes))
	}
	return s.validate(s)
}

func (p Split) validate(s Scenario) error {
	for _, f := range []struct {
		name string
		n    int
	}{{"Ledgers", p.Ledgers}, {"Logs", p.Logs}} {
		if f.n < 1 || f.n > min(mostSplit, s.Shards) {
			return fmt.Errorf("scale: %s: %d: want 1 to %d, and no more than shards", f.name, f.n, mostSplit)
		}
	}
	if p.Ledgers > 1 && p.Logs > 1 && p.Ledgers != p.Logs {
		return fmt.Errorf("scale: Logs: %d: want 1, or as many as Ledgers (%d): both follow the ranges of nodes",
			p.Logs, p.Ledgers)
	}
	if p.OwnRange && (p.Ledgers != p.Logs || s.Workload != Plain) {
		return fmt.Errorf("scale: OwnRange with %d ledgers, %d logs and %s pods: want as many of both, and %s pods",
			p.Ledgers, p.Logs, s.Workload, Plain)
	}
	if s.Engine && p.groups() > 1 {
		return fmt.Errorf("scale: Engine with %d ranges: want 1, the core knows one ledger", p.groups())
	}
	return nil
}

// groups is how many ranges of nodes there are.
func (p Split) groups() int { return max(p.Ledgers, p.Logs) }

// room is half of the pods that fit on the nodes: more would fill some shard's home.
func (s Scenario) room() int {
	return s.Nodes * min(podsPerNode-1, nodeCPU/podCPU*(100-s.Full)/100) / 2
}

// golden makes a sequence of fractions that are evenly spread wherever it is cut off.
const golden = 0.6180339887498949

// standing is the used fraction of a node before pods arrive: as in berthbench path, nodes differ as much as possible
// around the mean.
func (s Scenario) standing(node int) float64 {
	if s.Full == 0 {
		return 0
	}
	x := float64(node) * golden
	between := float64(min(s.Full, 100-s.Full)) / 100
	return float64(s.Full)/100 + between*(2*(x-float64(int(x)))-1)
}

// String identifies the scenario in messages.
func (s Scenario) String() string {
	parts := []string{
		fmt.Sprintf("%d shards, %d nodes %d%% full, %d %s pods", s.Shards, s.Nodes, s.Full, s.Pods, s.Workload)}
	if s.Cores > 0 {
		parts = append(parts, fmt.Sprintf("%d processors", s.Cores))
	}
	if s.groups() > 1 {
		parts = append(parts, fmt.Sprintf("%d ledgers, %d logs", s.Ledgers, s.Logs))
	}
	if s.OwnRange {
		parts = append(parts, "own range only")
	}
	if s.Engine {
		parts = append(parts, "real cores")
	}
	return strings.Join(append(parts, fmt.Sprintf("seed %d", s.Seed)), ", ")
}
