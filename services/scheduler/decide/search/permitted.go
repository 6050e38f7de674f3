package search

import (
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/placement/engine"
)

// permittedOfAll runs a query on all nodes, without those that the limits forbid. A query ends when a sample is
// complete, or when the pod fits on the node that it is nominated to, so that these may be all that it finds: then it
// is run again on all nodes.
func (x *Searcher) permittedOfAll(profile *placement.Profile, q engine.Query, l limits) placement.Result {
	r := x.permitted(profile, q, l)
	if nothingLeft(r) && r.Examined < r.NodesTotal {
		q.Everywhere, q.Unsampled = true, true
		r = x.permitted(profile, q, l)
	}
	return r
}

// growth is by how much a query is repeated for more nodes.
const growth = 8

// permitted runs a query without the nodes that the limits forbid. While that leaves too few of the best nodes, the
// query is repeated, from the same start, for more of them.
func (x *Searcher) permitted(profile *placement.Profile, q engine.Query, l limits) placement.Result {
	for from := x.Start; ; q.Limit = max(q.Limit, placement.TopK) * growth {
		x.Start = from
		r := x.Query(profile, q)
		all := len(r.Feasible) == r.FeasibleCount
		r = l.remove(r, q.Limit < 0)
		if all || r.Err != nil || len(r.Feasible) >= placement.TopK {
			return r
		}
	}
}

// nothingLeft reports whether all nodes that a query found have been removed from its result. If it found none, its
// result has a diagnosis.
func nothingLeft(r placement.Result) bool {
	return r.Err == nil && r.FeasibleCount == 0 && r.Diagnosis.NodesTotal() == 0
}

// remove removes the forbidden nodes from the feasible ones of a result. Where nominations are judged, which is
// expensive, it ends after the first TopK nodes that remain, unless all are needed. The query must have asked for as
// many more nodes as are avoided.
func (l limits) remove(r placement.Result, all bool) placement.Result {
	if len(l.avoided) == 0 && l.beside == nil {
		return r
	}
	avoided := sets.New(l.avoided...)
	removed, left := 0, r.Feasible[:0]
	for _, s := range r.Feasible {
		if len(left) == placement.TopK && l.beside != nil && !all {
			break
		}
		// Avoided nodes are judged as well: what keeps the pod from them is then more than a matter of time.
		if l.beside.takes(s.Node) || avoided.Has(s.Node.Node.UID) {
			removed++
			continue
		}
		left = append(left, s)
	}
	if err := l.beside.failed(); err != nil {
		return placement.Result{Err: err}
	}
	if len(l.avoided) > 0 || removed > 0 {
		r.Weighed = placement.Weighed{} // their indexes would no longer be those of the nodes
	}
	r.Feasible = left
	r.FeasibleCount -= removed
	return r
}
