package sim

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
)

// family is the emphasis of a run. Situations that need many steps in a row do not arise by chance in a run where
// everything else happens too, so some seeds are dedicated to them.
type family string

const (
	// ordinary: events are left to chance.
	ordinary family = "ordinary"
	// contested: the nodes are full, pods of many priorities want the same places, budgets run out while pods are on
	// their way out, and the processes that evict them die first.
	contested family = "contested"
	// succession: pods do get places that others leave, and lose them to still more important
	// ones, or before they are bound.
	succession family = "succession"
	// refreshed: few pods, which change between decision and bind, and binders that replace each
	// other right then, while the nodes close.
	refreshed family = "refreshed"
	// massive: one pod wants a node on which more pods run than one transaction can claim.
	massive family = "massive"
	// restarted: nodes close, and once the log shows that, shards restart and lag behind with the facts.
	restarted family = "restarted"
	// moved: there is a descheduler, which moves the pods of controllers to other nodes.
	moved family = "moved"
	// claimed: most pods want volumes that one pod at a time may use, several the same.
	claimed family = "claimed"
	// equipped: most pods want devices, of which there are few.
	equipped family = "equipped"
	// registered: nodes are deleted and register again under their names, while facts are late.
	registered family = "registered"
	// returned: partitions go to another shard and come back, while something that was decided before
	// waits, or is under way.
	returned family = "returned"
	// storeReplaced: the ledger's store is wiped, or restored from a backup.
	storeReplaced family = "anew"
	// sized: some pods are as large as documents and transactions can be, or larger.
	sized family = "sized"
	// migrated: moved, and a webhook turns the evictions of most pods into migrations. It has no share: TestMigrations
	// plays it.
	migrated family = "migrated"
	// grouped: most pods are members of groups, which are placed together. It has no share: TestGangs plays it.
	grouped family = "grouped"
)

// families are the shares of a hundred seeds; the rest are ordinary.
var families = []struct {
	family
	share int
}{
	{contested, 16}, {succession, 16}, {refreshed, 7}, {massive, 6}, {restarted, 4}, {moved, 16}, {claimed, 5},
	{equipped, 6}, {registered, 4}, {returned, 4},
	{storeReplaced, 8}, {sized, sizedShare},
}

// drawFamily returns the family of a run: the requested one, or else one drawn at random.
func (w *world) drawFamily() family {
	n := w.rng.IntN(100)
	switch {
	case w.budgets:
		return ordinary
	case w.cluster.family != "":
		return w.cluster.family
	}
	for _, f := range families {
		if n -= f.share; n < 0 {
			return f.family
		}
	}
	return ordinary
}

// drawWorkload draws the wishes of the users of a run, within the limits of its family.
func (c *cluster) drawWorkload(w *world) {
	c.rules, c.churning, c.ranked = w.chance(70), w.chance(40), w.chance(60)
	c.nodesFirst, c.podsFirst = 2+w.rng.IntN(4), 4+w.rng.IntN(4)
	switch {
	case w.budgets:
		c.rules, c.churning, c.ranked, c.strict, c.podsFirst = false, false, true, true, maxPods
		return
	case c.full():
		c.rules, c.churning, c.ranked, c.lingering = false, false, true, true
		c.nodesFirst, c.podsFirst = 3, maxPods
	case c.family == refreshed:
		c.rules, c.churning, c.ranked = false, false, false
		c.nodesFirst, c.podsFirst = 1+w.rng.IntN(2), 2
	case c.family == restarted:
		c.rules, c.churning, c.ranked = false, false, false
		c.nodesFirst, c.podsFirst = 4, 2
	case c.movesOnly():
		c.rules, c.churning, c.ranked = false, false, w.chance(50)
		c.nodesFirst, c.podsFirst, c.replicas = 4, 0, 4+w.rng.IntN(2)
	case c.family == claimed, c.family == equipped:
		c.rules = false
		c.nodesFirst, c.podsFirst = 3+w.rng.IntN(3), maxPods
	case c.family == registered:
		c.rules, c.churning = false, false
		c.nodesFirst, c.podsFirst = 2+w.rng.IntN(2), 6
	case c.family == storeReplaced:
		c.rules, c.churning = false, w.chance(30)
		w.goesBack = w.chance(48)
	case c.family == sized:
		c.rules, c.churning, c.ranked = false, false, false
		c.nodesFirst, c.podsFirst = 3, 4
	case c.family == returned:
		c.rules, c.churning = false, false
		c.nodesFirst, c.podsFirst = 4+w.rng.IntN(2), maxPods
	case c.family == grouped:
		c.rules = false
		c.nodesFirst, c.podsFirst = 5+w.rng.IntN(3), 2
		if c.ranked { // the nodes are full, and groups are more important
			c.nodesFirst, c.podsFirst = 3+w.rng.IntN(3), maxPods
		}
	case c.family == massive:
		c.rules, c.churning, c.ranked = false, false, true
		c.nodesFirst, c.podsFirst = 1, 2
	}
	c.crowded = c.ranked && (c.full() || c.family == ordinary && w.chance(60))
	if c.crowded {
		c.podsFirst = maxPods // the nodes are full, and evictions compete for what the budget allows
	}
}

