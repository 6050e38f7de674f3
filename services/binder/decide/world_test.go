package decide

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/codec"
	"github.com/berth-scheduler/berth/pkg/ledger/replica"
	"github.com/berth-scheduler/berth/pkg/ledger/txns"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/pkg/state/resources"
	"github.com/berth-scheduler/berth/services/binder/decide/basis"
	"github.com/berth-scheduler/berth/services/binder/decide/effect"
)

// The world of these tests consists of an API server that enforces what the real one does on binds and patches and
// nothing more, a ledger of compare-and-set documents, shards that place by the rules of the protocol on lagging
// views, and binders whose requests may be lost, answered late, or carried out long after the binder gave up.

// apiVersion is the cluster at one resourceVersion. It never changes once it is in the history.
type apiVersion struct {
	rv    uint64
	pods  map[string]*state.Pod
	nodes map[string]*state.Node
	// budget is the only disruption budget, in the worlds that have one.
	budget budgetStatus
}

// budgetStatus is what the API server knows of a disruption budget.
type budgetStatus struct {
	rv               uint64
	allowed, desired int
	// disrupted holds the pods that were taken from it and are not leaving yet, by UID.
	disrupted map[string]bool
}

func (v *apiVersion) Pod(uid string) (*state.Pod, bool)   { p, ok := v.pods[uid]; return p, ok }
func (v *apiVersion) Node(uid string) (*state.Node, bool) { n, ok := v.nodes[uid]; return n, ok }
func (v *apiVersion) Requested(node string) (sum resources.Resources) {
	for _, p := range v.pods {
		if p.NodeName == node && p.Occupies() {
			sum = sum.Add(p.Requests)
		}
	}
	return sum
}

func (v *apiVersion) NodeByName(name string) (*state.Node, bool) { return v.Node(name + "-uid") }

func (v *apiVersion) BudgetsOf(p *state.Pod, promises *replica.View) (out []txns.BudgetRoom) {
	if v.budget.rv > 0 && hasBudget(p.UID) {
		out = append(out, v.budgetRoom(promises.Budgets().Of(pdbUID)))
	}
	n, _ := strconv.Atoi(p.Template.Labels["budgets"])
	for i := range n {
		out = append(out, txns.BudgetRoom{Doc: ledger.BudgetDoc{UID: fmt.Sprintf("pdb-%d", i)}, Allowed: 1})
	}
	return out
}

// budgetRoom returns the budget as this version shows it.
func (v *apiVersion) budgetRoom(doc ledger.BudgetDoc) txns.BudgetRoom {
	doc.UID, doc.Namespace, doc.Name = pdbUID, "ns", "pdb"
	r := txns.BudgetRoom{Doc: doc, Allowed: int32(v.budget.allowed)}
	r.Count = &txns.BudgetCount{Desired: int32(v.budget.desired)}
	for uid, p := range v.pods {
		if hasBudget(uid) && !p.Deleting {
			r.Count.Healthy = append(r.Count.Healthy, uid)
		}
	}
	return r
}

type api struct{ history []*apiVersion }

func newAPI() *api {
	return &api{history: []*apiVersion{{rv: 1, pods: map[string]*state.Pod{}, nodes: map[string]*state.Node{}}}}
}

func (a *api) now() *apiVersion { return a.history[len(a.history)-1] }

// write appends a version with a change.
func (a *api) write(change func(v *apiVersion)) *apiVersion {
	last := a.now()
	v := &apiVersion{rv: last.rv + 1, pods: maps.Clone(last.pods), nodes: maps.Clone(last.nodes), budget: last.budget}
	change(v)
	a.history = append(a.history, v)
	return v
}

func (a *api) addNode(name string) {
	a.write(func(v *apiVersion) {
		v.nodes[name+"-uid"] = state.NewNode(&corev1.Node{ObjectMeta: metav1.ObjectMeta{
			Name: name, UID: types.UID(name + "-uid"), ResourceVersion: strconv.FormatUint(v.rv, 10),
		}, Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("4")}}})
	})
}

func (a *api) changeNode(uid string, change func(n *corev1.Node)) {
	a.write(func(v *apiVersion) {
		obj := v.nodes[uid].Object.DeepCopy()
		change(obj)
		obj.ResourceVersion = strconv.FormatUint(v.rv, 10)
		v.nodes[uid] = state.NewNode(obj)
	})
}

