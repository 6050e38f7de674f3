package sim

import (
	"maps"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/services/binder/decide/effect"
)

// evict is pods/eviction. Like the real one it spends from the budget before it compares the UID, deletes a pod that
// is not bound or is ending already, and fails for good with two budgets.
func (a *apiServer) evict(e effect.Evict) effect.Result {
	p, ok := a.pod(e.Pod.UID)
	if !ok {
		return effect.Gone
	}
	if p.DeletionTimestamp != nil {
		return effect.Done
	}
	if !annotationsFit(p) && !e.Delete {
		return effect.Refused // it writes a condition first
	}
	budgets := a.budgetsOf(p)
	if len(budgets) > 1 && !e.Delete {
		return effect.Unknown // 500, for ever
	}
	if len(budgets) == 1 && p.Spec.NodeName != "" && !e.Delete {
		b := budgets[0]
		if b.Status.DisruptionsAllowed <= 0 {
			return effect.Throttled
		}
		if !e.DryRun {
			b = b.DeepCopy()
			b.Status.DisruptionsAllowed--
			if b.Status.DisruptedPods == nil {
				b.Status.DisruptedPods = map[string]metav1.Time{}
			}
			b.Status.DisruptedPods[p.Name] = metav1.Unix(int64(a.rv), 0)
			a.put(events.KindDisruptionBudget, b)
		}
	}
	if !e.DryRun {
		a.delete(e.Pod.UID)
	}
	return effect.Done
}

func (a *apiServer) budgets() []*policyv1.PodDisruptionBudget {
	var out []*policyv1.PodDisruptionBudget
	for _, uid := range slices.Sorted(maps.Keys(a.objects[events.KindDisruptionBudget])) {
		if b, ok := a.objects[events.KindDisruptionBudget][uid].(*policyv1.PodDisruptionBudget); ok {
			out = append(out, b)
		}
	}
	return out
}

// covers: budgets here select by labels only, as newBudget makes them.
func covers(b *policyv1.PodDisruptionBudget, p *corev1.Pod) bool {
	return labels.SelectorFromValidatedSet(b.Spec.Selector.MatchLabels).Matches(labels.Set(p.Labels))
}

func (a *apiServer) budgetsOf(p *corev1.Pod) []*policyv1.PodDisruptionBudget {
	return slices.DeleteFunc(a.budgets(), func(b *policyv1.PodDisruptionBudget) bool { return !covers(b, p) })
}

// healthy are the pods of a budget that run.
func (a *apiServer) healthy(b *policyv1.PodDisruptionBudget) []*corev1.Pod {
	return healthyOf(b, a.pods())
}

func healthyOf(b *policyv1.PodDisruptionBudget, pods []*corev1.Pod) []*corev1.Pod {
	var out []*corev1.Pod
	for _, p := range pods {
		runs := p.Spec.NodeName != "" && p.DeletionTimestamp == nil && p.Status.Phase != corev1.PodSucceeded
		if runs && covers(b, p) {
			out = append(out, p)
		}
	}
	return out
}

// disruptionController is the real one's, with a cache as late as the moment it is called: it
// counts, and forgets the pods that have been taken from a budget once they leave.
func (w *world) disruptionController() {
	if w.apiAway() {
		return
	}
	pods := w.api.pods()
	for _, b := range w.api.budgets() {
		healthy := healthyOf(b, pods)
		old := b
		b = b.DeepCopy()
		waits := int32(0)
		for _, p := range healthy {
			if _, disrupted := b.Status.DisruptedPods[p.Name]; disrupted {
				waits++
			}
		}
		maps.DeleteFunc(b.Status.DisruptedPods, func(name string, _ metav1.Time) bool {
			return !slices.ContainsFunc(healthy, func(p *corev1.Pod) bool { return p.Name == name })
		})
		b.Status.CurrentHealthy = int32(len(healthy)) - waits
		b.Status.DesiredHealthy, b.Status.ObservedGeneration = b.Spec.MinAvailable.IntVal, b.Generation
		b.Status.ExpectedPods = int32(len(healthy))
		b.Status.DisruptionsAllowed = max(0, b.Status.CurrentHealthy-b.Status.DesiredHealthy)
		if !sameBudget(old, b) {
			w.api.put(events.KindDisruptionBudget, b)
		}
	}
}

func sameBudget(a, b *policyv1.PodDisruptionBudget) bool {
	return a.Status.ObservedGeneration == b.Status.ObservedGeneration &&
		a.Status.CurrentHealthy == b.Status.CurrentHealthy && a.Status.DesiredHealthy == b.Status.DesiredHealthy &&
		a.Status.DisruptionsAllowed == b.Status.DisruptionsAllowed &&
		len(a.Status.DisruptedPods) == len(b.Status.DisruptedPods)
}

// readBudget is a quorum read of a budget.
func (a *apiServer) readBudget(namespace, name string) effect.Answered {
	for _, b := range a.budgets() {
		if b.Namespace != namespace || b.Name != name {
			continue
		}
		rv, err := strconv.ParseUint(b.ResourceVersion, 10, 64)
		if err != nil {
			return effect.Answered{Result: effect.Unknown, Problem: err.Error()}
		}
		return effect.Answered{Result: effect.Done, ResourceVersion: rv}
	}
	return effect.Answered{Result: effect.Gone}
}

// evicted is a pod that was made to leave for another.
type evicted struct {
	victim, forPod, node, plan string
}