// contest models what users do where places are short: they create more pods, now and then at any price, and delete
// pods that they do not need.
func (c *cluster) contest(w *world, p *corev1.Pod) {
	switch w.rng.IntN(8) {
	case 0:
		if p.Spec.NodeName != "" || w.chance(10) { // who waits is patient
			w.api.delete(string(p.UID))
		}
	case 1, 2:
		c.evict(w, p)
	case 3:
		w.disruptionController()
	default:
		if len(w.api.pods()) < 2*maxPods {
			c.addPod(w)
		}
	}
}

// scale models what users do where controllers make the pods: now and then they scale up or down, or a pod is
// deleted, or another pod wants capacity.
func (c *cluster) scale(w *world, p *corev1.Pod) {
	switch w.rng.IntN(30) {
	case 0:
		w.api.delete(string(p.UID))
	case 1:
		c.replicas = 3 + w.rng.IntN(3)
	case 2:
		if len(w.api.pods()) < c.replicas+4 {
			c.addPod(w)
		}
	case 3:
		if p.Spec.NodeName == "" {
			w.api.delete(string(p.UID))
		}
	case 4:
		w.disruptionController()
	case 5:
		c.touch(w, string(p.UID))
	}
}

// moves: there is a descheduler.
func (c *cluster) moves() bool { return c.movesOnly() || c.strict }

// movesOnly: the run is about what the descheduler moves.
func (c *cluster) movesOnly() bool { return c.family == moved || c.family == migrated }

// fewArrivals: pods come only as the family has it.
func (c *cluster) fewArrivals() bool {
	return c.movesOnly() || c.family == restarted || c.family == grouped
}

// own makes a pod one of a controller's.
func own(p *corev1.Pod, controller int) {
	yes := true
	name := fmt.Sprintf("rs%d", controller)
	p.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: "apps/v1", Kind: "ReplicaSet", Name: name, UID: types.UID(name), Controller: &yes,
	}}
}

// replace models how controllers replace their deleted pods.
func (c *cluster) replace(w *world, percent int) {
	missing := c.replicas
	for _, p := range w.api.pods() {
		if len(p.OwnerReferences) > 0 && p.DeletionTimestamp == nil && p.Status.Phase != corev1.PodSucceeded {
			missing--
		}
	}
	for ; missing > 0 && w.chance(percent); missing-- {
		p := c.newPod(1)
		own(p, 0)
		c.requestable(w, p)
		w.api.put(events.KindPod, p)
	}
}

// crowd is more pods than a transaction can claim, with a budget each.
const crowd = ledger.MaxTxnOps

// fillOneNode fills a node with pods that run, and has one pod want all of it.
func (c *cluster) fillOneNode(w *world) {
	n := c.newNode(crowd)
	w.api.put(events.KindNode, n)
	none := intstr.FromInt32(0)
	for i := range crowd {
		app := fmt.Sprintf("m%d", i)
		p := c.newPod(1)
		p.Labels["app"], p.Spec.NodeName = app, n.Name
		setCondition(p, corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionTrue})
		setCondition(p, corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue})
		w.api.put(events.KindPod, p)
		w.oracle.boundAt[string(p.UID)] = w.api.rv
		w.api.put(events.KindDisruptionBudget, newBudget(app, none))
	}
	p := c.newPod(crowd)
	p.Spec.Priority = &highest
	w.api.put(events.KindPod, p)
}

// full: the nodes are full, and the important pods come then.
func (c *cluster) full() bool { return c.family == contested || c.family == succession }

// priorities returns the priorities that pods of a ranked cluster may have. Where pods compete for places, the
// important ones come when the places are taken.
func (c *cluster) priorities(w *world) []int32 {
	switch {
	case c.full() && !w.faults.on:
		return []int32{0, 0, 0, 10}
	case c.full():
		return []int32{0, 10, 100, 100}
	}
	return []int32{0, 0, 10, 100}
}

