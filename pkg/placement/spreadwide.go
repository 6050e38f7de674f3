package placement

import (
	"math"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/berth-scheduler/berth/pkg/state"
)

// countsKind is count for pods of a kind.
func (s *spread) countsKind(c *spreadConstraint, k *state.Kind) bool {
	return k.Namespace == s.pod.Namespace && !k.Deleting && !c.selector.Empty() &&
		c.selector.Matches(labels.Set(k.Labels))
}

// relateSpread adds a pod of a kind to the tallies of the constraints that count it.
func (s *spread) relateSpread(w *wide, tallies []int, k *state.Kind) {
	for i := range s.constraints {
		if s.countsKind(&s.constraints[i], k) {
			w.adds(tallies[i], 1)
		}
	}
}

// spreadJudge is spreadFilter over tallies.
type spreadJudge struct {
	*spreadFilter
	at      int16
	tallies []int
	// limits are how many pods, at most, a domain may have before the pod comes, as of
	// prepare; self is 1 where the pod itself will count.
	limits []int64
	self   []int64
	judged []uint64 // the tallies' versions that limits are for
}

// anyVersion is a version that no tally has.
const anyVersion = math.MaxUint64

func newSpreadJudge(e *Engine, w *wide, index int16, f *spreadFilter) *spreadJudge {
	j := &spreadJudge{spreadFilter: f, at: index}
	for i := range f.constraints {
		c := &f.constraints[i]
		t := &tally{axis: e.axis(c.key), included: []bool{}}
		j.tallies = append(j.tallies, w.newTally(t))
		j.self = append(j.self, 0)
		if c.selector.Matches(labels.Set(f.pod.Object.Labels)) {
			j.self[i] = 1
		}
		j.judged = append(j.judged, anyVersion)
	}
	j.limits = make([]int64, len(j.tallies))
	return j
}

func (j *spreadJudge) index() int16 { return j.at }

func (j *spreadJudge) reason(why uint8) string { return spreadReasons[why] }

func (j *spreadJudge) relate(w *wide, _ *Engine, k *state.Kind) { j.relateSpread(w, j.tallies, k) }

func (j *spreadJudge) restate(w *wide, slot int, n *state.NodeInfo) {
	complete := hasKeys(n.Node.Object.Labels, j.constraints)
	for i, t := range j.tallies {
		w.tallies[t].included[slot] = complete && j.includes(&j.constraints[i], n.Node)
	}
}

func (j *spreadJudge) prepare(w *wide, _ *Engine) {
	for i, number := range j.tallies {
		t, c := w.tallies[number], &j.constraints[i]
		if j.judged[i] == t.version {
			continue
		}
		j.judged[i] = t.version
		least, domains := t.fewest()
		if domains < c.minDomains {
			least = 0
		}
		j.limits[i] = least + int64(c.maxSkew) - j.self[i]
	}
}

func (j *spreadJudge) passes(w *wide, slot int) (bool, uint8) {
	for i, number := range j.tallies {
		t := w.tallies[number]
		d := t.axis.of[slot]
		if d == nowhere {
			return false, lacksKey
		}
		if t.sum(d) > j.limits[i] {
			return false, overSkew
		}
	}
	return true, 0
}

// spreadRanker is spreadScorer over tallies.
type spreadRanker struct {
	*spreadScorer
	weight  int64
	tallies []int
	// left tells by slot whether the node is left out.
	left []bool
	// terms are, per constraint over domains, what each domain adds to the raw score.
	terms [][]float64
	// marked tells which domains have a feasible node: those marked with the present mark.
	marked [][]uint32
	mark   uint32
	// weights are per constraint, low and high the range of the raw scores, as of rate.
	weights   []float64
	low, high int64
}

func newSpreadRanker(e *Engine, w *wide, weight int64, s *spreadScorer) *spreadRanker {
	r := &spreadRanker{spreadScorer: s, weight: weight}
	for i := range s.constraints {
		t := &tally{axis: e.axis(s.constraints[i].key), included: []bool{}, emptyToo: true}
		if s.constraints[i].key == corev1.LabelHostname {
			t = &tally{} // its pods are counted node by node
		}
		r.tallies = append(r.tallies, w.newTally(t))
	}
	r.terms = make([][]float64, len(r.tallies))
	r.marked = make([][]uint32, len(r.tallies))
	r.weights = make([]float64, len(r.tallies))
	return r
}

