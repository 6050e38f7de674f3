package engine

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/placement/devices"
	"github.com/berth-scheduler/berth/pkg/placement/engine/internal/columns"
	"github.com/berth-scheduler/berth/pkg/placement/engine/internal/signature"
	"github.com/berth-scheduler/berth/pkg/placement/rule"
	"github.com/berth-scheduler/berth/pkg/state"
)

// Config configures an Engine.
type Config struct {
	// CacheBytes is approximately how much memory the classes may take together; 0 means DefaultCacheBytes plus
	// DefaultCacheBytesPerNode for each node, at most MaxCacheBytes. The least recently used class is dropped
	// first. One class takes 30 to 60 bytes a node; a single class may be larger than the budget.
	CacheBytes int64
}

// The defaults leave room for some hundreds of classes, up to about 30,000 nodes.
const (
	DefaultCacheBytes        = 128 << 20
	DefaultCacheBytesPerNode = 12 << 10
	MaxCacheBytes            = 512 << 20
)

// Engine gives the answers of Profile.Evaluate from state that it keeps up to date.
//
// Pods that no rule can distinguish form a class. A class keeps, for every node, the latest results of its rules,
// and evaluates again only nodes that changed since; rules about other pods keep sums per topology domain, updated
// by differences. So the cost of a decision depends on what changed since the last one for a pod of the same class,
// and a decision allocates nothing; the first decision of a class evaluates all nodes.
//
// An Engine is not safe for concurrent use. The caller owns the NodeInfos; every change of one has to be reported
// before the next Evaluate.
type Engine struct {
	columns columns.Columns
	objects rule.Objects
	// version is the version of objects, and epoch that of all numbers the engine assigned: a class whose plan was
	// made before either of them increased is planned again.
	version, epoch uint64
	cache          classCache
	sign           signature.Signature
	board          board
	order          zoneWalk
	rating         rating
	watch          watch
	// protected holds the UIDs of pods that cannot be victims; guarded holds the same by node.
	protected map[string]bool
	guarded   map[*state.NodeInfo][]string
	// ladders hold the pods of every node by importance.
	ladders ladderColumn
	scratch
}

// scratch is reused between answers: the ranked nodes, a walk without narrowed nodes, and a sample with its number
// of nodes per group.
type scratch struct {
	feasible          []placement.Scored
	narrowed, sampled []int32
	counts            []int32
	// late is the filter that is evaluated last, for the current pod only; nil for none.
	late rule.Filter
}

// New returns an engine without nodes.
func New(cfg Config) *Engine {
	e := &Engine{
		columns: columns.New(), cache: newClassCache(cfg.CacheBytes),
		protected: map[string]bool{}, guarded: map[*state.NodeInfo][]string{},
	}
	e.board.e = e
	return e
}

// SetNode adds a node, or updates one whose Node was replaced, with the pods on it. New nodes are usable, and not
// home nodes.
func (e *Engine) SetNode(n *state.NodeInfo) {
	if _, known := e.columns.Slots[n]; !known {
		e.order.forget()
	}
	e.columns.SetNode(n)
	e.order.see(int(e.columns.Slots[n]), n)
	e.compact()
}

// DropNode removes a node; an unknown one is ignored.
func (e *Engine) DropNode(n *state.NodeInfo) {
	e.SetProtected(n, nil)
	e.columns.DropNode(n)
	e.order.forget()
}

// AddPod must be called after n.AddPod(pod); for a pod that replaces another version, after RemovePod.
func (e *Engine) AddPod(n *state.NodeInfo, pod *state.Pod) {
	e.columns.ChangePods(n, pod.Kind, 1)
	e.compact()
}

// RemovePod must be called after n.RemovePod(pod.UID).
func (e *Engine) RemovePod(n *state.NodeInfo, pod *state.Pod) { e.columns.ChangePods(n, pod.Kind, -1) }

// SetUsable sets whether a node may receive pods now. A node that may not still counts for rules that look at all
// nodes; it corresponds to one that is missing from Input.Candidates.
func (e *Engine) SetUsable(n *state.NodeInfo, usable bool) { e.mark(n, columns.MarkUsable, usable) }

// SetHome sets whether a node is a home node, for Query.Home and Query.HomeFirst.
func (e *Engine) SetHome(n *state.NodeInfo, home bool) { e.mark(n, columns.MarkHome, home) }

func (e *Engine) mark(n *state.NodeInfo, mark uint8, on bool) {
	if slot, known := e.columns.Slots[n]; known && e.columns.Marks.Set(int(slot), mark, on) {
		e.columns.Journal.Move(columns.Move{Slot: slot, Kind: columns.NoKind, By: 0})
		e.order.forget()
	}
}

// Candidates returns the number of nodes that a query chooses among: the usable ones, and how many of those are
// home nodes.
func (e *Engine) Candidates() (usable, home int) { return e.columns.Marks.Usable, e.columns.Marks.Home }

