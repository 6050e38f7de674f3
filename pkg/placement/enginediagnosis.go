package placement

import (
	"encoding/binary"
	"maps"
	"slices"
	"strings"

	"github.com/berth-scheduler/berth/pkg/events"
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
func (c *class) diagnose(e *Engine, total int) Diagnosis {
	if c.told.at == e.columns.journal.now && c.told.diagnosis.NodesTotal() == total {
		return c.told.diagnosis
	}
	counts, examples := c.failures(e)
	groups := make([]Group, 0, len(counts))
	for f, count := range counts {
		g := Group{Plugin: strings.Join(c.plan.onlyBy, ","), Reasons: c.reasons(e, f, examples[f]), Nodes: count}
		if f.verdict >= 0 {
			g.Plugin = c.plan.filters[f.verdict].plugin
		}
		groups = append(groups, g)
	}
	c.told = told{diagnosisOf(total, c.plan.onlyBy, groups), e.columns.journal.now}
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
		if c.cells[slot].verdict == verdictAbsent {
			continue
		}
		var f failure
		f.verdict, f.why = c.verdict(slot)
		if f.verdict >= 0 && fits[f.verdict] != nil {
			f.lacks = fits[f.verdict].lacks(&e.columns.resources, slot)
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
	if !c.wide.active || v < verdictPass {
		return v, why
	}
	c.values(slot)
	for i, j := range c.wide.judges {
		index := c.plan.judges[i]
		if v != verdictPass && index > v {
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
	if f.verdict == verdictNarrowed {
		return []string{narrowedReason(c.plan.onlyBy)}
	}
	if c.wide.active {
		switch c.plan.filters[f.verdict].filter.(type) {
		case *spreadFilter:
			return []string{spreadReasons[f.why]}
		case *podAffinityFilter:
			return []string{affinityReasons[f.why]}
		}
	}
	for i := range c.plan.uses {
		if u := &c.plan.uses[i]; u.index == f.verdict && u.fit != nil {
			return u.fit.reasons(f.lacks)
		}
	}
	return c.plan.filters[f.verdict].filter.Explain(e.columns.infos[example])
}

// objectDigest appends everything that plans take from objects other than pods and nodes: the labels of the pod's
// namespace, the namespaces that its terms select, and the default spread selector if the pod has no spread
// constraints.
func objectDigest(b []byte, p *Profile, pod *state.Pod, objects Objects) []byte {
	if _, ok := p.plugin(InterPodAffinity); ok {
		b = appendParty(b, pod, objects)
	}
	plugin, ok := p.plugin(PodTopologySpread)
	if !ok || len(pod.Template.Spec.TopologySpreadConstraints) > 0 {
		return b
	}
	if spreads, ok := plugin.(topologySpread); ok && len(spreads.defaults) > 0 {
		b = appendPart(b, defaultSelector(pod, objects).String())
	}
	return b
}

func appendParty(b []byte, pod *state.Pod, objects Objects) []byte {
	party := newParty(pod, objects)
	if party.known {
		b = append(b, 1)
	}
	b = appendSorted(b, slices.Collect(maps.Keys(party.namespaceLabels)), func(key string) string {
		return party.namespaceLabels[key]
	})
	if pod.Terms == nil {
		return b
	}
	for _, list := range [][]ownTerm{
		party.resolve(pod.Terms.RequiredAffinity, state.MustMatch),
		party.resolve(pod.Terms.RequiredAffinity, state.MayMatch),
		party.resolve(pod.Terms.RequiredAntiAffinity, state.MayMatch),
		party.resolve(pod.Terms.PreferredAffinity, state.MustMatch),
		party.resolve(pod.Terms.PreferredAntiAffinity, state.MayMatch),
	} {
		for _, t := range list {
			b = appendSorted(b, slices.Collect(maps.Keys(t.namespaces)), func(string) string { return "" })
		}
	}
	return b
}

func appendSorted(b []byte, keys []string, value func(string) string) []byte {
	slices.Sort(keys)
	b = binary.AppendUvarint(b, uint64(len(keys)))
	for _, key := range keys {
		b = appendPart(appendPart(b, key), value(key))
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