func (r *spreadRanker) relate(w *wide, _ *Engine, k *state.Kind) { r.relateSpread(w, r.tallies, k) }

func (r *spreadRanker) restate(w *wide, slot int, n *state.NodeInfo) {
	if lack := slot + 1 - len(r.left); lack > 0 {
		r.left = growBy(r.left, lack, false)
	}
	r.left[slot] = r.leavesOut(n)
	for i, number := range r.tallies {
		if t := w.tallies[number]; t.included != nil {
			t.included[slot] = !r.left[slot] && r.includes(&r.constraints[i], n.Node)
		}
	}
}

func (r *spreadRanker) rate(c *class, e *Engine, feasible []int32, totals []int64) {
	w := &c.wide
	r.weighAll(w, feasible)
	hostname := e.axis(corev1.LabelHostname)
	raw := w.survey.raws(len(feasible))
	r.low, r.high = math.MaxInt64, 0
	for i, slot := range feasible {
		if r.left[slot] {
			raw[i] = leftOut
			continue
		}
		raw[i] = r.rawScore(w, hostname, int(slot))
		r.low, r.high = min(r.low, raw[i]), max(r.high, raw[i])
	}
	w.survey.scale(r, r.low, r.high, raw)
	for i, points := range raw {
		totals[i] += points
	}
}

// points implements scaler; see spreadScorer.Normalize.
func (r *spreadRanker) points(score int64) int64 {
	switch {
	case score == leftOut:
		return MinScore
	case r.high == 0:
		return r.weight * MaxScore
	default:
		return r.weight * (MaxScore * (r.high + r.low - score) / r.high)
	}
}

// weighAll works out the weight of every constraint and what each domain adds.
func (r *spreadRanker) weighAll(w *wide, feasible []int32) {
	scored := 0
	for _, slot := range feasible {
		if !r.left[slot] {
			scored++
		}
	}
	r.mark++
	for i, number := range r.tallies {
		t, domains := w.tallies[number], scored
		if t.axis != nil {
			domains = r.markDomains(i, t, feasible)
		}
		r.weights[i] = math.Log(float64(domains + 2))
		r.weigh(i, t)
	}
}

// leftOut is the raw score of a node that is left out: it gets nothing.
const leftOut int64 = -1

// markDomains counts the domains that have a feasible node which is not left out.
func (r *spreadRanker) markDomains(i int, t *tally, feasible []int32) int {
	count := 0
	for _, slot := range feasible {
		if r.left[slot] {
			continue
		}
		d := int(t.domain(int(slot)))
		if lack := d + 1 - len(r.marked[i]); lack > 0 {
			r.marked[i] = growBy(r.marked[i], lack, 0)
		}
		if r.marked[i][d] != r.mark {
			r.marked[i][d] = r.mark
			count++
		}
	}
	return count
}

// weigh works out what each domain adds.
func (r *spreadRanker) weigh(i int, t *tally) {
	if t.axis == nil {
		return
	}
	if lack := len(t.axis.members) - len(r.terms[i]); lack > 0 {
		r.terms[i] = growBy(r.terms[i], lack, 0)
	}
	for d := range r.terms[i] {
		r.terms[i][d] = r.term(i, t.sum(int32(d)))
	}
}

func (r *spreadRanker) term(i int, count int64) float64 {
	return float64(count)*r.weights[i] + float64(r.constraints[i].maxSkew-1)
}

// rawScore is Score: the terms in the order of the constraints, because sums of floats
// depend on it.
func (r *spreadRanker) rawScore(w *wide, hostname *axis, slot int) int64 {
	var score float64
	for i, number := range r.tallies {
		t := w.tallies[number]
		switch {
		case t.axis == nil && hostname.of[slot] != nowhere:
			score += r.term(i, int64(t.per[slot]))
		case t.axis != nil && t.axis.of[slot] != nowhere:
			score += r.terms[i][t.axis.of[slot]]
		}
	}
	return int64(math.Round(score))
}