// highest is above all priorities that pods are made with.
var highest = int32(1000)

func newBudget(app string, stay intstr.IntOrString) *policyv1.PodDisruptionBudget {
	return &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: app, UID: types.UID("pdb-" + app), Generation: 1},
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: selects(app), MinAvailable: &stay},
		Status:     policyv1.PodDisruptionBudgetStatus{ObservedGeneration: 1},
	}
}

// adverseEvent is a harmful event right after a transaction, with its probability.
type adverseEvent struct {
	percent int
	run     func(w *world, p *proc, t ledger.Txn)
}

// adverseEvents are those of each family, by transaction.
var adverseEvents = map[family]map[string][]adverseEvent{
	contested: {
		"T2":          {{12, preemptorDeleted}, {10, closedBudgets}},
		"evict-mark":  {{10, preemptorDeleted}, {15, orphaned}, {10, closedBudgets}, {8, evictorCrashes}},
		"evict-claim": {{45, closedBudgets}, {15, evictorCrashes}},
	},
	succession: {"T3": {{65, changing}}},
	moved:      {"T12": {{45, outnumbered}, {60, evictorCrashes}}},
	migrated:   {"evict-mark": {{20, evictorCrashes}}, "evict-claim": {{20, evictorCrashes}}},
	massive:    {"T2": {{20, preemptorDeleted}}, "evict-mark": {{30, preemptorDeleted}, {20, evictorCrashes}}},
	ordinary:   {"T11": {{40, observedLate}}},
	registered: {"T1": {{35, returns}}, "T15": {{25, returns}}},
	returned:   {"T1": {{30, roundTrips}}},
}

// runAdverseEvents runs the event that follows right after a transaction has been carried out.
func (w *world) runAdverseEvents(what string, p *proc, t ledger.Txn) {
	if !w.faults.on || w.cluster.strict {
		return
	}
	for _, a := range adverseEvents[w.cluster.family][what] {
		if w.chance(a.percent) {
			a.run(w, p, t)
			return
		}
	}
}

// placed are the pods with a hold in the documents that a transaction wrote, or that can be bound.
func (w *world) placed(t ledger.Txn, held bool) []string {
	var out []string
	for _, put := range t.Puts {
		if !isDoc(put.Key) {
			continue
		}
		d, _ := w.oracle.truth.Doc(put.Key[len(ledger.PrefixNode):])
		for _, e := range d.Entries {
			if e.Role == ledger.RoleReservation && held == (e.State == ledger.Held) {
				out = append(out, e.PodUID)
			}
		}
	}
	return out
}

// preemptorDeleted: the pod for which others are to be evicted is deleted, and the process that evicts them observes
// that late.
func preemptorDeleted(w *world, p *proc, t ledger.Txn) {
	for _, uid := range w.placed(t, true) {
		w.tracef("pod %s, for which others are to go, is deleted", uid)
		w.api.delete(uid)
	}
	for _, s := range w.shards {
		s.stall(500+w.rng.IntN(3000), w.rng.IntN(1000))
	}
	if p.role == "binder" {
		p.stall(200+w.rng.IntN(2000), 0)
	}
}

// orphaned: all pending pods are deleted, among them the one for which others are to be evicted. The process that
// evicts those observes the deletion later than every other process.
func orphaned(w *world, p *proc, _ ledger.Txn) {
	w.tracef("all pods that wait are deleted")
	for _, pod := range w.api.pods() {
		if pod.Spec.NodeName == "" {
			w.api.delete(string(pod.UID))
		}
	}
	p.stall(1500+w.rng.IntN(3000), 1000+w.rng.IntN(2000))
}

// observedLate: the others do not observe it for a while, and continue.
func observedLate(w *world, p *proc, _ ledger.Txn) {
	for _, s := range w.shards {
		if &s.proc != p {
			s.stall(0, 500+w.rng.IntN(3000))
		}
	}
}

// closedBudgets: for a while, the budgets require more pods to stay than exist.
func closedBudgets(w *world, _ *proc, _ ledger.Txn) {
	if w.cluster.closedUntil > 0 {
		return
	}
	w.cluster.closedUntil = w.now + time.Duration(1000+w.rng.IntN(8000))*time.Millisecond
	w.cluster.demand(w, maxPods*maxPods)
}