func (a *api) addPod(name string) {
	a.write(func(v *apiVersion) {
		v.pods[name+"-uid"] = state.NewPod(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: name, UID: types.UID(name + "-uid"), Generation: 1,
			ResourceVersion: strconv.FormatUint(v.rv, 10),
		}})
	})
}

// changePod writes a pod; a change without an effect does not move the resourceVersion.
func (a *api) changePod(uid string, change func(p *corev1.Pod)) *state.Pod {
	old := a.now().pods[uid]
	before, obj := old.Object(), old.Object().DeepCopy()
	change(obj)
	if maps.Equal(obj.Annotations, before.Annotations) && maps.Equal(obj.Labels, before.Labels) &&
		obj.Spec.NodeName == old.NodeName && obj.Generation == before.Generation &&
		slices.Equal(obj.Status.Conditions, before.Status.Conditions) &&
		obj.Status.NominatedNodeName == before.Status.NominatedNodeName &&
		(obj.DeletionTimestamp != nil) == old.Deleting && obj.Status.Phase == before.Status.Phase {
		return old
	}
	v := a.write(func(v *apiVersion) {
		obj.ResourceVersion = strconv.FormatUint(v.rv, 10)
		v.pods[uid] = state.NewPod(obj)
	})
	return v.pods[uid]
}

func (a *api) deletePod(uid string) { a.write(func(v *apiVersion) { delete(v.pods, uid) }) }

func annotate(key, value string) func(p *corev1.Pod) {
	return func(p *corev1.Pod) {
		if p.Annotations == nil {
			p.Annotations = map[string]string{}
		}
		p.Annotations[key] = value
	}
}

// bind is pods/binding as the API server enforces it: UID, resourceVersion, not bound, not being deleted, no gates.
// It does not check that the node exists or has room.
func (a *api) bind(e effect.Bind) effect.Result {
	p, ok := a.now().pods[e.Pod.UID]
	switch {
	case !ok:
		return effect.Gone
	case p.NodeName == e.NodeName:
		return effect.AlreadyHere
	case p.NodeName != "":
		return effect.Elsewhere
	case e.ResourceVersion != 0 && p.ResourceVersion != e.ResourceVersion, p.Deleting, p.Gated:
		return effect.Conflict
	}
	a.changePod(e.Pod.UID, func(p *corev1.Pod) {
		p.Spec.NodeName = e.NodeName
		if e.AnnotationsFull {
			p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{
				Type: effect.ConditionAttempt, Status: corev1.ConditionTrue, Message: e.Token.String() + " " + e.NodeName,
			})
			return
		}
		annotate(effect.AnnotationAttempt, e.Token.String())(p)
	})
	return effect.Done
}

// docLog is the ledger: every version of every document, in order.
type docLog struct {
	revision int64
	current  map[string]ledger.NodeDoc
	history  []ledger.NodeDoc
}

func (l *docLog) commit(t ledger.Txn) (ledger.TxnResult, error) {
	for _, c := range t.Compares {
		if l.current[c.Key].Revision != c.Revision {
			return ledger.TxnResult{Revision: l.revision}, nil
		}
	}
	l.revision++
	for _, p := range t.Puts {
		if !strings.HasPrefix(p.Key, ledger.PrefixNode) {
			continue
		}
		d, err := codec.DecodeNodeDoc(ledger.KV{Key: p.Key, Value: p.Value, ModRevision: l.revision})
		if err != nil {
			return ledger.TxnResult{}, err
		}
		l.current[p.Key] = d
		l.history = append(l.history, d)
	}
	return ledger.TxnResult{Succeeded: true, Revision: l.revision}, nil
}

// ablation leaves one part of the protocol out.
type ablation struct {
	noPrecondition, noRealChange, noMark, docBeforePod, noHighWater bool
}

// member is one binder, or one shard's view.
type member struct {
	// listing is a list of the ledger that is on its way to the binder.
	listing *effect.LedgerChanged
	facts   int // index into the API's history
	docs    int // how much of the ledger's history it has seen
	id      string
	core    *Core
	now     time.Time
	// lines holds the effects not sent yet.
	lines []effect.Effect
	// early holds documents read before the pod (ablation docBeforePod).
	early map[string]earlyDoc
}

