package decide

import (
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/codec"
	"github.com/berth-scheduler/berth/pkg/ledger/invariant"
	"github.com/berth-scheduler/berth/pkg/ledger/replica"
	"github.com/berth-scheduler/berth/pkg/ledger/roster"
	"github.com/berth-scheduler/berth/pkg/ledger/txns"
	"github.com/berth-scheduler/berth/services/binder/decide/basis"
	"github.com/berth-scheduler/berth/services/binder/decide/effect"
)

// This is the world of plans: pods that run on nodes, some of them under one disruption budget, and pods that need
// their room. Shards nominate, promote, abort and displace, and a descheduler moves, each on lagging views; binders
// carry the plans out, with requests that are lost or late, or whose answers are.

const pdbUID = "pdb-uid"

// kvLog is the ledger: keys, and every transaction as the watch delivers it.
type kvLog struct {
	revision int64
	keys     map[string]ledger.KV
	log      []replica.Batch
}

// lost returns the answer of a transaction that has lost a compare. It reports false if it has lost none.
func (l *kvLog) lost(t ledger.Txn) (r ledger.TxnResult, lost bool) {
	for _, c := range t.Compares {
		kv := l.keys[c.Key]
		lost = lost || c.Target == ledger.ModRevision && kv.ModRevision != c.Revision ||
			c.Target == ledger.CreateRevision && kv.CreateRevision != c.Revision
	}
	r.Revision = l.revision
	for _, key := range t.Compared() {
		if kv, ok := l.keys[key]; ok {
			r.Current = append(r.Current, kv)
		}
	}
	return r, lost
}

func (l *kvLog) commit(t ledger.Txn) (r ledger.TxnResult) {
	if r, lost := l.lost(t); lost {
		return r
	}
	l.revision++
	b := replica.Batch{Events: ledger.EventBatch{Revision: l.revision}}
	for _, p := range t.Puts {
		kv := ledger.KV{Key: p.Key, Value: p.Value, ModRevision: l.revision, CreateRevision: l.keys[p.Key].CreateRevision}
		if kv.CreateRevision == 0 {
			kv.CreateRevision = l.revision
		}
		l.keys[p.Key] = kv
		b.Events.Events = append(b.Events.Events, ledger.Event{KV: kv})
	}
	for _, key := range t.Deletes {
		delete(l.keys, key)
		b.Events.Events = append(b.Events.Events,
			ledger.Event{Deleted: true, KV: ledger.KV{Key: key, ModRevision: l.revision}})
	}
	l.log = append(l.log, b)
	return ledger.TxnResult{Succeeded: true, Revision: l.revision}
}

// agent is a shard or the descheduler, with a view of the ledger and one of the API.
type agent struct {
	view   *replica.View
	folded int
	facts  int
	left   map[string]uint64
	w      *planWorld
}

func (a *agent) api() *apiVersion { return a.w.api.history[a.facts] }

func (a *agent) PodFact(uid string) (uint64, bool, bool) { return viewFacts{a.api()}.PodFact(uid) }
func (a *agent) PodProgress() uint64                     { return a.api().rv }
func (a *agent) BudgetProgress() uint64                  { return a.api().rv }
func (a *agent) VictimFate(uid string, podRV uint64) (txns.Fate, uint64) {
	p, known := a.api().pods[uid]
	switch {
	case known && p.Deleting:
		return txns.Leaving, p.ResourceVersion
	case known || a.api().rv < podRV:
		return txns.Staying, 0
	}
	if a.left[uid] == 0 {
		a.left[uid] = a.api().rv
	}
	return txns.Left, a.left[uid]
}

// see advances a view.
func (a *agent) see(facts, ledgerTo int) {
	a.facts = max(a.facts, facts)
	for ; a.folded < ledgerTo; a.folded++ {
		if _, err := a.view.Fold(a.w.kv.log[a.folded]); err != nil {
			panic(err)
		}
	}
}

type planWorld struct {
	*world
	kv     *kvLog
	truth  *replica.View
	agents []*agent
	epochs map[int32]int64
	tokens ledger.Token
	// evicted counts the evictions that made a pod leave, and calls those that were sent, by UID.
	evicted, calls map[string]int
	// refused holds the plans whose shards were informed that a victim cannot be evicted.
	refused map[string]bool
	counts  map[string]int
	// foreign means that another client has evicted as well; then not everything that is claimed can be evicted.
	foreign bool
	// unsure means that a nomination got no answer, or a partition changed hands: one may be left over.
	unsure bool
	// stopped means that the disruption controller has stopped waiting for evicted pods.
	stopped bool
	// byStatus means that budgets are claimed by their status alone.
	byStatus bool
}

