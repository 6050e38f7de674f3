package engine

import (
	"maps"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/placement/engine/internal/columns"
	"github.com/berth-scheduler/berth/pkg/placement/engine/internal/fittrial"
	"github.com/berth-scheduler/berth/pkg/placement/engine/internal/signature"
	"github.com/berth-scheduler/berth/pkg/placement/engine/internal/walk"
	"github.com/berth-scheduler/berth/pkg/placement/rule"
	"github.com/berth-scheduler/berth/pkg/state"
)

// Config configures an Engine. The zero value is valid.
type Config struct {
	// CacheBytes is approximately how much memory the classes may take together; 0 means DefaultCacheBytes plus
	// DefaultCacheBytesPerNode for each node, at most MaxCacheBytes. The least recently used class is dropped
	// first. One class takes 30 to 60 bytes a node; a single class may be larger than the budget.
	CacheBytes int64
}

// The defaults leave space for some hundreds of classes, up to about 30,000 nodes. With 45 bytes a node and
// class, that is 570 classes on 10,000 nodes (257 MB) and 370 on 30,000 (503 MB, nearly MaxCacheBytes).
const (
	DefaultCacheBytes        = 128 << 20
	DefaultCacheBytesPerNode = 12 << 10
	MaxCacheBytes            = 512 << 20
)

// Engine gives the answers of Profile.Evaluate from state that it keeps up to date.
//
// Pods that no rule can distinguish form a class. A class keeps, for every node, the latest results of its rules,
// and evaluates again only nodes that changed since; rules about other pods keep sums per topology domain,
// updated by differences. So the cost of a decision depends on what changed since the last one for a pod of the
// same class, and a decision allocates nothing; the first decision of a class evaluates all nodes.
//
// The caller owns the NodeInfos and changes them itself. It must report every change of one before the next call
// of Evaluate or Preempt: a replaced Node with SetNode, unless the new one reads like the old one
// (state.Node.ReadsLike), and pods with ChangePod. The engine identifies a node by its pointer, so that the same
// NodeInfo must be used for as long as the node exists.
//
// An Engine is not safe for concurrent use.
type Engine struct {
	// columns holds what the engine keeps about nodes. It is replaced as a whole by restart.
	columns columns.Columns
	// objects holds the other objects of the cluster, as of the last SetObjects or Refresh.
	objects rule.Objects
	// version is the version of objects, and epoch that of all numbers the engine assigned: a class whose plan was
	// made before either of them increased is planned again.
	version, epoch uint64
	// cache holds the classes, and sign is the scratch space in which the signatures of pods are computed.
	cache classCache
	sign  signature.Signature
	// shortlist, order, rating and profiler belong to the query in progress, except that order caches the walk of
	// profiles that sample and profiler keeps the counters of rule calls.
	shortlist shortlist
	order     walk.Order
	rating    rating
	profiler  profiler
	// protected holds the UIDs of pods that cannot be victims; guarded holds the same by node, so that one node's
	// set can be replaced.
	protected map[string]bool
	guarded   map[*state.NodeInfo][]string
	// byImportance holds the pods of every node by importance, for dry runs of preemption.
	byImportance fittrial.Column
	scratch
}

// scratch is reused between answers: the ranked nodes, a walk without narrowed nodes, and a sample with its number
// of nodes per group.
type scratch struct {
	feasible          []placement.Scored
	narrowed, sampled []int32
	// counts has one entry per group of the class in use: how many nodes of the sample the group has.
	counts []int32
	// late is the filter that is evaluated last, for the current pod only; nil for none.
	late rule.Filter
}

// New returns an engine without nodes.
func New(cfg Config) *Engine {
	e := &Engine{
		columns: columns.New(), cache: newClassCache(cfg.CacheBytes),
		protected: map[string]bool{}, guarded: map[*state.NodeInfo][]string{},
	}
	e.shortlist.cols = &e.columns
	return e
}

// SetNode adds a node, or updates one whose Node was replaced, with the pods on it. New nodes are usable, and not
// home nodes. It counts all pods of the node again, so that it costs more than ChangePod: every class evaluates the
// node's object again at its next use.
func (e *Engine) SetNode(n *state.NodeInfo) {
	if _, known := e.columns.Slots[n]; !known {
		e.order.Invalidate()
	}
	e.columns.SetNode(n)
	e.order.Observe(int(e.columns.Slots[n]), n)
	e.compact()
}

// DropNode removes a node; an unknown one is ignored.
func (e *Engine) DropNode(n *state.NodeInfo) {
	e.SetProtected(n, nil)
	e.columns.DropNode(n)
	e.order.Invalidate()
}

// ChangePod must be called after a pod on a node was added (before is nil), removed (after is nil) or replaced by
// another version (n.ReplacePod(after)). A version that counts like the one before changes no verdict and no score,
// so the classes do not evaluate the node again: of five facts about an ordinary pod, two are such versions. It is
// ignored for a node that SetNode has not added.
func (e *Engine) ChangePod(n *state.NodeInfo, before, after *state.Pod) {
	if before != nil && after != nil && before.CountsLike(after) {
		e.columns.SwapPod(n)
		return
	}
	if before != nil {
		e.columns.ChangePods(n, before.Kind, -1)
	}
	if after != nil {
		e.columns.ChangePods(n, after.Kind, 1)
		e.compact()
	}
}

