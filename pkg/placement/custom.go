package placement

import (
	"k8s.io/apimachinery/pkg/runtime"
)

// Custom are the plugins of a profile that users have written against k8s.io/kube-scheduler/framework and
// compiled into a program of their own. They are asked outside, as extenders are.
type Custom struct {
	// Points lists the plugins that the file enables at each extension point, in the file's spelling
	// ("preFilter"), in the order in which they run. A plugin of multiPoint is listed at all of them: at
	// which it acts is known where it is made.
	Points map[string][]CustomPlugin
	// Binder is where DefaultBinder stands at "bind": so many of the plugins there come before it, and only those are
	// asked. NoBinder: it is disabled, and all are.
	Binder   int  `json:",omitempty"`
	NoBinder bool `json:",omitempty"`
	// Args by plugin, as upstream gives them: a *runtime.Unknown with JSON. Plugins without may be missing.
	Args map[string]runtime.Object `json:",omitempty"`
}

// CustomPlugin is one of them at one point. Weight counts at "score" alone, and is at least 1.
type CustomPlugin struct {
	Name   string
	Weight int32
}

// Keys of Custom.Points, in the order in which a pod meets them. Source: the fields of Plugins in
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

// Binding are the plugins that are asked to bind.
func (c *Custom) Binding() []CustomPlugin {
	all := c.Points[AtBind]
	if c.NoBinder {
		return all
	}
	return all[:min(c.Binder, len(all))]
}

// Guidance is what custom plugins say of a pod before nodes are looked at (upstream's PreFilter).
type Guidance struct {
	// Only are the nodes that plugins find worth looking at, by their names, in the order in which the
	// plugins were asked.
	Only []Narrowed
	// Rejection, if Plugin is not empty, rejects the pod on all nodes, in that plugin's words.
	Plugin, Rejection string
	// Resolvable: it might not, if pods left (upstream's Unschedulable).
	Resolvable bool
}

// Narrowed are the only nodes that a plugin finds worth looking at.
type Narrowed struct {
	Plugin string
	Nodes  []string
}

// decides tells whether any plugin has a say in whether and where pods go, or in what happens before or after.
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

func (c *Custom) scores() bool { return c != nil && len(c.Points[AtScore]) > 0 }

// Custom tells whether the profile has custom plugins.
func (p *Profile) Custom() bool { return p.custom != nil }

// Guided tells whether custom plugins are asked about a pod before nodes are looked at: also where no node
// passes the rules.
func (p *Profile) Guided() bool { return p.custom != nil && len(p.custom.Points[AtPreFilter]) > 0 }

// heedGuidance takes in what custom plugins say of the pod: after the rules, as upstream's default plugins
// come before those that a file adds.
func (e *evaluation) heedGuidance() {
	if e.Guidance == nil {
		return
	}
	for _, n := range e.Guidance.Only {
		e.narrow(n.Plugin, n.Nodes)
		if len(e.only) == 0 {
			e.rejected = &rejection{message: e.narrowedToNothing(), plugins: e.onlyBy}
			return
		}
	}
	if e.Guidance.Plugin != "" {
		e.rejected = &rejection{
			message: e.Guidance.Rejection, plugins: []string{e.Guidance.Plugin}, resolvable: e.Guidance.Resolvable,
		}
	}
}
