package engine

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

// classOf returns the class of a pod, and creates it if necessary. home restricts the class to home nodes. It
// looks the pod up by the identity of its parts first, and by its contents after that. An error means that the
// pod cannot be written as a signature.
func (e *Engine) classOf(p *placement.Profile, pod *state.Pod, home bool) (*class, error) {
	key, brief := keyOf(p, pod, home)
	if entry, ok := e.cache.byPod[key]; ok && brief && e.isReusable(entry, pod) {
		e.cache.use(entry)
		return entry.class, nil
	}
	entry, err := e.find(p, pod, home)
	if err != nil {
		return nil, err
	}
	if brief {
		e.cache.addShortcut(key, entry)
	}
	return entry.class, nil
}

// isReusable reports whether everything that a class was made from is still valid.
func (e *Engine) isReusable(entry *cached, pod *state.Pod) bool {
	return entry.basis == e.basis() && e.isCurrent(entry.crossNode, pod)
}

// find is classOf based on the contents of the pod. A class that is out of date is dropped, and its arrays serve
// the new one. The new class shares the crossNodeState of another class if there is a valid one.
func (e *Engine) find(p *placement.Profile, pod *state.Pod, home bool) (*cached, error) {
	shape, wideLen, err := e.sign.Of(pod)
	if err != nil {
		return nil, err
	}
	if entry, ok := e.cache.byKey[classKey{p, pod.Kind, home, string(shape)}]; ok {
		if e.isReusable(entry, pod) {
			e.cache.use(entry)
			return entry, nil
		}
		e.cache.drop(entry)
	}
	c := e.cache.emptyClass(classKey{p, pod.Kind, home, string(shape)})
	c.basis = e.basis()
	c.crossNode = e.cache.crossNodes[crossNodeKey{p, pod.Kind, string(shape[:wideLen])}]
	if c.crossNode != nil && e.isCurrent(c.crossNode, pod) {
		c.plan = newPlan(e, c, pod, nil)
	} else {
		c.crossNode = e.newCrossNode(crossNodeKey{p, pod.Kind, string(shape[:wideLen])}, pod)
		c.plan = newPlan(e, c, pod, c.crossNode)
		if c.plan.err != nil || c.plan.rejected != nil || c.plan.uncompiled {
			// Not all rules have been compiled into it, so that other classes must not share it.
			delete(e.cache.crossNodes, c.crossNode.key) // not all rules have been compiled into it
		}
	}
	c.crossNode.users++
	c.id, c.refused = classID(c.key, pod), make([]int32, len(c.plan.filters))
	return e.cache.add(c), nil
}

// basis returns the current versions of what plans depend on.
func (e *Engine) basis() basis { return basis{e.columns.Resources.Version, e.epoch} }

// newCrossNode creates a crossNodeState without rules and replaces one that is out of date. Classes that use the
// old one keep it until they are dropped.
func (e *Engine) newCrossNode(key crossNodeKey, pod *state.Pod) *crossNodeState {
	w := &crossNodeState{key: key}
	w.basis = crossNodeBasis{e.version, e.epoch, e.digest(w, pod)}
	e.cache.crossNodes[key] = w
	return w
}

// digest returns the contents of the objects that the rules about other pods use for the pod.
func (e *Engine) digest(w *crossNodeState, pod *state.Pod) string {
	return string(objectDigest(nil, w.key.profile, pod, rule.OrNone(e.objects)))
}

// isCurrent reports whether everything that a crossNodeState was made from is still valid. It mostly is when
// objects have changed: a cluster with many services changes one of them every few seconds, and nearly all
// classes depend on none or on another one. Comparing a digest of the objects that matter costs less than making
// the state again.
func (e *Engine) isCurrent(w *crossNodeState, pod *state.Pod) bool {
	if w.basis.epoch != e.epoch || !w.columnsFit() {
		return false
	}
	if w.basis.objects != e.version {
		if e.digest(w, pod) != w.basis.digest {
			return false
		}
		w.basis.objects = e.version
	}
	return true
}

// objectDigest appends everything that plans take from objects other than pods and nodes: the labels of the pod's
// namespace, the namespaces that its terms select, and the default spread selector if the pod has no spread
// constraints. A rule that reads another object must be added here, or classes keep results that are out of date.
func objectDigest(b []byte, p *placement.Profile, pod *state.Pod, objects rule.Objects) []byte {
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

// classID returns Result.Class: a hash of everything that distinguishes pods, without any value specific to this
// process, such as a pointer or a number assigned by this engine. Records of several shards can be grouped by it.
func classID(key classKey, pod *state.Pod) uint64 {
	d := xxhash.New()
	part := func(text string) {
		_, _ = d.WriteString(text) // a hash never fails
		_, _ = d.WriteString("\x00")
	}
	part(key.profile.SchedulerName())
	part(key.shape)
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