// evict carries an eviction out and looks at whether it was right.
func (w *world) evict(e effect.Evict) effect.Answered {
	p, runs := w.api.pod(e.Pod.UID)
	runs = runs && p.DeletionTimestamp == nil && p.Spec.NodeName != "" && p.Status.Phase != corev1.PodSucceeded
	if runs && byRequest(p) && !e.Delete {
		return w.request(e, p)
	}
	r := w.api.evict(e)
	w.hit("evict: " + r.String())
	if runs && r == effect.Done && !e.DryRun {
		w.oracle.evicted(p)
	}
	return effect.Answered{Result: r}
}

// evicted is S5, S6 and S22: a pod that runs leaves only under a claim that is Evicting, for a
// plan that had its place when it was marked, and within its budget.
func (o *oracle) evicted(p *corev1.Pod) {
	w := o.w
	uid := string(p.UID)
	_, claim, ok := o.truth.Plans().Victim(uid)
	if !ok {
		w.note("I9", "pod %s was evicted, and nobody wants its place any more", uid)
	}
	if !ok || claim.State != ledger.Evicting {
		w.note("S5", "pod %s was evicted, and the ledger has no claim on it that is Evicting (%t, %s)", uid, ok, claim.State)
		return
	}
	w.hit("victim evicted")
	for _, b := range w.api.budgetsOf(p) {
		if n := len(w.api.healthy(b)); w.cluster.strict && n < int(b.Spec.MinAvailable.IntVal) {
			w.note("S6", "pod %s was evicted, and of budget %s %d are left, not %s", uid, b.Name, n, b.Spec.MinAvailable)
		}
	}
	d, owner, ok := o.truth.Plans().Owner(claim.Plan)
	if ok && owner.Role == ledger.RoleMove {
		w.hit("victim of a move evicted")
	}
	if ok && owner.Role == ledger.RoleReservation {
		w.hit("victim of a preemption evicted")
		w.outrankPreemptor(owner.Priority)
		o.gone = append(o.gone, evicted{victim: uid, forPod: owner.PodUID, node: d.NodeName, plan: claim.Plan})
		for _, before := range o.gone[:len(o.gone)-1] {
			// In these runs each pod takes the capacity of one other pod. Plans on a cordoned node are abandoned,
			// even if pods were evicted for them; strict runs cordon no nodes.
			if w.cluster.strict && before.forPod == owner.PodUID && before.plan != claim.Plan {
				w.note("S22", "pods %s and %s were evicted for pod %s, under two plans", before.victim, uid, owner.PodUID)
			}
		}
	}
}

// followDisplaced follows plans that go to a more important pod (T4).
func (o *oracle) followDisplaced() {
	for i, g := range o.gone {
		if _, owner, ok := o.truth.Plans().Owner(g.plan); ok && owner.PodUID != g.forPod {
			o.gone[i].forPod = owner.PodUID
			o.w.hit("plan handed on")
		}
	}
}

// fenced handles a pod whose place was taken back before it was bound. If there was a reason for that, its evictions
// are attributed to it no longer: they serve the next pod.
func (o *oracle) fenced(e ledger.Entry, p *corev1.Pod) {
	if !slices.ContainsFunc(o.gone, func(g evicted) bool { return g.forPod == e.PodUID }) {
		return
	}
	o.w.hit("fenced after a preemption")
	if o.mayLose(e, p) {
		o.gone = slices.DeleteFunc(o.gone, func(g evicted) bool { return g.forPod == e.PodUID })
	}
}

// mayLose reports whether there is a reason for a fence: its binders could not bind the pod in time, a preemptor
// wants its place, the pod's request has changed since, or the pod has changed as often as binders tolerate.
func (o *oracle) mayLose(e ledger.Entry, p *corev1.Pod) bool {
	since, marked := o.committedAt[e.Token], o.markedAt[e.Token]
	changes := 0
	for _, c := range o.w.api.history {
		if c.rv > e.PodRV && c.rv <= marked.rv && c.kind == events.KindPod && string(c.object.GetUID()) == e.PodUID {
			changes++
		}
	}
	const slowClock = 50 // a clock may be wrong by one part in slowClock of a deadline
	return e.Wanted || marked.at-since.at >= bindDeadline-bindDeadline/slowClock ||
		state.NewPod(p.DeepCopy()).PlacementHash() != e.PlacementHash || changes >= limits().Losses
}

// checkClaims is I8: while only Berth evicts pods, all claimed pods that still run can be evicted within the budget.
func (o *oracle) checkClaims() {
	if !o.w.cluster.strict {
		return
	}
	for _, b := range o.w.api.budgets() {
		healthy := o.w.api.healthy(b)
		claimed := 0
		for _, p := range healthy {
			if _, e, ok := o.truth.Plans().Victim(string(p.UID)); ok && slices.Contains(e.Budgets, string(b.UID)) {
				claimed++
			}
		}
		if left := len(healthy) - claimed; claimed > 0 && left < int(b.Spec.MinAvailable.IntVal) {
			o.w.note("I8", "budget %s: of %d that run %d are claimed, and %s have to stay",
				b.Name, len(healthy), claimed, b.Spec.MinAvailable)
		}
	}
}

// checkWastedEvictions is I9, checked at the end of a run: a pod for which another pod was evicted has the place, or is
// deleted, or gave the place to a more important pod.
func (o *oracle) checkWastedEvictions() {
	for _, g := range o.gone {
		p, exists := o.w.api.pod(g.forPod)
		if !exists || p.Spec.NodeName == g.node || !o.w.cluster.strict {
			continue
		}
		o.w.note("I9", "pod %s was evicted from %s for pod %s, which is on %q now",
			g.victim, g.node, g.forPod, p.Spec.NodeName)
	}
}