// SetObjects replaces the other objects of the cluster. ObjectsMatter reports whether a change requires it; if not,
// Refresh is enough.
func (e *Engine) SetObjects(o rule.Objects) {
	e.objects = o
	e.version++
}

// Refresh replaces the objects by others that differ in nothing relevant, so that the old ones can be freed.
func (e *Engine) Refresh(o rule.Objects) { e.objects = o }

// Query is the input of a decision in addition to the cluster and the profile.
type Query struct {
	// Pod is the pod to place; its Template must be set.
	Pod *state.Pod
	// Seed breaks ties.
	Seed uint64
	// Limit is how many feasible nodes to rank: 0 means TopK, a negative value means all.
	Limit int
	// Start is where a profile that samples starts; see Input.Start.
	Start int
	// Home restricts the search to home nodes. HomeFirst ranks them before other nodes with the same total.
	Home, HomeFirst bool
	// Opinions holds the results of custom plugins and extenders for nodes, Guidance those of the plugins for the
	// pod; see Input. A query with either is evaluated from scratch.
	Opinions map[string]placement.Opinion
	Guidance *placement.Guidance
	// Everywhere evaluates all nodes even if the pod has been nominated to one; see Input.Everywhere.
	Everywhere bool
	// Weigh requests Result.Weighed for this many of the best nodes.
	Weigh int
	// Laps, if not nil, is notified of the stages of the evaluation; with TimeRules, also of the results of the
	// first rules.
	Laps      Laps
	TimeRules bool
}

// Evaluate decides about one pod, as p.Evaluate does with the usable nodes as candidates. Result.Feasible belongs
// to the engine and is valid until the next call.
func (e *Engine) Evaluate(p *placement.Profile, q Query) placement.Result {
	total := e.columns.Marks.Usable
	if q.Home {
		total = e.columns.Marks.Home
	}
	if total == 0 {
		return placement.Result{}
	}
	if q.Start < 0 {
		return placement.Result{Err: fmt.Errorf("placement: start is %d, want 0 or more", q.Start)}
	}
	if q.Pod == nil || q.Pod.Template == nil {
		return placement.Result{Err: placement.ErrNoObject}
	}
	e.watch.begin(p, q)
	defer e.watch.rest()
	c, err := e.classOf(p, q)
	if err != nil {
		return placement.Result{Err: err}
	}
	if len(devices.BackedResources(q.Pod.Requests, e.objects)) > 0 {
		result := p.Evaluate(e.input(q)) // whether a node lists the resource matters to two rules
		result.Class = c.id
		return result
	}
	if rule.HasDeviceClaims(&q.Pod.Template.Spec) {
		return e.evaluateClaims(c, q, total)
	}
	if c.plan.err != nil {
		return placement.Result{Err: c.plan.err}
	}
	result := placement.Result{NodesTotal: total, Class: c.id}
	e.watch.point(PointPreFilter, c.plan.begins())
	if c.plan.rejected != nil {
		result.Diagnosis = c.plan.rejected.Diagnosis(total)
		return result
	}
	if c.plan.scratch || len(q.Opinions) > 0 || q.Guidance != nil {
		result = p.Evaluate(e.input(q))
		result.Class = c.id
		return result
	}
	c.catchUp(e)
	c.wide.prepare(e)
	e.cache.settle(c, e.columns.Nodes())
	return e.decide(c, q, result)
}

// decide computes the answer from an up-to-date class.
func (e *Engine) decide(c *class, q Query, result placement.Result) placement.Result {
	if slot, ok := e.nominated(c, q.Pod); ok && !q.Everywhere {
		result.FeasibleCount, result.Feasible = 1, e.alone(slot)
		return result
	}
	sampling := e.late != nil || c.key.profile.SampleSize(result.NodesTotal) < result.NodesTotal
	if sampling {
		result.Examined = e.sample(c, q)
		e.rating.list(c, e.counts)
	} else {
		result.Examined = e.examined(c, result.NodesTotal)
		e.rating.list(c, c.groups.members)
	}
	result.FeasibleCount = e.rating.total
	e.watch.point(PointFilter, found(result.FeasibleCount))
	e.rating.weighed.begin()
	switch {
	case result.FeasibleCount == 0 && e.late != nil:
		return result // the class does not know the reason
	case result.FeasibleCount == 0:
		result.Diagnosis = c.diagnose(e, result.NodesTotal)
		return result
	case result.FeasibleCount > 1 && c.plan.scorerErr != nil:
		return placement.Result{Err: c.plan.scorerErr}
	case result.FeasibleCount > 1:
		e.rating.rate(c, q.Weigh > 0)
	}
	e.board.reset(q, result.FeasibleCount)
	if sampling {
		for _, slot := range e.sampled {
			total := c.base[slot] + e.rating.points[c.group[slot]+1]
			e.board.offer(placement.Ranked{Total: int64(total), Tie: e.board.tie(int(slot)), Index: int(slot)})
		}
	} else {
		e.board.scan(c, e.rating.points)
	}
	result.Feasible = e.ranked()
	if result.FeasibleCount > 1 {
		e.watch.point(PointScore, rule.Success)
	}
	e.weigh(c, q, &result)
	return result
}

