package placement

import (
	"math"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/berth-scheduler/berth/pkg/state"
)

// speaksOf is matches for pods of a kind.
func (t *ownTerm) speaksOf(k *state.Kind) bool {
	if !t.everywhere {
		if _, ok := t.namespaces[k.Namespace]; !ok {
			return false
		}
	}
	return t.Selector.Matches(labels.Set(k.Labels))
}

// speakOf is matchesAll for pods of a kind.
func speakOf(terms []ownTerm, k *state.Kind) bool {
	for i := range terms {
		if !terms[i].speaksOf(k) {
			return false
		}
	}
	return len(terms) > 0
}

// affinityJudge is podAffinityFilter over tallies.
type affinityJudge struct {
	*podAffinityFilter
	at int16
	// attracting and repelling are tallies per own term, repelledBy per key of the terms of
	// others that speak of the pod.
	attracting, repelling []int
	repelledBy            []keyTally
	// reach counts terms of others that reach beyond a node, or might.
	reach int
	// self: the pod matches its own affinity; first: and there is no pod to be drawn to.
	self, first bool
	// refused: see podAffinityFilter.Survey.
	refused bool
}

type keyTally struct {
	key   string
	tally int
}

// tallyFor returns the tally of a key, a new one if there is none.
func tallyFor(w *wide, e *Engine, list []keyTally, key string) ([]keyTally, int) {
	for _, k := range list {
		if k.key == key {
			return list, k.tally
		}
	}
	number := w.newTally(&tally{axis: e.axis(key)})
	return append(list, keyTally{key, number}), number
}

func newAffinityJudge(e *Engine, w *wide, index int16, f *podAffinityFilter) *affinityJudge {
	j := &affinityJudge{podAffinityFilter: f, at: index, self: matchesAll(f.affinity, f.pod)}
	for i := range f.affinity {
		j.attracting = append(j.attracting, w.newTally(&tally{axis: e.axis(f.affinity[i].TopologyKey)}))
	}
	for i := range f.antiAffinity {
		j.repelling = append(j.repelling, w.newTally(&tally{axis: e.axis(f.antiAffinity[i].TopologyKey)}))
	}
	j.reach = w.newTally(&tally{})
	return j
}

func (j *affinityJudge) index() int16 { return j.at }

func (j *affinityJudge) reason(why uint8) string { return affinityReasons[why] }

func (j *affinityJudge) relate(w *wide, e *Engine, k *state.Kind) {
	if speakOf(j.affinity, k) {
		for _, t := range j.attracting {
			w.adds(t, 1)
		}
	}
	for i := range j.antiAffinity {
		if j.antiAffinity[i].speaksOf(k) {
			w.adds(j.repelling[i], 1)
		}
	}
	if k.Terms == nil {
		return
	}
	for i := range k.Terms.RequiredAntiAffinity {
		t := &k.Terms.RequiredAntiAffinity[i]
		matched := j.matchedBy(t)
		if matched {
			var number int
			j.repelledBy, number = tallyFor(w, e, j.repelledBy, t.TopologyKey)
			w.adds(number, 1)
		}
		if matched && isWide(*t) || j.mayBeMatchedBy(t) {
			w.adds(j.reach, 1)
		}
	}
}

func (*affinityJudge) restate(*wide, int, *state.NodeInfo) {}

func (j *affinityJudge) prepare(w *wide, e *Engine) {
	j.first = j.self
	for _, t := range j.attracting {
		j.first = j.first && w.tallies[t].total == 0
	}
	if j.cross != RefuseCrossNode {
		return
	}
	byNode := len(j.antiAffinity) > 0
	for _, k := range j.repelledBy {
		byNode = byNode || w.tallies[k.tally].total > 0
	}
	j.refused = w.tallies[j.reach].total > 0 || byNode && e.axis(corev1.LabelHostname).crowded > 0
}

func (j *affinityJudge) passes(w *wide, slot int) (bool, uint8) {
	if j.refused {
		return false, reachesBeyond
	}
	if !j.attracts(w, slot) {
		return false, unattracted
	}
	for _, number := range j.repelling {
		if t := w.tallies[number]; t.sum(t.axis.of[slot]) > 0 {
			return false, repels
		}
	}
	for _, k := range j.repelledBy {
		if t := w.tallies[k.tally]; t.sum(t.axis.of[slot]) > 0 {
			return false, repelled
		}
	}
	return true, 0
}

// attracts is podAffinityFilter's, over tallies.
func (j *affinityJudge) attracts(w *wide, slot int) bool {
	drawn := true
	for _, number := range j.attracting {
		t := w.tallies[number]
		d := t.axis.of[slot]
		if d == nowhere {
			return false
		}
		drawn = drawn && t.sum(d) > 0
	}
	return drawn || j.first
}

// affinityRanker is podAffinityScorer over tallies.
type affinityRanker struct {
	*podAffinityScorer
	weight int64
	keys   []keyTally
	// low and high are the range of the raw scores, as of rate.
	low, high int64
}

func newAffinityRanker(_ *wide, weight int64, s *podAffinityScorer) *affinityRanker {
	return &affinityRanker{podAffinityScorer: s, weight: weight}
}

func (r *affinityRanker) relate(w *wide, e *Engine, k *state.Kind) {
	add := func(key string, weight int64) {
		var number int
		r.keys, number = tallyFor(w, e, r.keys, key)
		w.adds(number, int32(weight))
	}
	for i := range r.attracted {
		if t := &r.attracted[i]; t.speaksOf(k) {
			add(t.TopologyKey, int64(t.Weight))
		}
	}
	for i := range r.repelled {
		if t := &r.repelled[i]; t.speaksOf(k) {
			add(t.TopologyKey, -int64(t.Weight))
		}
	}
	if k.Terms == nil {
		return
	}
	theirs := func(terms []state.AffinityTerm, weigh func(*state.AffinityTerm) int64) {
		for i := range terms {
			if weight := weigh(&terms[i]); weight != 0 && r.matchedBy(&terms[i]) {
				add(terms[i].TopologyKey, weight)
			}
		}
	}
	theirs(k.Terms.RequiredAffinity, func(*state.AffinityTerm) int64 { return r.hardWeight })
	theirs(k.Terms.PreferredAffinity, func(t *state.AffinityTerm) int64 { return int64(t.Weight) })
	theirs(k.Terms.PreferredAntiAffinity, func(t *state.AffinityTerm) int64 { return -int64(t.Weight) })
}

func (*affinityRanker) restate(*wide, int, *state.NodeInfo) {}

func (r *affinityRanker) rate(c *class, _ *Engine, feasible []int32, totals []int64) {
	w := &c.wide
	raw := w.survey.raws(len(feasible))
	clear(raw)
	for _, k := range r.keys {
		t := w.tallies[k.tally]
		for i, slot := range feasible {
			raw[i] += t.sum(t.axis.of[slot])
		}
	}
	r.low, r.high = math.MaxInt64, math.MinInt64
	for _, score := range raw {
		r.low, r.high = min(r.low, score), max(r.high, score)
	}
	if r.low == r.high {
		return // all nodes are alike: MinScore
	}
	w.survey.scale(r, r.low, r.high, raw)
	for i, points := range raw {
		totals[i] += points
	}
}

// points implements scaler; see podAffinityScorer.Normalize.
func (r *affinityRanker) points(score int64) int64 {
	share := float64(score-r.low) / float64(r.high-r.low)
	return r.weight * int64(float64(MaxScore)*share)
}
