package engine

import (
	"math"
	"slices"

	"github.com/berth-scheduler/berth/pkg/placement/engine/internal/columns"
	"github.com/berth-scheduler/berth/pkg/placement/internal/podaffinity"
	"github.com/berth-scheduler/berth/pkg/placement/rule"
	"github.com/berth-scheduler/berth/pkg/state"
)

// keyTally is the tally of a topology key and the column of that tally, as indexes in the crossNodeState.
type keyTally struct {
	key           string
	tally, column int
}

func newKeyTally(w *crossNodeState, cols *columns.Columns, key string) keyTally {
	t := &columns.Tally{Axis: cols.Axis(key)}
	return keyTally{key, w.newTally(t), w.newColumn(columns.NewColumn(t))}
}

// keyTallies holds one keyTally for each topology key that has been requested. The keys are few, so that a list
// is faster than a map.
type keyTallies []keyTally

// of returns the index of the key's tally, which is created if there is none.
func (list *keyTallies) of(w *crossNodeState, cols *columns.Columns, key string) int {
	for i := range *list {
		if (*list)[i].key == key {
			return (*list)[i].tally
		}
	}
	k := newKeyTally(w, cols, key)
	*list = append(*list, k)
	return k.tally
}

// sum returns the sum of the tally over the domain of the key that contains the nodes.
func (k *keyTally) sum(w *crossNodeState, values []int64) (int64, bool) {
	return w.columns[k.column].Sum(values[k.column])
}

// affinityTallyFilter is podaffinity.Filter computed from tallies. The embedded filter only provides the resolved
// terms of the pod; its counts are not used.
type affinityTallyFilter struct {
	*podaffinity.Filter
	// attracting and repelling have one entry per term of the pod; repelledBy has one per topology key of other
	// pods' terms that match the pod. attracting counts pods that match all terms of the pod, as upstream does: a
	// pod that matches one term only attracts by none.
	attracting, repelling []keyTally
	repelledBy            keyTallies
	// unsure holds, per term of the pod, the tally of pods that may or may not match. It is empty while there are
	// no such pods.
	unsure []int
	// self reports whether the pod matches its own affinity; first, in addition, whether there is no pod that
	// could attract it. Without this exception, the first replica of a Deployment whose pods must be near each
	// other could not be placed.
	self, first bool
}

// newAffinityTallyFilter adds a tally and a column per term of the pod. Tallies for other pods' terms are added
// when such pods appear.
func newAffinityTallyFilter(cols *columns.Columns, w *crossNodeState, f *podaffinity.Filter) *affinityTallyFilter {
	j := &affinityTallyFilter{Filter: f, self: podaffinity.MatchesAll(f.Affinity, f.Pod)}
	for i := range f.Affinity {
		j.attracting = append(j.attracting, newKeyTally(w, cols, f.Affinity[i].TopologyKey))
	}
	for i := range f.AntiAffinity {
		j.repelling = append(j.repelling, newKeyTally(w, cols, f.AntiAffinity[i].TopologyKey))
	}
	return j
}

// relate counts a pod of a kind by the terms of the waiting pod, and by its own required anti-affinity against
// the waiting pod.
func (j *affinityTallyFilter) relate(w *crossNodeState, cols *columns.Columns, k *state.PodClass) {
	switch {
	case podaffinity.AllMatchKind(j.Affinity, k):
		for _, t := range j.attracting {
			w.contribute(t.tally, 1)
		}
	case j.self && podaffinity.AllMatchKind(j.Loose, k):
		j.relateUnsure(w, cols)
	}
	for i := range j.AntiAffinity {
		if j.AntiAffinity[i].MatchesKind(k) {
			w.contribute(j.repelling[i].tally, 1)
		}
	}
	if k.Terms == nil {
		return
	}
	for i := range k.Terms.RequiredAntiAffinity {
		t := &k.Terms.RequiredAntiAffinity[i]
		if j.MatchedBy(t) {
			w.contribute(j.repelledBy.of(w, cols, t.TopologyKey), 1)
		}
	}
}

// relateUnsure counts a pod that may or may not match, because some of its labels were cut when it was stored.
// Such a pod attracts nothing, but it excludes that the waiting pod is the first.
func (j *affinityTallyFilter) relateUnsure(w *crossNodeState, cols *columns.Columns) {
	if j.unsure == nil {
		for i := range j.Affinity {
			j.unsure = append(j.unsure, w.newTally(&columns.Tally{Axis: cols.Axis(j.Affinity[i].TopologyKey)}))
		}
	}
	for _, t := range j.unsure {
		w.contribute(t, 1)
	}
}

// restate does nothing: affinity counts pods on all nodes that have the topology key.
func (*affinityTallyFilter) restate(*crossNodeState, int, *state.NodeInfo) {}