// SetUsable sets whether a node may receive pods now. A node that may not still counts for rules that look at all
// nodes; it corresponds to one that is missing from Input.Candidates.
func (e *Engine) SetUsable(n *state.NodeInfo, usable bool) { e.mark(n, columns.MarkUsable, usable) }

// SetHome sets whether a node is a home node, for Query.Home and Query.HomeFirst.
func (e *Engine) SetHome(n *state.NodeInfo, home bool) { e.mark(n, columns.MarkHome, home) }

// mark changes one mark of a node. A real change is recorded in the journal, because a class caches whether a
// node is among its candidates, and invalidates the walk of profiles that sample.
func (e *Engine) mark(n *state.NodeInfo, mark uint8, on bool) {
	if slot, known := e.columns.Slots[n]; known && e.columns.Marks.Set(int(slot), mark, on) {
		e.columns.Journal.Record(columns.Change{Slot: slot, Kind: columns.NoKind, By: 0})
		e.order.Invalidate()
	}
}

// Candidates returns the number of nodes that a query chooses among: the usable ones, and how many of those are
// home nodes. It costs nothing: both are counted when marks change.
func (e *Engine) Candidates() (usable, home int) { return e.columns.Marks.Usable, e.columns.Marks.Home }

// SetObjects replaces the other objects of the cluster. ObjectsMatter reports whether a change requires it; if
// not, Refresh is enough. After it, every class compares the contents of the objects that its rules use with
// those that it was made from, and is made again only if they differ (isCurrent).
func (e *Engine) SetObjects(o rule.Objects) {
	e.objects = o
	e.version++
}

// Refresh replaces the objects by others that differ in nothing relevant, so that the old ones can be freed.
func (e *Engine) Refresh(o rule.Objects) { e.objects = o }

// Kinds, traits and domains are numbered, and a number is not released while classes may use it. A cluster whose
// nodes come and go with names of their own would add a domain of the hostname label per node forever. When few
// of the numbers are still in use, everything is renumbered.
const (
	compactionRatio  = 4       // ratio of assigned numbers to used ones
	minForCompaction = 1 << 14 // below this, renumbering is not worth it
)

// compact renumbers everything when most of the numbers are no longer in use. It is called when nodes and pods
// are added.
func (e *Engine) compact() {
	most := func(numbers, things int) bool { return numbers > minForCompaction && numbers > compactionRatio*things }
	axes := 0
	for _, a := range e.columns.Axes {
		axes = max(axes, len(a.IDs))
	}
	if most(len(e.columns.Kinds.List), e.columns.Kinds.Live) || most(len(e.columns.Traits.IDs), e.columns.Nodes()) ||
		most(axes, e.columns.Nodes()) || len(e.columns.Axes) > maxAxes {
		e.restart()
	}
}

// maxAxes bounds the topology keys that are kept, because users choose them freely. A cluster uses about five.
const maxAxes = 256

// restart rebuilds all columns and drops the classes. Marks of nodes are kept, and the epoch increases so that
// plans compiled with the old numbers are not used. The next decision of every class evaluates all nodes again.
func (e *Engine) restart() {
	old := e.columns
	e.columns = columns.New()
	e.byImportance = fittrial.Column{}
	e.epoch++
	e.order = walk.Order{}
	for slot, n := range old.Infos {
		if n == nil {
			continue
		}
		e.columns.SetNode(n)
		now := int(e.columns.Slots[n])
		e.order.Observe(now, n)
		e.columns.Marks.Set(now, columns.MarkUsable, old.Marks.Of[slot]&columns.MarkUsable != 0)
		e.columns.Marks.Set(now, columns.MarkHome, old.Marks.Of[slot]&columns.MarkHome != 0)
	}
	e.cache.clear()
}

// ObjectsMatter reports whether a change of an object that is neither a pod nor a node can change an answer, so
// that SetObjects must be called on an Engine.
func ObjectsMatter(c state.ObjectChange) bool {
	switch c.Kind {
	case events.KindNamespace:
		return c.Before == nil || c.After == nil || !maps.Equal(c.Before.API.GetLabels(), c.After.API.GetLabels())
	case events.KindService, events.KindReplicationController, events.KindReplicaSet, events.KindStatefulSet:
		return true
	default:
		return false
	}
}

// VisitRuleCalls visits how often each rule has been called since the last visit: for a pod (PreFilter, PreScore), or
// for one node or one group of like nodes. An engine caches the results of rules, so the numbers grow with what
// changed, not with nodes times pods.
func (e *Engine) VisitRuleCalls(visit func(a RuleCalls, calls uint64)) {
	for a, calls := range maps.All(e.profiler.calls) {
		if *calls > 0 {
			visit(a, *calls)
			*calls = 0
		}
	}
}

// SetProtected replaces the set of pods on a node that cannot be victims (see preempt.Input.Protected). It is
// dropped together with the node.
func (e *Engine) SetProtected(n *state.NodeInfo, uids []string) {
	slot, known := e.columns.Slots[n]
	if !known {
		return
	}
	for _, uid := range e.guarded[n] {
		delete(e.protected, uid)
	}
	delete(e.guarded, n)
	if len(uids) > 0 {
		e.guarded[n] = append([]string(nil), uids...)
	}
	for _, uid := range uids {
		e.protected[uid] = true
	}
	e.columns.Journal.Record(columns.Change{Slot: slot, Kind: columns.NoKind, By: 0})
}