// newPlanWorld has two nodes with three pods each, four of which are covered by a budget that allows some evictions,
// and as many pods as agents that need their room; the last agent moves pods.
func newPlanWorld(binders, allowed int, limits basis.Limits) *planWorld {
	w := &planWorld{
		world: newWorld(0, 2, 0, ablation{}), kv: &kvLog{keys: map[string]ledger.KV{}}, truth: replica.NewView(),
		epochs: map[int32]int64{}, evicted: map[string]int{}, calls: map[string]int{}, refused: map[string]bool{},
		counts: map[string]int{},
	}
	w.limits = limits
	for i := range 6 {
		w.api.addPod(fmt.Sprintf("v%d", i))
		w.api.changePod(fmt.Sprintf("v%d-uid", i), func(p *corev1.Pod) { p.Spec.NodeName = fmt.Sprintf("n%d", i%2) })
	}
	w.api.write(func(v *apiVersion) {
		v.budget = budgetStatus{rv: v.rv, allowed: allowed, desired: 4 - allowed, disrupted: map[string]bool{}}
	})
	for i := range 3 {
		w.api.addPod(fmt.Sprintf("p%d", i))
		w.agents = append(w.agents, &agent{view: replica.NewView(), left: map[string]uint64{}, w: w})
	}
	own := ledger.Txn{}
	for i := range 3 {
		p := ledger.PartitionOf(fmt.Sprintf("p%d-uid", i))
		if _, ok := w.epochs[p]; ok {
			continue
		}
		value, err := roster.EncodeOwner(roster.Owner{Member: "s"})
		if err != nil {
			panic(err)
		}
		own.Puts = append(own.Puts, ledger.Put{Key: roster.KeyOwn(p), Value: value})
		w.epochs[p] = 1
	}
	if _, err := w.commit(own); err != nil {
		panic(err)
	}
	for _, a := range w.agents {
		a.see(len(w.api.history)-1, len(w.kv.log))
	}
	for range binders {
		b := &member{now: w.start, facts: len(w.api.history) - 1}
		w.binders = append(w.binders, b)
		w.bootPlans(b)
	}
	return w
}

func hasBudget(uid string) bool {
	return slices.Contains([]string{"v0-uid", "v1-uid", "v2-uid", "v3-uid"}, uid)
}

// bootPlans restarts a binder. Its requests in flight are late or lost.
func (w *planWorld) bootPlans(b *member) {
	for i, e := range b.lines {
		if _, ok := e.(effect.Publish); !ok && i%2 == 0 {
			w.late = append(w.late, e)
		}
	}
	w.starts++
	b.id = fmt.Sprintf("binder-%d", w.starts)
	everything := func(string, string) bool { return true }
	b.core, b.lines = NewCore(b.id, w.limits, everything), nil
	b.listing = nil
	in := w.listed(b)
	w.step(b, in)
	w.hold(b, true)
	w.showPlanFacts(b, b.facts)
}

// listed returns what a binder reads as a list of the ledger made now. The watch continues behind it.
func (w *planWorld) listed(b *member) effect.LedgerChanged {
	b.docs = len(w.kv.log)
	kvs := slices.SortedFunc(maps.Values(w.kv.keys), func(a, b ledger.KV) int {
		return int(a.ModRevision - b.ModRevision)
	})
	return effect.LedgerChanged{Batch: replica.Batch{
		Reset: true, KVs: kvs, Events: ledger.EventBatch{Revision: w.kv.revision},
	}}
}

func nodeDocs(kv ledger.KV) []ledger.NodeDoc {
	if len(kv.Key) < 2 || kv.Key[:2] != ledger.PrefixNode {
		return nil
	}
	d, err := codec.DecodeNodeDoc(kv)
	if err != nil {
		panic(err)
	}
	return []ledger.NodeDoc{d}
}

func (w *planWorld) showPlanFacts(b *member, to int) {
	v := w.api.history[to]
	b.facts = to
	w.step(b, effect.FactsChanged{
		Cluster: v, Sequence: uint64(to + 1), PodProgress: v.rv, PodProgressKnown: true, BudgetProgress: v.rv,
	})
}

func (w *planWorld) showLedger(b *member, to int) {
	if b.listing != nil {
		w.step(b, *b.listing)
		b.listing = nil
	}
	for ; b.docs < to; b.docs++ {
		w.step(b, effect.LedgerChanged{Batch: w.kv.log[b.docs]})
	}
	w.listen()
}

