package scale

import (
	_ "embed"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/yaml"
)

// Cost is one measured number.
type Cost struct {
	// Micros is in microseconds; Bytes in bytes. One of them is given.
	Micros float64 `json:"micros,omitempty"`
	Bytes  float64 `json:"bytes,omitempty"`
	// Says describes the cost, Evidence the measurement behind it.
	Says     string `json:"says"`
	Evidence string `json:"evidence"`
}

// Costs are all of them, by name.
type Costs map[string]Cost

//go:embed costs.yaml
var measured []byte

// names of the costs, all of which a file has to give.
const (
	costDecision     = "shard.decision"
	costDecisionNode = "shard.decisionPerNode"
	costFact         = "shard.fact"
	costRevision     = "shard.ledgerDocument"
	costQueueEvent   = "queue.event"
	costQueueOffer   = "queue.offer"
	costBinder       = "binder.pod"
	costSink         = "sink.pod"
	costTxn          = "etcd.transaction"
	costDoc          = "etcd.document"
	costWatch        = "etcd.documentPerWatcher"
	costPublish      = "nats.publish"
	costDeliver      = "nats.deliver"
	delaySync        = "delay.etcdSync"
	delayHop         = "delay.hop"
	delayLog         = "delay.log"
	bytesNode        = "memory.perNode"
	bytesPod         = "memory.perPod"
)

var costNames = []string{costDecision, costDecisionNode, costFact, costRevision, costQueueEvent, costQueueOffer,
	costBinder, costSink, costTxn, costDoc, costWatch, costPublish, costDeliver, delaySync, delayHop, delayLog,
	bytesNode, bytesPod}

// Measured are the costs that come with the package.
func Measured() (Costs, error) { return parseCosts("costs.yaml", measured) }

// ReadCosts reads a file of costs; an empty path is Measured.
func ReadCosts(path string) (Costs, error) {
	if path == "" {
		return Measured()
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("costs: %w", err)
	}
	return parseCosts(path, raw)
}

func parseCosts(path string, raw []byte) (Costs, error) {
	var c Costs
	if err := yaml.UnmarshalStrict(raw, &c); err != nil {
		return nil, fmt.Errorf("%s: %w: want name: {micros or bytes, says, evidence}", path, err)
	}
	for _, name := range costNames {
		cost, ok := c[name]
		memory := name == bytesNode || name == bytesPod
		switch {
		case !ok:
			return nil, fmt.Errorf("%s: %s is missing: want %s", path, name, strings.Join(costNames, ", "))
		case cost.Says == "" || cost.Evidence == "":
			return nil, fmt.Errorf("%s: %s: says %q, evidence %q: want words in both", path, name, cost.Says, cost.Evidence)
		case memory && (cost.Bytes <= 0 || cost.Micros != 0):
			return nil, fmt.Errorf("%s: %s: bytes %v, micros %v: want bytes above 0 and no micros",
				path, name, cost.Bytes, cost.Micros)
		case !memory && (cost.Micros <= 0 || cost.Bytes != 0):
			return nil, fmt.Errorf("%s: %s: micros %v, bytes %v: want micros above 0 and no bytes",
				path, name, cost.Micros, cost.Bytes)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c)) {
		if !slices.Contains(costNames, name) {
			return nil, fmt.Errorf("%s: %s: want some of %s", path, name, strings.Join(costNames, ", "))
		}
	}
	return c, nil
}

// of is n times a cost, as time.
func (c Costs) of(name string, n int) time.Duration {
	return time.Duration(c[name].Micros * float64(n) * float64(time.Microsecond))
}

// Names are in the order of the file's documentation.
func (c Costs) Names() []string { return slices.Clone(costNames) }

// Memory is the memory of a shard that holds so many nodes and pods, in bytes.
func (c Costs) Memory(nodes, pods int) float64 {
	return c[bytesNode].Bytes*float64(nodes) + c[bytesPod].Bytes*float64(pods)
}

// kindOf is the process that a cost of processor time is spent by; none for delays and memory.
var kindOf = map[string]string{
	costDecision: "scheduler", costDecisionNode: "scheduler", costFact: "scheduler", costRevision: "scheduler",
	costQueueEvent: "queue", costQueueOffer: "queue", costBinder: "binder", costSink: "API server",
	costTxn: "etcd", costDoc: "etcd", costWatch: "etcd", costPublish: "nats", costDeliver: "nats",
}

// Times are the costs of another machine: those of each kind of process so many times.
func (c Costs) Times(factors map[string]float64) Costs {
	scaled := maps.Clone(c)
	for name, kind := range kindOf {
		if f, ok := factors[kind]; ok {
			cost := scaled[name]
			cost.Micros *= f
			scaled[name] = cost
		}
	}
	return scaled
}