// close cordons every node: nothing is placed any more.
func (c *cluster) close(w *world) {
	for _, n := range w.api.nodes() {
		if n.Spec.Unschedulable {
			continue
		}
		n = n.DeepCopy()
		n.Spec.Unschedulable = true
		w.api.put(events.KindNode, n)
	}
}

// demand has every budget keep that many pods.
func (c *cluster) demand(w *world, stay int32) {
	for _, b := range w.api.budgets() {
		b = b.DeepCopy()
		n := intstr.FromInt32(stay)
		b.Spec.MinAvailable, b.Generation = &n, b.Generation+1
		w.api.put(events.KindDisruptionBudget, b)
	}
	w.disruptionController()
}

// reopen takes back what closedBudgets did.
func (c *cluster) reopen(w *world) {
	c.shrink(w)
	if c.closedUntil > 0 && (w.now >= c.closedUntil || !w.faults.on) {
		c.closedUntil = 0
		c.demand(w, c.stay(w))
	}
}

// changing: the pods in these documents change whenever they are about to be bound.
func changing(w *world, _ *proc, t ledger.Txn) {
	for _, uid := range w.placed(t, false) {
		w.faults.changing[uid] = w.now + time.Duration(1000+w.rng.IntN(4000))*time.Millisecond
	}
}

// outnumbered: more important pods come than there is capacity for, given the place that has just been kept.
func outnumbered(w *world, _ *proc, _ ledger.Txn) {
	room := w.api.free(w.oracle.placements())
	for range min(room+1, maxPods) {
		p := w.cluster.newPod(1)
		p.Spec.Priority = &highest
		w.api.put(events.KindPod, p)
	}
}

// free is the remaining capacity of all nodes together, after the pods in stand.
func (a *apiServer) free(all []podPlacement) int64 {
	left := int64(0)
	for _, n := range a.nodes() {
		left += room(n)
	}
	for _, s := range all {
		left -= size(s.pod)
	}
	return max(left, 0)
}

// evictorCrashes: the process that was to send the evictions dies first.
func evictorCrashes(_ *world, p *proc, _ ledger.Txn) { p.crash() }

// outrankPreemptor: while a victim terminates, a pod more important than its preemptor comes.
func (w *world) outrankPreemptor(priority int32) {
	if w.cluster.family != succession || !w.faults.on || !w.chance(50) || priority >= highest {
		return
	}
	p := w.cluster.newPod(1)
	p.Spec.Priority = &highest
	w.api.put(events.KindPod, p)
}

// heldUp are the transactions that are sometimes delayed until others have overtaken them, with the percentage of
// them: those that hardly ever race otherwise.
var heldUp = map[string]int{
	"T4": 30, "T7": 30, "evict-claim": 20, "evict-mark": 20, "evict-take": 30, "evict-failed": 95,
	"T12": 30, "move-abort": 65, "leftover": 50, "budget-settle": 60, "sweep": 85, "plan-drop": 90,
	"T15": 40, "T16": 60,
}

// heldUpIn are more of them, by family.
var heldUpIn = map[family]map[string]int{registered: {"T1": 30}, returned: {"T1": 45, "T13": 30}}

// delay keeps a transaction under way for a while, and lets something happen to its subject in the meantime: a pod is
// placed on the node, and others want its capacity.
func (w *world) delay(c *call, t ledger.Txn) {
	waits := func(o *call) bool { return o.what == c.what && w.now < o.until }
	percent := max(heldUp[c.what], heldUpIn[w.cluster.family][c.what])
	if !w.faults.on || !w.chance(percent) || slices.ContainsFunc(w.calls, waits) {
		return
	}
	c.until = w.now + time.Duration(100+w.rng.IntN(2500))*time.Millisecond
	w.meanwhile(c.what, t)
	if r, ok := w.oracle.truth.Plans().Record(strings.TrimPrefix(strings.Join(t.Deletes, ""), ledger.PrefixPlan)); ok {
		// Only the next owner of its partition touches the record of a plan that has ended.
		c.until += 3 * time.Second
		w.replace(c.who, r.PodUID)
	}
	if !w.cluster.full() || !w.chance(60) {
		return
	}
	for _, put := range t.Puts {
		d, ok := w.oracle.truth.Doc(strings.TrimPrefix(put.Key, ledger.PrefixNode))
		i := slices.IndexFunc(w.api.pods(), func(p *corev1.Pod) bool { return p.Spec.NodeName == d.NodeName })
		if ok && i >= 0 {
			w.api.remove(events.KindPod, string(w.api.pods()[i].UID))
			return
		}
	}
}