// listen records what shards are informed of.
func (w *planWorld) listen() {
	for _, d := range w.published {
		if d.Kind == events.DecisionEvictRefused {
			w.refused[d.Token] = true
		}
		w.counts[string(d.Kind)]++
	}
	w.published = nil
}

// commit commits a change, and checks its effect.
func (w *planWorld) commit(t ledger.Txn) (ledger.TxnResult, error) {
	before := map[string]ledger.NodeDoc{}
	owned := map[string]bool{}
	for d := range w.truth.Docs() {
		before[d.NodeUID] = d
		for _, e := range d.Entries {
			if _, _, ok := w.truth.Plans().Owner(e.Plan); ok {
				owned[e.Plan] = true
			}
		}
	}
	budget := w.truth.Budgets().Of(pdbUID)
	r := w.kv.commit(t)
	if !r.Succeeded {
		return r, nil
	}
	if _, err := w.truth.Fold(w.kv.log[len(w.kv.log)-1]); err != nil {
		return r, err
	}
	var bad []invariant.Violation
	for d := range w.truth.Docs() {
		old := before[d.NodeUID]
		if d.Revision == old.Revision {
			continue
		}
		bad = append(append(bad, invariant.CheckDoc(d)...), invariant.CheckSuccessor(old, d)...)
		if uid, ok := w.leftAfterRefusal(old, d); ok {
			return r, fmt.Errorf("S5: the mark of %s went back, and it leaves", uid)
		}
		if e, ok := markedIn(old, d); ok && !owned[e.Plan] && !ledger.IsEviction(e.Plan) {
			return r, fmt.Errorf("S9: %s was marked for plan %s, which has no place", e.PodUID, e.Plan)
		}
	}
	bad = append(bad, invariant.CheckClaims(w.truth.Docs())...)
	bad = append(bad, invariant.CheckBudgetSuccessor(budget, w.truth.Budgets().Of(pdbUID))...)
	if len(bad) > 0 {
		return r, bad[0]
	}
	return r, w.checkBudget()
}

// markedIn returns a claim that was marked from one revision of a document to the next.
func markedIn(old, now ledger.NodeDoc) (ledger.Entry, bool) {
	for _, e := range now.Entries {
		was, _ := old.Victim(e.PodUID)
		if e.Role == ledger.RoleVictim && e.State == ledger.Evicting && was.State != ledger.Evicting {
			return e, true
		}
	}
	return ledger.Entry{}, false
}

// leftAfterRefusal returns a pod that leaves although its claim says that the evictions of it have failed.
func (w *planWorld) leftAfterRefusal(old, now ledger.NodeDoc) (string, bool) {
	for _, e := range old.Entries {
		after, claimed := now.Victim(e.PodUID)
		p, runs := w.api.now().pods[e.PodUID]
		if e.Role == ledger.RoleVictim && e.State == ledger.Evicting && claimed && after.State == 0 &&
			(!runs || p.Deleting) && !w.foreign {
			return e.PodUID, true
		}
	}
	return "", false
}

// checkBudget checks S6: what is claimed can be carried out, and enough pods stay running.
func (w *planWorld) checkBudget() error {
	v := w.api.now()
	if v.budget.rv == 0 {
		return nil
	}
	running, claimed := 0, 0
	b := w.truth.Budgets().Of(pdbUID)
	for uid, p := range v.pods {
		if hasBudget(uid) && !p.Deleting {
			running++
			if i := b.ClaimIndex(uid); i >= 0 && !b.Claims[i].Regardless {
				claimed++
			}
		}
	}
	if w.foreign && w.stopped {
		return nil // the API server itself has lost count
	}
	if w.foreign {
		claimed = 0
	}
	if running-claimed < v.budget.desired {
		return fmt.Errorf("S6: %d run, %d are claimed, the budget wants %d", running, claimed, v.budget.desired)
	}
	return nil
}

// evict is the eviction API: check, take from the budget, delete. A pod that is annotated has a webhook, which refuses
// every eviction of it, and its dry run.
func (w *planWorld) evict(e effect.Evict) (effect.Result, error) {
	p, ok := w.api.now().pods[e.Pod.UID]
	switch {
	case !ok:
		return effect.Gone, nil
	case p.EvictsByRequest() && !e.Delete:
		return effect.Throttled, nil
	case p.Deleting:
		return effect.Done, nil
	case p.Terminal:
		w.leave(e.Pod.UID) // no budget is checked
		return effect.Done, nil
	}
	budget := w.api.now().budget
	if hasBudget(e.Pod.UID) && budget.allowed == 0 {
		return effect.Throttled, nil
	}
	if e.DryRun {
		return effect.Done, nil
	}
	d, claim, ok := w.truth.Plans().Victim(e.Pod.UID)
	if !ok || claim.State != ledger.Evicting {
		return 0, fmt.Errorf("S5: %s is evicted, and its claim in %s is %s", e.Pod.UID, d.NodeUID, claim.State)
	}
	w.take(e.Pod.UID)
	w.leave(e.Pod.UID)
	return effect.Done, w.checkBudget()
}