// prepare determines whether the pod would be the first of its kind: no pod in the cluster could attract it.
func (j *affinityTallyFilter) prepare(w *crossNodeState, _ *columns.Columns) {
	j.first = j.self
	for _, t := range j.attracting {
		j.first = j.first && w.tallies[t.tally].Total == 0
	}
	for _, t := range j.unsure {
		j.first = j.first && w.tallies[t].Total == 0
	}
}

// passes returns the first reason in upstream's order: the pod's affinity, its anti-affinity, that of other pods.
func (j *affinityTallyFilter) passes(w *crossNodeState, values []int64) (bool, uint8) {
	if !j.attracts(w, values) {
		return false, podaffinity.Unattracted
	}
	for i := range j.repelling {
		if sum, _ := j.repelling[i].sum(w, values); sum > 0 {
			return false, podaffinity.Repels
		}
	}
	for i := range j.repelledBy {
		if sum, _ := j.repelledBy[i].sum(w, values); sum > 0 {
			return false, podaffinity.Repelled
		}
	}
	return true, 0
}

// attracts is podaffinity.Filter.Attracts computed from tallies.
func (j *affinityTallyFilter) attracts(w *crossNodeState, values []int64) bool {
	drawn := true
	for i := range j.attracting {
		sum, ok := j.attracting[i].sum(w, values)
		if !ok {
			return false
		}
		drawn = drawn && sum > 0
	}
	return drawn || j.first
}

// affinityTallyScorer is podaffinity.Scorer computed from tallies. There is one tally per topology key, in which
// terms of both sides add their weights; the raw score of a node is the sum over its domains of all keys.
type affinityTallyScorer struct {
	*podaffinity.Scorer
	weight int64
	keys   keyTallies
}

// relate adds the weights of the waiting pod's preferred terms that match a pod of the kind, and of the kind's
// terms that match the waiting pod. A term of required affinity counts with the profile's hardPodAffinityWeight.
func (r *affinityTallyScorer) relate(w *crossNodeState, cols *columns.Columns, k *state.PodClass) {
	add := func(key string, weight int64) { w.contribute(r.keys.of(w, cols, key), int32(weight)) }
	for i := range r.Attracted {
		if t := &r.Attracted[i]; t.MatchesKind(k) {
			add(t.TopologyKey, int64(t.Weight))
		}
	}
	for i := range r.Repelled {
		if t := &r.Repelled[i]; t.MatchesKind(k) {
			add(t.TopologyKey, -int64(t.Weight))
		}
	}
	if k.Terms == nil {
		return
	}
	theirs := func(terms []state.AffinityTerm, weigh func(*state.AffinityTerm) int64) {
		for i := range terms {
			if weight := weigh(&terms[i]); weight != 0 && r.MatchedBy(&terms[i]) {
				add(terms[i].TopologyKey, weight)
			}
		}
	}
	theirs(k.Terms.RequiredAffinity, func(*state.AffinityTerm) int64 { return r.HardWeight })
	theirs(k.Terms.PreferredAffinity, func(t *state.AffinityTerm) int64 { return int64(t.Weight) })
	theirs(k.Terms.PreferredAntiAffinity, func(t *state.AffinityTerm) int64 { return -int64(t.Weight) })
}

func (*affinityTallyScorer) restate(*crossNodeState, int, *state.NodeInfo) {}

// rate scales the sums as podaffinity.Scorer.Normalize does: between the lowest and the highest of the feasible
// nodes. The order of the floating-point operations is the same, so that rounding is.
func (r *affinityTallyScorer) rate(w *crossNodeState, g *groups, list *groupList) {
	low, high := int64(math.MaxInt64), int64(math.MinInt64)
	for i := range list.ids {
		values := list.crossNodeValues(g, i)
		list.raw[i] = 0
		for k := range r.keys {
			sum, _ := r.keys[k].sum(w, values)
			list.raw[i] += sum
		}
		low, high = min(low, list.raw[i]), max(high, list.raw[i])
	}
	if low == high {
		return // all nodes score the same: MinScore
	}
	for i, raw := range list.raw {
		share := float64(raw-low) / float64(high-low)
		list.sums[i] += r.weight * int64(float64(rule.MaxScore)*share)
	}
}

// sways reports whether terms of pods on nodes give points to the pods of the state anywhere, or take some.
func (w *crossNodeState) sways() bool {
	for _, s := range w.scorers {
		r, affinity := s.(*affinityTallyScorer)
		if affinity && slices.ContainsFunc(r.keys, func(k keyTally) bool { return !w.tallies[k.tally].Flat() }) {
			return w.active
		}
	}
	return false
}
