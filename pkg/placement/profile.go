package placement

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/cespare/xxhash/v2"
	"k8s.io/apimachinery/pkg/runtime"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/berth-scheduler/berth/pkg/placement/gang"
	"github.com/berth-scheduler/berth/pkg/placement/internal/nodes"
	"github.com/berth-scheduler/berth/pkg/placement/names"
	"github.com/berth-scheduler/berth/pkg/placement/rule"
	"github.com/berth-scheduler/berth/pkg/state"
)

// Points is the set of extension points at which a rule is enabled.
type Points uint8

// The extension points that decide; points that act (Reserve, Bind and others) are other services' part.
const (
	// Filtering lets the rule reject nodes one by one (upstream's Filter).
	Filtering Points = 1 << iota
	// Scoring lets the rule contribute to the score (upstream's PreScore and Score).
	Scoring
	// Narrowing lets the rule reject the pod on all nodes, or name the only nodes to evaluate (upstream's
	// PreFilter).
	Narrowing

	allPoints = Filtering | Scoring | Narrowing
)

func (p Points) has(q Points) bool { return p&q != 0 }

// ProfileConfig is one scheduling profile.
type ProfileConfig struct {
	// SchedulerName is the name in spec.schedulerName of the pods that the profile places.
	SchedulerName string
	// Plugins holds the enabled rules in the order in which they filter nodes.
	Plugins []PluginConfig
	// PercentageOfNodesToScore is the percentage of the nodes that is enough to find feasible: the search ends
	// there, and the best of them wins. 0 (the default) means all nodes; see SampleSize for small clusters. A
	// sampling profile may miss the best node, and its result depends on where the search starts (Input.Start).
	PercentageOfNodesToScore int32
	// Preemption configures how its pods preempt, if DefaultPreemption is among the plugins.
	Preemption PreemptionConfig
	// HomeNodesFirst is when a shard tries its home nodes before all others; empty leaves it to the shard's configuration.
	HomeNodesFirst HomePolicy `json:",omitempty"`
	// Extenders are called for the profile's pods over HTTP, in the order of the configuration. Their results are
	// passed with each query (Input.Opinions).
	Extenders []configv1.Extender `json:",omitempty"`
	// Custom holds the plugins that are not rules of this package, nil for none. Their results are passed like
	// those of extenders.
	Custom *Custom `json:",omitempty"`
}

// PluginConfig enables one rule.
type PluginConfig struct {
	// Name is upstream's plugin name.
	Name string
	// Weight is the weight of the rule's score in the total; 0 counts as 1.
	Weight int32
	// Points are the points at which the rule is enabled; 0 means all that it implements.
	Points Points
	// Args holds the rule's arguments, a type of k8s.io/kube-scheduler/config/v1 such as *NodeResourcesFitArgs; nil
	// for the defaults.
	Args runtime.Object
}

// Profile is a compiled ProfileConfig. It is immutable and safe for concurrent use.
type Profile struct {
	schedulerName string
	rules         []enabledPlugin
	byName        map[string]enabledPlugin
	// percentage is the percentage of nodes to score. scores reports whether any rule, custom plugin or extender
	// can score feasible nodes differently.
	percentage int32
	scores     bool
	// weights is the sum of all weights.
	weights    int64
	preemption PreemptionRules
	homeFirst  HomePolicy
	extenders  []configv1.Extender // in the order in which they are called
	custom     *Custom
	hints      Hints // nil: it is unknown what custom plugins listen to
	// hash identifies the configuration; see Hash.
	hash uint64
}

// enabledPlugin is one plugin of a profile, with its weight (at least 1) and the points at which it is enabled.
type enabledPlugin struct {
	plugin rule.Plugin
	weight int64
	points Points
}

// enabled removes from c what belongs to points at which the rule is not enabled.
func (r enabledPlugin) enabled(c rule.Compiled) rule.Compiled {
	if !r.points.has(Narrowing) {
		c.Rejection, c.OnlyNodes = "", nil
	}
	if !r.points.has(Filtering) {
		c.Filter = nil
	}
	if !r.points.has(Scoring) {
		c.Scorer = nil
		c.ScorerErr = nil
		c.Normalize = nil
	}
	return c
}