type world struct {
	// noWish means that reservations do not record what was requested.
	noWish    bool
	api       *api
	ledger    *docLog
	binders   []*member
	shards    []*member
	late      []effect.Effect // requests in flight whose sender no longer waits
	released  map[string]bool
	published []events.Decision
	reported  []effect.Report
	placed    int
	starts    int
	off       ablation
	limits    basis.Limits
	start     time.Time
	trace     []string
}

// defaults are the protocol's limits.
var defaults = basis.DefaultLimits()

func testLimits() basis.Limits {
	l := basis.DefaultLimits()
	l.Binds, l.BindDeadline, l.Idle = 1, 3*time.Second, time.Second
	l.Retry = wait.Backoff{Duration: 100 * time.Millisecond, Factor: 2, Steps: 10, Cap: time.Second}
	return l
}

func newWorld(binders, nodes, pods int, off ablation) *world {
	w := &world{
		api: newAPI(), ledger: &docLog{current: map[string]ledger.NodeDoc{}}, released: map[string]bool{},
		off: off, limits: testLimits(), start: time.Unix(1000, 0),
	}
	for i := range nodes {
		w.api.addNode(fmt.Sprintf("n%d", i))
	}
	for i := range pods {
		w.api.addPod(fmt.Sprintf("p%d", i))
		w.shards = append(w.shards, &member{})
	}
	for range binders {
		b := &member{now: w.start}
		w.binders = append(w.binders, b)
		w.boot(b)
	}
	return w
}

func (w *world) logf(format string, args ...any) {
	w.trace = append(w.trace, fmt.Sprintf(format, args...))
}

// boot restarts a binder: it lists the ledger and takes all partitions. Its requests stay in flight.
func (w *world) boot(b *member) {
	for _, e := range b.lines {
		if _, ok := e.(effect.Bind); ok {
			w.late = append(w.late, e)
		}
	}
	w.starts++
	b.id = fmt.Sprintf("binder-%d", w.starts)
	everything := func(string, string) bool { return true }
	b.core, b.lines, b.early = NewCore(b.id, w.limits, everything), nil, map[string]earlyDoc{}
	b.docs = len(w.ledger.history)
	list := docsMoved(slices.SortedFunc(maps.Values(w.ledger.current), func(a, b ledger.NodeDoc) int {
		return int(a.Revision - b.Revision)
	})...).Batch
	for _, ev := range list.Events.Events {
		list.KVs = append(list.KVs, ev.KV)
	}
	list.Reset = true
	list.Events = ledger.EventBatch{Revision: w.ledger.revision}
	w.step(b, effect.LedgerChanged{Batch: list})
	w.hold(b, true)
	w.showFacts(b, b.facts)
}

func (w *world) hold(b *member, all bool) {
	var held []int32
	for p := range int32(64) {
		if all {
			held = append(held, p)
		}
	}
	w.step(b, effect.PartitionsChanged{Held: held})
}

func (w *world) step(b *member, in effect.Input) {
	for _, e := range b.core.Step(in, b.now) {
		switch e := e.(type) {
		case effect.Publish:
			w.published = append(w.published, e.Decision)
		case effect.Report:
			w.reported = append(w.reported, e)
		case effect.Stop:
			panic(e.Err)
		case effect.Fault:
			panic(fmt.Sprintf("fault: %s: %v", e.What, e.Err))
		default:
			b.lines = append(b.lines, e)
		}
	}
}

// showFacts advances a binder's facts to the history's index to.
func (w *world) showFacts(b *member, to int) {
	v := w.api.history[to]
	in := effect.FactsChanged{Cluster: v, Sequence: uint64(to + 1), PodProgress: v.rv, PodProgressKnown: true}
	for i := b.facts; i < to; i++ {
		for uid, old := range w.api.history[i].pods {
			if next, ok := w.api.history[i+1].pods[uid]; ok && next != old && old.NodeName == "" && next.NodeName == "" {
				in.Replaced = append(in.Replaced, old)
			}
		}
	}
	b.facts = to
	w.step(b, in)
}

