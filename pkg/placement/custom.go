package placement

import (
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/berth-scheduler/berth/pkg/placement/rule"
	"github.com/berth-scheduler/berth/pkg/state"
)

// Custom holds the plugins of a profile that users have written against k8s.io/kube-scheduler/framework and
// compiled into a program of their own. They are called outside of this package, as extenders are.
type Custom struct {
	// Points lists the plugins that the file enables at each extension point, in the file's spelling ("preFilter"),
	// in the order in which they run. A plugin of multiPoint is listed at every point: at which of them it acts is
	// known only where it is created.
	Points map[string][]CustomPlugin
	// Binder is the position of DefaultBinder at "bind": only that many plugins come before it, and only those are
	// called. NoBinder means that it is disabled, and that all are called.
	Binder   int  `json:",omitempty"`
	NoBinder bool `json:",omitempty"`
	// Args holds arguments by plugin, as upstream passes them: a *runtime.Unknown with JSON. Plugins without
	// arguments may be missing.
	Args map[string]runtime.Object `json:",omitempty"`
}

// CustomPlugin is one plugin at one point. Weight counts only at "score", and is at least 1.
type CustomPlugin struct {
	Name   string
	Weight int32
}

// Keys of Custom.Points, in the order in which a pod passes them. Source: the fields of Plugins in
// k8s.io/kube-scheduler/config/v1.
const (
	AtPreEnqueue = "preEnqueue"
	AtPreFilter  = "preFilter"
	AtFilter     = "filter"
	AtPostFilter = "postFilter"
	AtPreScore   = "preScore"
	AtScore      = "score"
	AtReserve    = "reserve"
	AtPermit     = "permit"
	AtPreBind    = "preBind"
	AtBind       = "bind"
	AtPostBind   = "postBind"
)

// Binding returns the plugins that are called to bind.
func (c *Custom) Binding() []CustomPlugin {
	all := c.Points[AtBind]
	if c.NoBinder {
		return all
	}
	return all[:min(c.Binder, len(all))]
}

// Guidance is the result of the custom plugins for a pod before nodes are evaluated (upstream's PreFilter).
type Guidance struct {
	// Only holds the node names to which plugins restrict the search, in the order in which the plugins were
	// called.
	Only []Narrowed
	// Rejection, if Plugin is not empty, rejects the pod on all nodes, with that plugin's message.
	Plugin, Rejection string
	// Resolvable reports whether the eviction of pods could change the rejection (upstream's Unschedulable).
	Resolvable bool
}

// Narrowed holds the only nodes that a plugin allows.
type Narrowed struct {
	Plugin string
	Nodes  []string
}

// decides reports whether any plugin influences whether and where pods are placed, or runs before or after that.
func (c *Custom) decides() bool {
	if c == nil {
		return false
	}
	for _, plugins := range c.Points {
		if len(plugins) > 0 {
			return true
		}
	}
	return false
}

// scores reports whether any of the plugins scores nodes.
func (c *Custom) scores() bool { return c != nil && len(c.Points[AtScore]) > 0 }

// Hints decide which changes wake pods that custom plugins have rejected; rules have their own hints.
// Implementations must be safe for concurrent use. Source: EnqueueExtensions in k8s.io/kube-scheduler/framework.
type Hints interface {
	// Events lists the events that a plugin listens to; known is false for a plugin that listens to everything,
	// and for a name that is not a plugin's.
	Events(plugin string) (list []rule.Event, known bool)
	// Helps reports whether a change of a kind that Events lists could turn the plugin's rejection of a pod into a
	// pass. It is called for every such change and every pod that waits for the plugin, and has to be fast.
	Helps(plugin string, pod *state.Pod, c rule.Change) bool
}
