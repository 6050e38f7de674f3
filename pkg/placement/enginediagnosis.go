package placement

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/state"
)

// rejection is the diagnosis of a class that is rejected whatever the nodes are.
func (c *class) rejection(total int) Diagnosis {
	d := Diagnosis{nodesTotal: total, rejection: c.plan.rejected.message, plugins: map[string]struct{}{}}
	for _, name := range c.plan.rejected.plugins {
		d.plugins[name] = struct{}{}
	}
	return d
}

// failure is what some nodes have in common that fail: the rule, and which of its reasons
// or what they lack.
type failure struct {
	verdict int16
	why     uint8
	lacks   uint64
}

// diagnose says why no node passes. It holds until a node moves.
func (c *class) diagnose(e *Engine, total int) Diagnosis {
	if c.diagnosed == e.journal.now && c.diagnosis.nodesTotal == total {
		return c.diagnosis
	}
	d := Diagnosis{nodesTotal: total, reasons: map[string]int32{}, plugins: map[string]struct{}{}}
	for _, name := range c.plan.onlyBy {
		d.plugins[name] = struct{}{}
	}
	examples := map[failure]int{}
	counts := map[failure]int32{}
	fits := c.plan.fits()
	var last failure
	var run int32
	flush := func() { counts[last] += run }
	for slot := range c.verdicts {
		if !c.candidate(slot) {
			continue
		}
		var f failure
		f.verdict, f.why = c.verdict(slot)
		if f.verdict >= 0 && fits[f.verdict] != nil {
			f.lacks = fits[f.verdict].lacks(&e.resources, slot)
		}
		if f == last && run > 0 {
			run++
			continue
		}
		if run > 0 {
			flush()
		}
		last, run = f, 1
		examples[f] = slot
	}
	if run > 0 {
		flush()
	}
	for f, count := range counts {
		if f.verdict >= 0 {
			d.plugins[c.plan.filters[f.verdict].plugin] = struct{}{}
		}
		for _, reason := range c.reasons(e, f, examples[f]) {
			d.reasons[reason] += count
		}
	}
	c.diagnosis, c.diagnosed = d, e.journal.now
	return d
}

// fits finds the fit rule by its index.
func (p *plan) fits() []*fitUse {
	fits := make([]*fitUse, len(p.filters))
	for i := range p.uses {
		if p.uses[i].fit != nil {
			fits[p.uses[i].index] = p.uses[i].fit
		}
	}
	return fits
}

// reasons are what a rule says of the nodes with a failure, of which one is an example.
func (c *class) reasons(e *Engine, f failure, example int) []string {
	if f.verdict == verdictNarrowed {
		return []string{narrowedReason(c.plan.onlyBy)}
	}
	for _, j := range c.wide.judges {
		if c.wide.active && j.index() == f.verdict {
			return []string{j.reason(f.why)}
		}
	}
	for i := range c.plan.uses {
		u := &c.plan.uses[i]
		switch {
		case u.index != f.verdict:
		case u.fit != nil:
			return u.fit.reasons(f.lacks)
		case u.undescribed:
			return []string{affinityReasons[unknownThere]}
		}
	}
	return c.plan.filters[f.verdict].filter.Explain(e.infos[example])
}

// narrowedReason is for nodes that rules said are not worth looking at.
func narrowedReason(by []string) string {
	return fmt.Sprintf("node(s) didn't satisfy plugin(s) %v", by)
}

// sameObjects tells whether what a class took from other objects is what they say now.
func (e *Engine) sameObjects(c *class) bool {
	return string(objectDigest(nil, c.key.profile, c.plan.pod, orNoObjects(e.objects))) == c.digest
}

// objectDigest writes all that plans take from objects besides pods and nodes: the labels
// of the pod's namespace, the namespaces that its terms select, and what it is spread by
// if it does not say.
func objectDigest(b []byte, p *Profile, pod *state.Pod, objects Objects) []byte {
	if r, ok := p.byName[InterPodAffinity]; ok && r.plugin != nil {
		b = appendParty(b, pod, objects)
	}
	r, ok := p.byName[PodTopologySpread]
	if !ok || len(pod.Object.Spec.TopologySpreadConstraints) > 0 {
		return b
	}
	if spread, ok := r.plugin.(topologySpread); ok && len(spread.defaults) > 0 {
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
	for _, list := range [][]state.AffinityTerm{
		pod.Terms.RequiredAffinity, pod.Terms.RequiredAntiAffinity,
		pod.Terms.PreferredAffinity, pod.Terms.PreferredAntiAffinity,
	} {
		for _, t := range party.resolve(list) {
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

// ObjectsMatter tells whether a change of an object that is neither pod nor node can
// change an answer, so that an Engine has to be told by SetObjects.
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