// halfway is the fate of an eviction that has taken from the budget, and deletes the pod at some later time.
const halfway = requestLate + 1

type spent struct{ effect.Evict }

// evictHalf is the first half of evict, if it gets that far.
func (w *planWorld) evictHalf(e effect.Evict) {
	p, ok := w.api.now().pods[e.Pod.UID]
	if ok && !p.Deleting && !e.DryRun && (!hasBudget(e.Pod.UID) || w.api.now().budget.allowed > 0) {
		w.take(e.Pod.UID)
		w.late = append(w.late, spent{e})
	}
}

// finishEviction is the second half.
func (w *planWorld) finishEviction(e effect.Evict) error {
	p, ok := w.api.now().pods[e.Pod.UID]
	if !ok || p.Deleting {
		return nil
	}
	if _, claim, ok := w.truth.Plans().Victim(e.Pod.UID); !ok || claim.State != ledger.Evicting {
		return fmt.Errorf("S5: %s is evicted late, and its claim is %s", e.Pod.UID, claim.State)
	}
	w.leave(e.Pod.UID)
	return w.checkBudget()
}

// take takes one disruption from a pod's budget.
func (w *planWorld) take(uid string) {
	if hasBudget(uid) {
		w.api.write(func(v *apiVersion) {
			v.budget.rv, v.budget.allowed = v.rv, v.budget.allowed-1
			v.budget.disrupted = maps.Clone(v.budget.disrupted)
			v.budget.disrupted[uid] = true
		})
	}
}

// leave deletes a pod.
func (w *planWorld) leave(uid string) {
	w.evicted[uid]++
	w.api.changePod(uid, func(p *corev1.Pod) { now := metav1.Now(); p.DeletionTimestamp = &now })
}

// controller is the disruption controller.
func (w *planWorld) controller() {
	w.api.write(func(v *apiVersion) {
		v.budget.disrupted = maps.Clone(v.budget.disrupted)
		healthy := 0
		for uid, p := range v.pods {
			if p.Deleting {
				delete(v.budget.disrupted, uid)
			} else if hasBudget(uid) && !v.budget.disrupted[uid] {
				healthy++
			}
		}
		v.budget.rv, v.budget.allowed = v.rv, max(0, healthy-v.budget.desired)
	})
}

func (w *planWorld) performPlan(b *member, i int, f delivery) error {
	err := w.performQuietly(b, i, f)
	w.listen()
	return err
}

func (w *planWorld) performQuietly(b *member, i int, f delivery) error {
	e := b.lines[i]
	b.lines = slices.Delete(b.lines, i, i+1)
	w.logf("%s: %s (fate %d)", b.id, describe(e), f)
	if f == requestLate {
		w.late = append(w.late, e)
	}
	if ev, ok := e.(effect.Evict); ok && f == halfway {
		w.evictHalf(ev)
	}
	if _, ok := e.(effect.Nominate); ok && f != delivered {
		w.unsure = true
	}
	in := unknownPlan(e)
	if f == delivered || f == answerLost {
		done, err := w.carryOutPlan(e)
		if err != nil {
			return err
		}
		if f == delivered {
			in = done
		}
	}
	if ev, ok := e.(effect.Evict); ok && !ev.DryRun {
		w.calls[ev.Pod.UID]++
	}
	w.step(b, in)
	return nil
}

func describe(e effect.Effect) string {
	switch e := e.(type) {
	case effect.Amend:
		return "Amend " + e.Why
	case effect.Transact:
		return "Transact " + e.Why + " " + e.NodeUID
	}
	return fmt.Sprintf("%T %+v", e, e)
}

func unknownPlan(e effect.Effect) effect.Input {
	switch e := e.(type) {
	case effect.Amend:
		return effect.Amended{Op: e.Op, Result: effect.TxnUnknown, Problem: "timeout"}
	case effect.Nominate:
		return effect.Answered{Op: e.Op, Result: effect.Unknown, Problem: "timeout"}
	case effect.ReadBudget:
		return effect.Answered{Op: e.Op, Result: effect.Unknown, Problem: "timeout"}
	}
	return unknown(e)
}

