package perfconfig

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"path"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Opcodes that can be carried out.
const (
	CreateNodes      = "createNodes"
	CreateNamespaces = "createNamespaces"
	CreatePods       = "createPods"
	CreatePodSets    = "createPodSets"
	CreateAny        = "createAny"
	CreateDriver     = "createResourceDriver"
	DeletePods       = "deletePods"
	Churn            = "churn"
	Barrier          = "barrier"
	Sleep            = "sleep"
	StartCollecting  = "startCollectingMetrics"
	StopCollecting   = "stopCollectingMetrics"
)

var opcodes = []string{
	CreateNodes, CreateNamespaces, CreatePods, CreatePodSets, CreateAny, CreateDriver, DeletePods, Churn, Barrier,
	Sleep, StartCollecting, StopCollecting,
}

// Modes of a churn, and what a barrier waits for.
const (
	ChurnCreate   = "create"
	ChurnRecreate = "recreate"
	Scheduled     = "Scheduled"
	Attempted     = "Attempted"
)

// churnInterval is a churn's when it names none.
const churnInterval = 500 * time.Millisecond

// Op is one operation. Which fields matter depends on Opcode; see upstream's operations.go for
// what each means. After Resolve, Count, paths, Namespace, Interval and StageRequirement are set.
type Op struct {
	Opcode     string `json:"opcode"`
	Count      int    `json:"count"`
	CountParam string `json:"countParam"`
	// Namespace is the namespace of created or deleted objects, Namespaces are those that are waited for or measured.
	Namespace  string   `json:"namespace"`
	Namespaces []string `json:"namespaces"`

	Nodes
	Pods
	Objects
	Waits
	Driver

	// refused is why the operation cannot be carried out, nil when it can.
	refused error
}

// Nodes are the fields of createNodes.
type Nodes struct {
	NodeTemplatePath         string         `json:"nodeTemplatePath"`
	LabelNodePrepareStrategy *NodeLabel     `json:"labelNodePrepareStrategy"`
	UniqueNodeLabelStrategy  *NodeLabel     `json:"uniqueNodeLabelStrategy"`
	NodeAllocatableStrategy  map[string]any `json:"nodeAllocatableStrategy"`
}

// Pods are the fields of createPods, createPodSets and deletePods.
type Pods struct {
	CollectMetrics       bool   `json:"collectMetrics"`
	PodTemplatePath      string `json:"podTemplatePath"`
	SkipWaitToCompletion bool   `json:"skipWaitToCompletion"`

	NamespacePrefix string `json:"namespacePrefix"`
	CreatePodsOp    *Op    `json:"createPodsOp"`

	LabelSelector       map[string]string `json:"labelSelector"`
	DeletePodsPerSecond int               `json:"deletePodsPerSecond"`
}

// Objects are the fields of createNamespaces, createAny and churn.
type Objects struct {
	Prefix                string   `json:"prefix"`
	NamespaceTemplatePath string   `json:"namespaceTemplatePath"`
	TemplatePath          string   `json:"templatePath"`
	TemplatePaths         []string `json:"templatePaths"`
	Mode                  string   `json:"mode"`
	Number                int      `json:"number"`
	IntervalMilliseconds  int64    `json:"intervalMilliseconds"`
	// Interval is IntervalMilliseconds or its default.
	Interval time.Duration `json:"-"`
}

// Waits are the fields of barrier, sleep and startCollectingMetrics.
type Waits struct {
	StageRequirement string          `json:"stageRequirement"`
	Duration         metav1.Duration `json:"duration"`
	Name             string          `json:"name"`
}

// Driver are the fields of createResourceDriver: nodes whose names match the pattern (path.Match) have so many
// devices. After Resolve Count is how many.
type Driver struct {
	DriverName            string `json:"driverName"`
	NodePattern           string `json:"nodes"`
	MaxClaimsPerNode      int    `json:"maxClaimsPerNode"`
	MaxClaimsPerNodeParam string `json:"maxClaimsPerNodeParam"`
}

// NodeLabel labels nodes: with the values in turn, or each with a value of its own.
type NodeLabel struct {
	LabelKey    string   `json:"labelKey"`
	LabelValues []string `json:"labelValues"`
}

