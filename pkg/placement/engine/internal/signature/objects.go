package signature

import (
	"encoding/binary"
	"maps"
	"slices"

	"github.com/cespare/xxhash/v2"

	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/placement/internal/podaffinity"
	"github.com/berth-scheduler/berth/pkg/placement/internal/spread"
	"github.com/berth-scheduler/berth/pkg/placement/names"
	"github.com/berth-scheduler/berth/pkg/placement/rule"
	"github.com/berth-scheduler/berth/pkg/state"
)

// Objects appends to b everything that rules take from objects other than pods and nodes: the labels of the pod's
// namespace, the namespaces that its terms select, and the default spread selector if the pod has no spread
// constraints. A rule that reads another object must be added here, or the engine keeps results that are out of
// date.
func Objects(b []byte, p *placement.Profile, pod *state.Pod, objects rule.Objects) []byte {
	if _, ok := p.Rule(names.InterPodAffinity); ok {
		b = appendParty(b, pod, objects)
	}
	plugin, ok := p.Rule(names.PodTopologySpread)
	if !ok || len(pod.Template.Spec.TopologySpreadConstraints) > 0 {
		return b
	}
	if spreads, ok := plugin.(spread.Plugin); ok && len(spreads.Defaults) > 0 {
		b = rule.AppendPart(b, spread.DefaultSelector(pod, objects).String())
	}
	return b
}

// appendParty appends what inter-pod affinity reads of namespaces: the labels of the pod's own, and the names of
// those that its terms resolve to.
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

// appendSorted appends the entries of a map in the order of the keys, so that equal maps give equal bytes.
func appendSorted(b []byte, keys []string, value func(string) string) []byte {
	slices.Sort(keys)
	b = binary.AppendUvarint(b, uint64(len(keys)))
	for _, key := range keys {
		b = rule.AppendPart(rule.AppendPart(b, key), value(key))
	}
	return b
}

// ID returns placement.Result.Class: a hash of everything that distinguishes pods of a profile, without any value
// specific to this process, such as a pointer or a number assigned by an engine. Records of several shards can be
// grouped by it. shape is the signature of the pod. It is never 0.
func ID(profile *placement.Profile, shape string, pod *state.Pod) uint64 {
	d := xxhash.New()
	part := func(text string) {
		_, _ = d.WriteString(text) // a hash never fails
		_, _ = d.WriteString("\x00")
	}
	part(profile.SchedulerName())
	part(shape)
	part(pod.Namespace)
	for _, name := range slices.Sorted(maps.Keys(pod.Template.Labels)) {
		part(name)
		part(pod.Template.Labels[name])
	}
	if a := pod.Template.Spec.Affinity; a != nil && a.PodAffinity != nil {
		part(rule.BytesOf(pod, a.PodAffinity))
	}
	if a := pod.Template.Spec.Affinity; a != nil && a.PodAntiAffinity != nil {
		part(rule.BytesOf(pod, a.PodAntiAffinity))
	}
	return max(d.Sum64(), 1) // 0 means unknown
}