func (w *planWorld) carryOutPlan(e effect.Effect) (effect.Input, error) {
	switch e := e.(type) {
	case spent:
		return nil, w.finishEviction(e.Evict)
	case effect.Amend:
		r, err := w.commit(e.Txn)
		if err != nil || !r.Succeeded {
			return effect.Amended{Op: e.Op, Result: effect.Lost, KVs: r.Current}, err
		}
		w.counts[e.Why]++
		return effect.Amended{Op: e.Op, Result: effect.Applied, KVs: e.Txn.Committed(r)}, nil
	case effect.Transact:
		r, err := w.commit(e.Txn)
		if err != nil || !r.Succeeded {
			current := nodeDocs(w.kv.keys[ledger.KeyNode(e.NodeUID)])
			return effect.Transacted{Op: e.Op, Result: effect.Lost, Current: &current[0]}, err
		}
		return effect.Transacted{Op: e.Op, Result: effect.Applied, Revision: r.Revision}, nil
	case effect.ReadDoc:
		docs := nodeDocs(w.kv.keys[ledger.KeyNode(e.NodeUID)])
		return effect.DocRead{Op: e.Op, Doc: &docs[0]}, nil
	case effect.Evict:
		r, err := w.evict(e)
		p, known := w.api.now().pods[e.Pod.UID]
		return effect.Answered{
			Op: e.Op, Result: r, Problem: r.String(), Intercepted: r == effect.Throttled && known && p.EvictsByRequest(),
		}, err
	case effect.ReadBudget:
		return effect.Answered{Op: e.Op, Result: effect.Done, ResourceVersion: w.api.now().budget.rv}, nil
	case effect.Bind:
		return effect.Answered{Op: e.Op, Result: w.api.bind(e), Pod: w.api.now().pods[e.Pod.UID]}, nil
	}
	return w.change(e)
}

func (w *planWorld) change(e effect.Effect) (effect.Input, error) {
	change := func(op effect.OpID, pod events.PodRef, f func(p *corev1.Pod)) (effect.Input, error) {
		if _, ok := w.api.now().pods[pod.UID]; !ok {
			return effect.Answered{Op: op, Result: effect.Gone}, nil
		}
		p := w.api.changePod(pod.UID, f)
		return effect.Answered{Op: op, Result: effect.Done, Pod: p, ResourceVersion: p.ResourceVersion}, nil
	}
	switch e := e.(type) {
	case effect.ReadPod:
		return change(e.Op, e.Pod, func(*corev1.Pod) {})
	case effect.FencePod:
		return change(e.Op, e.Pod, annotate(effect.AnnotationFence, e.Value))
	case effect.PatchCondition:
		if now, ok := w.api.now().pods[e.Pod.UID]; ok && e.ResourceVersion > 0 && now.ResourceVersion != e.ResourceVersion {
			return effect.Answered{Op: e.Op, Result: effect.Conflict, Pod: now}, nil
		}
		return change(e.Op, e.Pod, func(p *corev1.Pod) {
			p.Status.Conditions = []corev1.PodCondition{e.Condition}
			if e.NominatedNodeName != "" || e.ClearNomination {
				p.Status.NominatedNodeName = e.NominatedNodeName
			}
		})
	case effect.Nominate:
		if _, _, held := w.truth.Entry(e.Pod.UID); e.NodeName != "" && !held && len(w.late) == 0 {
			w.counts["nominated without a hold"]++
		}
		return change(e.Op, e.Pod, func(p *corev1.Pod) { p.Status.NominatedNodeName = e.NodeName })
	}
	return nil, fmt.Errorf("%T is not part of this world", e)
}

// share gives binder i its share of the partitions.
func (w *planWorld) share(b *member, i int) {
	var held []int32
	for p := range int32(64) {
		if int(p)%len(w.binders) == i {
			held = append(held, p)
		}
	}
	w.step(b, effect.PartitionsChanged{Held: held})
}

// workPlans shows a binder everything and lets it do what it can.
func (w *planWorld) workPlans(b *member) error {
	w.showPlanFacts(b, len(w.api.history)-1)
	w.showLedger(b, len(w.kv.log))
	b.now = b.now.Add(700 * time.Millisecond)
	w.step(b, effect.Tick{})
	for len(b.lines) > 0 {
		if err := w.performPlan(b, 0, delivered); err != nil {
			return err
		}
		w.showLedger(b, len(w.kv.log))
	}
	return nil
}