// nominated returns the slot of the node that the pod has been nominated to, if it passes. A rule that narrows the
// nodes down does not exclude that node.
func (e *Engine) nominated(c *class, pod *state.Pod) (int32, bool) {
	name := pod.Status().NominatedNodeName
	if name == "" {
		return 0, false
	}
	slot := slices.IndexFunc(e.columns.Infos, func(n *state.NodeInfo) bool { return n != nil && n.Node.Name == name })
	if slot < 0 || !c.candidate(e, slot) {
		return 0, false
	}
	v := c.cells[slot].verdict
	if v == placement.VerdictNarrowed {
		v, _ = c.plan.judgeNode(e.columns.Infos[slot], c.traits[e.columns.Traits.Of[slot]].verdict)
		v = c.plan.judgeUse(e, slot, v)
	}
	return int32(slot), v == placement.VerdictPass && c.passesWide(slot)
}

// examined returns how many nodes a search over all nodes judges: those that no rule narrowed out.
func (e *Engine) examined(c *class, total int) int {
	if c.plan.only == nil {
		return total
	}
	n := 0
	for i := range c.cells {
		if v := c.cells[i].verdict; v != placement.VerdictAbsent && v != placement.VerdictNarrowed {
			n++
		}
	}
	return n
}

// alone is the answer when one node is feasible: it is not scored.
func (e *Engine) alone(slot int32) []placement.Scored {
	e.feasible = append(e.feasible[:0], placement.Scored{Node: e.columns.Infos[slot]})
	return e.feasible
}

func (e *Engine) ranked() []placement.Scored {
	e.feasible = e.feasible[:0]
	if len(e.board.list) == 1 && e.rating.total == 1 {
		return e.alone(int32(e.board.list[0].Index))
	}
	for _, c := range e.board.list {
		e.feasible = append(e.feasible, placement.Scored{Node: e.columns.Infos[c.Index], Total: c.Total})
	}
	return e.feasible
}

// input returns the equivalent Input for Profile.Evaluate.
func (e *Engine) input(q Query) placement.Input {
	in := placement.Input{
		Pod: q.Pod, Objects: e.objects, Seed: q.Seed, Start: q.Start, Limit: q.Limit, Weigh: q.Weigh,
		Opinions: q.Opinions, Guidance: q.Guidance, Everywhere: q.Everywhere,
	}
	if q.HomeFirst {
		in.Home = make(map[string]bool, e.columns.Marks.Home)
	}
	for slot, n := range e.columns.Infos {
		if n == nil {
			continue
		}
		in.Nodes = append(in.Nodes, n)
		usable, home := e.columns.Marks.Of[slot]&columns.MarkUsable != 0, e.columns.Marks.Of[slot]&columns.MarkHome != 0
		if usable && (home || !q.Home) {
			in.Candidates = append(in.Candidates, n)
		}
		if home && q.HomeFirst {
			in.Home[n.Node.UID] = true
		}
	}
	slices.SortFunc(in.Nodes, byNodeName)
	slices.SortFunc(in.Candidates, byNodeName)
	return in
}

func byNodeName(a, b *state.NodeInfo) int { return cmp.Compare(a.Node.Name, b.Node.Name) }

// Numbers are assigned and not released while classes may use them. When few of them are still in use, everything
// is renumbered.
const (
	sparse   = 4       // ratio of assigned numbers to used ones
	fewThere = 1 << 14 // below this, renumbering is not worth it
)

// compact renumbers everything when most of the numbers are no longer in use.
func (e *Engine) compact() {
	most := func(numbers, things int) bool { return numbers > fewThere && numbers > sparse*things }
	axes := 0
	for _, a := range e.columns.Axes {
		axes = max(axes, len(a.IDs))
	}
	if most(len(e.columns.Kinds.List), e.columns.Kinds.Live) || most(len(e.columns.Traits.IDs), e.columns.Nodes()) ||
		most(axes, e.columns.Nodes()) || len(e.columns.Axes) > maxAxes {
		e.restart()
	}
}

// maxAxes bounds the topology keys that are kept, because users choose them freely.
const maxAxes = 256

// restart rebuilds all columns and drops the classes.
func (e *Engine) restart() {
	old := e.columns
	e.columns = columns.New()
	e.ladders = ladderColumn{}
	e.epoch++
	e.order = zoneWalk{}
	for slot, n := range old.Infos {
		if n == nil {
			continue
		}
		e.columns.SetNode(n)
		now := int(e.columns.Slots[n])
		e.order.see(now, n)
		e.columns.Marks.Set(now, columns.MarkUsable, old.Marks.Of[slot]&columns.MarkUsable != 0)
		e.columns.Marks.Set(now, columns.MarkHome, old.Marks.Of[slot]&columns.MarkHome != 0)
	}
	e.cache.clear()
}