func (w *world) showDocs(b *member, to int) {
	if to <= b.docs {
		return
	}
	in := docsMoved(w.ledger.history[b.docs:to]...)
	b.docs = to
	w.step(b, in)
}

// docsMoved returns the step of the ledger's watch that puts documents, in the order of their revisions.
func docsMoved(docs ...ledger.NodeDoc) effect.LedgerChanged {
	var out ledger.EventBatch
	for _, d := range docs {
		value, err := codec.EncodeNodeDoc(d)
		if err != nil {
			panic(err)
		}
		out.Revision = d.Revision
		out.Events = append(out.Events, ledger.Event{
			KV: ledger.KV{Key: ledger.KeyNode(d.NodeUID), Value: value, ModRevision: d.Revision},
		})
	}
	return effect.LedgerChanged{Batch: replica.Batch{Events: out}}
}

// wish returns what a reservation records of the request; nothing if it is of a member of an earlier version.
func (w *world) wish(p *state.Pod) uint64 {
	if w.noWish {
		return 0
	}
	return p.PlacementHash()
}

// place makes the shard of a pod reserve a place by what its views show (T1): entries of pods that its API view shows
// neither bound nor deleted count, and the node must be usable.
func (w *world) place(pod, node int) bool {
	s := w.shards[pod]
	view := w.api.history[s.facts]
	uid, nodeUID := fmt.Sprintf("p%d-uid", pod), fmt.Sprintf("n%d-uid", node)
	p, ok := view.pods[uid]
	docs := map[string]ledger.NodeDoc{}
	for _, d := range w.ledger.history[:s.docs] {
		docs[d.NodeUID] = d
	}
	if !ok || p.NodeName != "" || p.Deleting {
		return false
	}
	for _, d := range docs {
		if _, reserved := d.Find(uid); reserved {
			return false
		}
	}
	d, ok := docs[nodeUID]
	if !ok {
		d = ledger.NodeDoc{NodeUID: nodeUID, NodeName: fmt.Sprintf("n%d", node)}
	}
	if view.rv < d.HW[ledger.KindPod] || w.used(view, d) > 0 {
		return false
	}
	next, _ := txns.Finish(d, viewFacts{view})
	w.placed++
	next, err := txns.Place(next, ledger.Entry{
		PodUID: uid, Namespace: "ns", Name: p.Name, Role: ledger.RoleReservation, State: ledger.Committed,
		PodRV: p.ResourceVersion, PlacementHash: w.wish(p), Token: ledger.Token(w.placed), SchedulerName: "berth",
	})
	if err != nil {
		panic(err)
	}
	return w.replace(next)
}

// used counts what is or may come to be on the node (its capacity is 1).
func (w *world) used(view *apiVersion, d ledger.NodeDoc) int {
	n := 0
	for _, p := range view.pods {
		if p.NodeName == d.NodeName {
			n++
		}
	}
	for _, e := range d.Entries {
		if p, ok := view.pods[e.PodUID]; ok && p.NodeName == "" || !ok && view.rv < e.PodRV {
			n++
		}
	}
	return n
}

type viewFacts struct{ v *apiVersion }

func (f viewFacts) PodFact(uid string) (uint64, bool, bool) {
	p, ok := f.v.pods[uid]
	if !ok || p.NodeName == "" {
		return 0, false, ok
	}
	return p.ResourceVersion, true, true
}
func (f viewFacts) PodProgress() uint64 { return f.v.rv }

func (w *world) replace(next ledger.NodeDoc) bool {
	txn, err := txns.Replace(next)
	if err != nil {
		panic(err)
	}
	res, err := w.ledger.commit(txn)
	if err != nil {
		panic(err)
	}
	return res.Succeeded
}

// check finds a violated safety rule: S1 and S2 in the API's history (capacity is 1).
func (w *world) check() error {
	on := map[string]string{}
	for uid, p := range w.api.now().pods {
		if p.NodeName == "" {
			continue
		}
		if other, ok := on[p.NodeName]; ok {
			return fmt.Errorf("S1: %s and %s are both on %s", other, uid, p.NodeName)
		}
		on[p.NodeName] = uid
	}
	return nil
}

var _ effect.Cluster = (*apiVersion)(nil)