// UnmarshalJSON keeps what it cannot make sense of as a reason not to carry the operation out: a
// file is full of cases, and most are not asked for.
func (o *Op) UnmarshalJSON(raw []byte) error {
	var head struct {
		Opcode string `json:"opcode"`
	}
	if err := json.Unmarshal(raw, &head); err != nil {
		return err
	}
	if !slices.Contains(opcodes, head.Opcode) {
		*o = Op{Opcode: head.Opcode, refused: fmt.Errorf("unknown opcode: want one of %s", strings.Join(opcodes, ", "))}
		return nil
	}
	type plain Op // without this method
	var p plain
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&p); err != nil {
		p = plain{Opcode: head.Opcode, refused: err}
	}
	*o = Op(p)
	return nil
}

// resolve replaces parameters and paths; index is the operation's place, which names what it makes.
func (o *Op) resolve(c Case, params map[string]any, scale float64, index int) error {
	if o.refused != nil {
		return o.refused
	}
	if err := o.count(params, scale); err != nil {
		return err
	}
	if o.Opcode == CreatePods && o.PodTemplatePath == "" {
		o.PodTemplatePath = c.DefaultPodTemplatePath
	}
	for _, file := range []*string{&o.NodeTemplatePath, &o.NamespaceTemplatePath, &o.PodTemplatePath, &o.TemplatePath} {
		*file = c.path(*file)
	}
	o.TemplatePaths = slices.Clone(o.TemplatePaths)
	for i := range o.TemplatePaths {
		o.TemplatePaths[i] = c.path(o.TemplatePaths[i])
	}
	if (o.Opcode == CreatePods || o.Opcode == Churn) && o.Namespace == "" {
		o.Namespace = fmt.Sprintf("namespace-%d", index)
	}
	if o.Interval = time.Duration(o.IntervalMilliseconds) * time.Millisecond; o.Interval == 0 {
		o.Interval = churnInterval
	}
	return o.check(c, params, scale, index)
}

func (o *Op) check(c Case, params map[string]any, scale float64, index int) error {
	switch o.Opcode {
	case CreatePodSets:
		if o.CreatePodsOp == nil {
			return errors.New("createPodsOp: missing")
		}
		inner := *o.CreatePodsOp
		o.CreatePodsOp = &inner
		return inner.resolve(c, params, scale, index)
	case Churn:
		if o.Mode != ChurnCreate && o.Mode != ChurnRecreate || len(o.TemplatePaths) == 0 {
			return fmt.Errorf("mode %q with %d templatePaths: want %s or %s, and at least one",
				o.Mode, len(o.TemplatePaths), ChurnCreate, ChurnRecreate)
		}
	case Barrier:
		if o.StageRequirement == "" {
			o.StageRequirement = Scheduled
		}
		if o.StageRequirement != Scheduled && o.StageRequirement != Attempted {
			return fmt.Errorf("stageRequirement %q: want %s or %s", o.StageRequirement, Scheduled, Attempted)
		}
	case CreateDriver:
		if _, err := path.Match(o.NodePattern, ""); err != nil || o.DriverName == "" || o.NodePattern == "" || o.Count < 1 {
			return fmt.Errorf("driverName %q, nodes %q, maxClaimsPerNode %d: want a name, a pattern and at least 1",
				o.DriverName, o.NodePattern, o.Count)
		}
	case CreateNodes:
		if o.NodeAllocatableStrategy != nil {
			return errors.New("nodeAllocatableStrategy: not supported")
		}
	}
	return nil
}

// count takes Count from a parameter ("$name", or "$name" under any key of the workload).
func (o *Op) count(params map[string]any, scale float64) error {
	if o.Opcode == CreateDriver {
		o.Count, o.CountParam = o.MaxClaimsPerNode, o.MaxClaimsPerNodeParam
	}
	if o.CountParam != "" {
		value, known := params[strings.TrimPrefix(o.CountParam, "$")]
		number, isNumber := value.(float64) // JSON's
		if !known || !isNumber {
			return fmt.Errorf("countParam %s: the workload gives %v, want a number", o.CountParam, value)
		}
		o.Count = int(number)
	}
	counted := o.Opcode == CreateNodes || o.Opcode == CreatePods
	if counted && o.Count > 0 {
		o.Count = max(1, int(math.Round(float64(o.Count)*scale)))
	}
	return nil
}