// Rule returns a rule of the profile by its name; false if the profile does not have it.
func (p *Profile) Rule(name string) (rule.Plugin, bool) {
	r, ok := p.byName[name]
	return r.plugin, ok
}

// CompilePlugin compiles one rule for a pod as Evaluate does; a rule that the profile does not have does not apply.
func (p *Profile) CompilePlugin(name string, pod *state.Pod, objects rule.Objects) (rule.Compiled, error) {
	r, ok := p.byName[name]
	if !ok {
		return rule.Compiled{}, nil
	}
	c, err := r.plugin.Compile(pod, objects)
	if err != nil && r.points.has(Narrowing) {
		return rule.Compiled{}, fmt.Errorf("placement: plugin %s: %w", name, err)
	}
	return r.enabled(c), nil
}

// TotalWeight returns the sum of the weights of all rules.
func (p *Profile) TotalWeight() int64 { return p.weights }

// PreemptionRules returns how the profile's pods preempt. It is shared and must not be changed.
func (p *Profile) PreemptionRules() *PreemptionRules { return &p.preemption }

// NewProfile compiles a profile. The error names every plugin that is wrong and why, not only the first.
//
// Two rules are added if the configuration does not enable them, in a form that rejects only what must never
// pass: closed nodes, and pods of a pod group, which this version cannot place.
func NewProfile(cfg ProfileConfig) (*Profile, error) {
	var errs []error
	if cfg.SchedulerName == "" {
		errs = append(errs, errors.New("placement: schedulerName is empty, want the name pods use"))
	}
	if cfg.PercentageOfNodesToScore < 0 || cfg.PercentageOfNodesToScore > maxPercent {
		errs = append(errs, fmt.Errorf("placement: profile %s: percentageOfNodesToScore is %d, want 0 (all) to %d",
			cfg.SchedulerName, cfg.PercentageOfNodesToScore, maxPercent))
	}
	if err := cfg.HomeNodesFirst.check(); err != nil {
		errs = append(errs, fmt.Errorf("placement: profile %s: %w", cfg.SchedulerName, err))
	}
	p := &Profile{
		schedulerName: cfg.SchedulerName,
		byName:        map[string]enabledPlugin{},
		percentage:    cfg.PercentageOfNodesToScore,
		homeFirst:     cfg.HomeNodesFirst,
		extenders:     OrderedExtenders(cfg.Extenders),
		custom:        cfg.Custom,
		scores:        slices.ContainsFunc(cfg.Extenders, ranksByExtender) || cfg.Custom.scores(),
	}
	var err error
	if p.preemption, err = newPreemptionRules(cfg.Preemption); err != nil {
		errs = append(errs, fmt.Errorf("placement: profile %s: %w", cfg.SchedulerName, err))
	}
	known := registry()
	for i, c := range cfg.Plugins {
		field := fmt.Sprintf("placement: profile %s: plugins[%d] %s", cfg.SchedulerName, i, c.Name)
		r, err := newRule(known, c)
		if c.Name == names.DefaultPreemption && err == nil {
			err = p.preemption.limit(c.Args)
		}
		switch _, twice := p.byName[c.Name]; {
		case err != nil:
			errs = append(errs, fmt.Errorf("%s: %w", field, err))
		case twice:
			errs = append(errs, fmt.Errorf("%s: is enabled twice, want once", field))
		default:
			p.add(r)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if p.hash, err = hashOf(cfg); err != nil {
		return nil, err
	}
	// A node that was too large for the log is known only in part: no profile may use it.
	if _, ok := p.byName[names.NodeUnschedulable]; !ok {
		p.add(enabledPlugin{plugin: nodes.Unschedulable{ClosedOnly: true}, weight: 1, points: Filtering})
	}
	// A group of pods is waited for, whatever the file enables.
	if _, ok := p.byName[names.GangScheduling]; !ok {
		p.add(enabledPlugin{plugin: gang.Plugin{}, weight: 1, points: Narrowing})
	}
	return p, nil
}

// newRule creates the plugin that an entry enables, and applies the defaults of the entry.
func newRule(known map[string]factory, c PluginConfig) (enabledPlugin, error) {
	create, ok := known[c.Name]
	if !ok {
		return enabledPlugin{}, fmt.Errorf("is unknown, want one of %s", strings.Join(slices.Sorted(maps.Keys(known)), ", "))
	}
	if c.Weight < 0 {
		return enabledPlugin{}, fmt.Errorf("weight is %d, want 0 or more", c.Weight)
	}
	plugin, err := create(c.Args)
	if err != nil {
		return enabledPlugin{}, err
	}
	r := enabledPlugin{plugin: plugin, weight: max(int64(c.Weight), 1), points: c.Points}
	if r.points == 0 {
		r.points = allPoints
	}
	return r, nil
}

// add appends a rule. It also keeps the sums that SampleSize and the engine need.
func (p *Profile) add(r enabledPlugin) {
	p.rules = append(p.rules, r)
	p.byName[r.plugin.Name()] = r
	p.scores = p.scores || r.points.has(Scoring) && canScore(r.plugin.Name())
	p.weights += r.weight
}

// hashOf returns a hash that identifies a configuration, in any process. The credentials for extenders are left
// out: they affect no decision, and a bundle (berth export) has none.
func hashOf(cfg ProfileConfig) (uint64, error) {
	cfg.Extenders = slices.Clone(cfg.Extenders)
	for i := range cfg.Extenders {
		e := &cfg.Extenders[i]
		e.TLSConfig = nil
		if address, err := url.Parse(e.URLPrefix); err == nil && address.User != nil {
			address.User = nil
			e.URLPrefix = address.String()
		}
	}
	text, err := json.Marshal(cfg)
	if err != nil {
		return 0, fmt.Errorf("placement: profile %s: %w", cfg.SchedulerName, err)
	}
	return xxhash.Sum64(text), nil
}

// Hash returns the same value for profiles with equal configurations, in all processes of one version of Berth.
// Decisions under different configurations are not comparable.
func (p *Profile) Hash() uint64 { return p.hash }

// SchedulerName returns what pods name in spec.schedulerName.
func (p *Profile) SchedulerName() string { return p.schedulerName }

// Custom reports whether the profile has custom plugins.
func (p *Profile) Custom() bool { return p.custom != nil }

// Guided reports whether custom plugins are called for a pod before nodes are evaluated, even where no node passes
// the rules.
func (p *Profile) Guided() bool { return p.custom != nil && len(p.custom.Points[AtPreFilter]) > 0 }

// ShowsObjects reports whether pods and nodes are shown to extenders or custom plugins, which may read fields that
// no rule reads.
func (c ProfileConfig) ShowsObjects() bool { return len(c.Extenders) > 0 || c.Custom != nil }

// Extended reports whether custom plugins or extenders influence where a pod may be placed. A node is then chosen
// among those that have an Opinion.
func (p *Profile) Extended(pod *state.Pod) bool {
	return p.custom.decides() || slices.ContainsFunc(p.extenders, func(e configv1.Extender) bool {
		return ranksByExtender(e) && Interested(e, pod)
	})
}

// AdvisedOnVictims reports whether extenders are asked which pods may be evicted for a pod: those with a
// preemptVerb about nodes and victims, those with only a filterVerb about the nodes.
func (p *Profile) AdvisedOnVictims(pod *state.Pod) bool {
	return slices.ContainsFunc(p.extenders, func(e configv1.Extender) bool {
		return (e.PreemptVerb != "" || e.FilterVerb != "") && Interested(e, pod)
	})
}

// FilteredByExtenders reports whether an extender has to accept a node before the pod may be placed there.
func (p *Profile) FilteredByExtenders(pod *state.Pod) bool {
	return slices.ContainsFunc(p.extenders, func(e configv1.Extender) bool {
		return e.FilterVerb != "" && Interested(e, pod)
	})
}
