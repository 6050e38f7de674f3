package engine

import (
	"encoding/binary"
	"maps"
	"slices"
	"strings"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/placement/internal/podaffinity"
	"github.com/berth-scheduler/berth/pkg/placement/internal/spread"
	"github.com/berth-scheduler/berth/pkg/placement/names"
	"github.com/berth-scheduler/berth/pkg/placement/rule"
	"github.com/berth-scheduler/berth/pkg/state"
)

// failure describes a group of nodes that fail alike: the rule, and which of its reasons applies or which
// resources are lacking.
type failure struct {
	verdict int16
	why     uint8
	lacks   uint64
}

// diagnose explains why no node passes. The result is valid until a node changes.
func (c *class) diagnose(e *Engine, total int) placement.Diagnosis {
	if c.told.at == e.columns.Journal.Now && c.told.diagnosis.NodesTotal() == total {
		return c.told.diagnosis
	}
	counts, examples := c.failures(e)
	groups := make([]placement.Group, 0, len(counts))
	for f, count := range counts {
		g := placement.Group{Plugin: strings.Join(c.plan.onlyBy, ","), Reasons: c.reasons(e, f, examples[f]), Nodes: count}
		if f.verdict >= 0 {
			g.Plugin = c.plan.filters[f.verdict].Plugin
		}
		groups = append(groups, g)
	}
	c.told = told{placement.DiagnosisOf(total, c.plan.onlyBy, groups), e.columns.Journal.Now}
	return c.told.diagnosis
}

// failures counts the nodes that fail in the same way, with an example of each.
func (c *class) failures(e *Engine) (counts map[failure]int32, examples map[failure]int) {
	counts, examples = map[failure]int32{}, map[failure]int{}
	fits := c.plan.fits()
	var (
		last failure
		run  int32 // consecutive nodes that fail alike, not yet counted
	)
	for slot := range c.cells {
		if c.cells[slot].verdict == placement.VerdictAbsent {
			continue
		}
		var f failure
		f.verdict, f.why = c.verdict(slot)
		if f.verdict >= 0 && fits[f.verdict] != nil {
			f.lacks = fits[f.verdict].lacks(&e.columns.Resources, slot)
		}
		if run > 0 && f != last {
			counts[last] += run
			run = 0
		}
		if run == 0 {
			examples[f] = slot
		}
		last = f
		run++
	}
	counts[last] += run
	return counts, examples
}

// verdict returns the first rule that rejects a node, including the rules beyond one node, and which of its reasons
// applies.
func (c *class) verdict(slot int) (int16, uint8) {
	v, why := c.cells[slot].verdict, c.cells[slot].why
	if v != c.cells[slot].static {
		why = 0
	}
	if !c.wide.active || v < placement.VerdictPass {
		return v, why
	}
	c.values(slot)
	for i, j := range c.wide.judges {
		index := c.plan.judges[i]
		if v != placement.VerdictPass && index > v {
			break
		}
		if ok, reason := j.passes(c.wide, c.groups.tuple[maxGauges:]); !ok {
			return index, reason
		}
	}
	return v, why
}

// passesWide reports whether the rules beyond one node let a node pass.
func (c *class) passesWide(slot int) bool {
	if !c.wide.active {
		return true
	}
	c.values(slot)
	return c.wide.passes(c.groups.tuple[maxGauges:])
}

// fits returns the fit rules by their index.
func (p *plan) fits() []*fitUse {
	fits := make([]*fitUse, len(p.filters))
	for i := range p.uses {
		if p.uses[i].fit != nil {
			fits[p.uses[i].index] = p.uses[i].fit
		}
	}
	return fits
}

// reasons returns a rule's reasons for the nodes with a failure, of which example is one.
func (c *class) reasons(e *Engine, f failure, example int) []string {
	if f.verdict == placement.VerdictNarrowed {
		return []string{placement.NarrowedReason(c.plan.onlyBy)}
	}
	if c.wide.active {
		switch c.plan.filters[f.verdict].Filter.(type) {
		case *spread.Filter:
			return []string{spread.Reasons[f.why]}
		case *podaffinity.Filter:
			return []string{podaffinity.Reasons[f.why]}
		}
	}
	for i := range c.plan.uses {
		if u := &c.plan.uses[i]; u.index == f.verdict && u.fit != nil {
			return u.fit.reasons(f.lacks)
		}
	}
	return c.plan.filters[f.verdict].Filter.Explain(e.columns.Infos[example])
}

// objectDigest appends everything that plans take from objects other than pods and nodes: the labels of the pod's
// namespace, the namespaces that its terms select, and the default spread selector if the pod has no spread
// constraints.
func objectDigest(b []byte, p *placement.Profile, pod *state.Pod, objects rule.Objects) []byte {
	if _, ok := p.Plugin(names.InterPodAffinity); ok {
		b = appendParty(b, pod, objects)
	}
	plugin, ok := p.Plugin(names.PodTopologySpread)
	if !ok || len(pod.Template.Spec.TopologySpreadConstraints) > 0 {
		return b
	}
	if spreads, ok := plugin.(spread.Plugin); ok && len(spreads.Defaults) > 0 {
		b = rule.AppendPart(b, spread.DefaultSelector(pod, objects).String())
	}
	return b
}

func appendParty(b []byte, pod *state.Pod, objects rule.Objects) []byte {
	party := podaffinity.NewParty(pod, objects)
	if party.Known {
		b = append(b, 1)
	}
	b = appendSorted(b, slices.Collect(maps.Keys(party.NamespaceLabels)), func(key string) string {
		return party.NamespaceLabels[key]
	})
	if pod.Terms == nil {
		return b
	}
	for _, list := range [][]podaffinity.Term{
		party.Resolve(pod.Terms.RequiredAffinity, state.MustMatch),
		party.Resolve(pod.Terms.RequiredAffinity, state.MayMatch),
		party.Resolve(pod.Terms.RequiredAntiAffinity, state.MayMatch),
		party.Resolve(pod.Terms.PreferredAffinity, state.MustMatch),
		party.Resolve(pod.Terms.PreferredAntiAffinity, state.MayMatch),
	} {
		for _, t := range list {
			b = appendSorted(b, slices.Collect(maps.Keys(t.NamespaceSet)), func(string) string { return "" })
		}
	}
	return b
}

func appendSorted(b []byte, keys []string, value func(string) string) []byte {
	slices.Sort(keys)
	b = binary.AppendUvarint(b, uint64(len(keys)))
	for _, key := range keys {
		b = rule.AppendPart(rule.AppendPart(b, key), value(key))
	}
	return b
}

// ObjectsMatter reports whether a change of an object that is neither a pod nor a node can change an answer, so
// that SetObjects must be called on an Engine.
func ObjectsMatter(c state.ObjectChange) bool {
	switch c.Kind {
	case events.KindNamespace:
		return c.Before == nil || c.After == nil || !maps.Equal(c.Before.API.GetLabels(), c.After.API.GetLabels())
	case events.KindService, events.KindReplicationContrl, events.KindReplicaSet, events.KindStatefulSet:
		return true
	default:
		return false
	}
}
