package decide_test

import (
	"flag"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/codec"
	"github.com/berth-scheduler/berth/pkg/ledger/invariant"
	"github.com/berth-scheduler/berth/pkg/ledger/txns"
	"github.com/berth-scheduler/berth/services/scheduler/decide/step"
)

// preemptSeeds is how many histories TestShardsPreempt tries, preemptFirst the seed of the first.
var (
	preemptSeeds = flag.Uint64("preempt-seeds", 15, "histories of shards that preempt")
	preemptFirst = flag.Uint64("preempt-first", 0, "seed of the first of them")
)

// arena is a world in which pods have priorities, and that plays binders, kubelets and the disruption controller.
type arena struct {
	*world
	budgets map[string]*policyv1.PodDisruptionBudget
	// evicted maps each victim to the plan that it was evicted for; fulfilled are the plans whose pod was placed,
	// spoiled those whose pod was deleted.
	evicted              map[string]string
	fulfilled, abandoned map[string]bool
	docsBefore           map[string]ledger.NodeDoc
	seenHistory          int
	displaced            int
	// recreatesBudgets: budgets are deleted and created again; recreated counts that.
	recreatesBudgets bool
	recreated        int
	// quiet is the number of turns until the next one is allowed.
	quiet int
	// refused counts evictions that the API server refused because of a budget that was created again. uncounted are the
	// budgets, by UID, under which a pod was evicted that no budget covered when it was claimed.
	refused   int
	uncounted map[string]bool
}

func newArena(t *testing.T, seed uint64, shards int) *arena {
	return arenaIn(newWorld(t, seed, shards))
}

func arenaIn(w *world) *arena {
	return &arena{
		world: w, budgets: map[string]*policyv1.PodDisruptionBudget{},
		evicted: map[string]string{}, fulfilled: map[string]bool{}, abandoned: map[string]bool{},
		docsBefore: map[string]ledger.NodeDoc{}, uncounted: map[string]bool{},
	}
}

func ready(p *corev1.Pod) {
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
}

func (a *arena) addBudget(app string, atLeast int) {
	b := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: app, UID: types.UID("pdb-" + app), Generation: 1},
		Spec: policyv1.PodDisruptionBudgetSpec{
			Selector: appIn(app), MinAvailable: &intstr.IntOrString{IntVal: int32(atLeast)},
		},
	}
	b.Status.ObservedGeneration, b.Status.DesiredHealthy = 1, int32(atLeast)
	a.budgets[app] = b
	a.count(b)
}

// count does the work of the disruption controller.
func (a *arena) count(b *policyv1.PodDisruptionBudget) {
	healthy := a.healthy(b.Name)
	b.Status.CurrentHealthy, b.Status.DisruptionsAllowed = healthy, max(0, healthy-b.Status.DesiredHealthy)
	a.publishBudget(b)
}

func (a *arena) healthy(app string) (n int32) {
	for _, p := range a.pods {
		if p.Labels["app"] == app && p.Spec.NodeName != "" && p.DeletionTimestamp == nil {
			n++
		}
	}
	return n
}

func (a *arena) publishBudget(b *policyv1.PodDisruptionBudget) {
	a.rv++
	b.ResourceVersion = fmt.Sprint(a.rv)
	raw, err := b.Marshal()
	if err != nil {
		a.t.Fatal(err)
	}
	a.fact(events.Fact{
		Kind: events.KindDisruptionBudget, Op: events.OpUpsert, UID: string(b.UID), Namespace: "d", Name: b.Name, Object: raw,
	})
}

// breaks notes a broken promise.
func (a *arena) breaks(format string, args ...any) {
	a.broken = append(a.broken, fmt.Sprintf(format, args...))
}

// binder does one step of the work of binders and kubelets.
func (a *arena) binder() {
	switch a.rng.IntN(6) {
	case 0:
		a.bindOne()
	case 1:
		for _, uid := range sortedPods(a.pods) {
			if len(a.mark(uid)) > 0 {
				return
			}
		}
	case 2:
		a.evict()
	case 3:
		a.stop()
	case 4:
		a.fence()
	case 5:
		for _, app := range slices.Sorted(maps.Keys(a.budgets)) {
			a.count(a.budgets[app])
		}
	}
}

// evict sends one eviction that is due. The API server finally decides on budgets, but the claims on them must
// exist.
func (a *arena) evict() {
	claims := a.claims()
	for _, uid := range slices.Sorted(maps.Keys(claims)) {
		p, ok := a.pods[uid]
		if !ok || claims[uid].State != ledger.Evicting || p.DeletionTimestamp != nil || a.rng.IntN(2) == 0 {
			continue
		}
		if b, covered := a.budgets[p.Labels["app"]]; covered {
			healthy := a.healthy(b.Name)
			counted := slices.Contains(claims[uid].Budgets, string(b.UID))
			if a.recreatesBudgets && healthy-1 < b.Status.DesiredHealthy && (!counted || a.uncounted[string(b.UID)]) {
				a.refuse(uid, claims[uid])
				return
			}
			a.uncounted[string(b.UID)] = a.uncounted[string(b.UID)] || len(claims[uid].Budgets) == 0
			if healthy-1 < b.Status.DesiredHealthy {
				a.breaks("the eviction of %s exceeds budget %s: %d healthy, want %d", uid, b.Name, healthy, b.Status.DesiredHealthy)
			}
			b.Status.DisruptionsAllowed--
			a.publishBudget(b)
		}
		if plan, twice := a.evicted[uid]; twice {
			a.breaks("%s is evicted for plans %s and %s", uid, plan, claims[uid].Plan)
		}
		a.evicted[uid] = claims[uid].Plan
		now := metav1.Unix(1, 0)
		p.DeletionTimestamp = &now
		a.publish(p)
		return
	}
}

// refuse makes the API server refuse an eviction because of a budget that it has no claim on, since the budget was
// created later, or from which a pod has taken that no budget covered when it was claimed. The binder gives up the
// eviction's plan.
func (a *arena) refuse(uid string, claim ledger.Entry) {
	d, _, _ := a.ledgerView().Plans().Victim(uid)
	failed, err := txns.FailEviction(d, uid, claim.Plan)
	if err != nil {
		a.t.Fatal(err)
	}
	a.change(txns.Change{Docs: []ledger.NodeDoc{failed}})
	now := a.ledgerView()
	abort := txns.Abort{Plan: claim.Plan, Docs: now.Plans().Docs(claim.Plan)}
	byUID := func(a, b ledger.BudgetDoc) int { return strings.Compare(a.UID, b.UID) }
	for _, b := range slices.SortedFunc(now.Budgets().All(), byUID) {
		if slices.ContainsFunc(b.Claims, func(c ledger.BudgetClaim) bool { return c.Plan == claim.Plan }) {
			abort.Budgets = append(abort.Budgets, b)
		}
	}
	change, err := txns.AbortPlan(abort)
	if err != nil {
		a.t.Fatal(err)
	}
	a.change(change)
	a.abandoned[claim.Plan] = true
	a.refused++
}

// stop ends one pod that is stopping.
func (a *arena) stop() {
	for _, uid := range sortedPods(a.pods) {
		if a.pods[uid].DeletionTimestamp != nil && a.rng.IntN(2) == 0 {
			a.deletePod(uid)
			return
		}
	}
}

// fence gives back a reservation that a plan wants.
func (a *arena) fence() {
	for _, d := range a.docs() {
		for _, e := range d.Entries {
			p, ok := a.pods[e.PodUID]
			if e.Role != ledger.RoleReservation || !e.Wanted || !ok || p.Spec.NodeName != "" {
				continue
			}
			marked, err := txns.MarkFencing(d, e.PodUID, e.Token, ledger.FenceByWant)
			if err == nil {
				a.change(txns.Change{Docs: []ledger.NodeDoc{marked}})
				return
			}
			a.publish(p)
			rv, _ := strconv.ParseUint(p.ResourceVersion, 10, 64)
			if free, err := txns.ReleaseFenced(d, e.PodUID, e.Token, rv); err == nil {
				a.change(txns.Change{Docs: []ledger.NodeDoc{free}})
				return
			}
		}
	}
}

// watch checks each change of the ledger, and records how plans end.
func (a *arena) watch() {
	for ; a.seenHistory < len(a.history); a.seenHistory++ {
		for _, ev := range a.history[a.seenHistory].Events {
			if ev.Deleted || !strings.HasPrefix(ev.Key, ledger.PrefixNode) {
				continue
			}
			a.watchDoc(ev.KV)
		}
	}
	for _, v := range invariant.CheckClaims(slices.Values(a.docs())) {
		a.breaks("%v", v)
	}
}

// watchDoc checks one step of one document.
func (a *arena) watchDoc(kv ledger.KV) {
	after, err := codec.DecodeNodeDoc(kv)
	if err != nil {
		a.t.Fatal(err)
	}
	before := a.docsBefore[after.NodeUID]
	a.docsBefore[after.NodeUID] = after
	found := slices.Concat(invariant.CheckDoc(after), invariant.CheckDisplaced(before, after))
	if before.NodeUID != "" {
		found = append(found, invariant.CheckSuccessor(before, after)...)
	}
	for _, v := range found {
		a.breaks("revision %d: %v", kv.ModRevision, v)
	}
	for _, e := range after.Entries {
		if _, there := a.pods[e.PodUID]; e.Plan != "" && e.Role == ledger.RoleReservation && !there {
			a.abandoned[e.Plan] = true // its shard does not know yet that the pod was deleted
		}
	}
	for _, old := range before.Entries {
		if old.Role != ledger.RoleReservation || old.State != ledger.Held {
			continue
		}
		if now, ok := after.Find(old.PodUID); ok && now.State == ledger.Committed {
			a.fulfilled[old.Plan] = true
		}
		if now, ok := after.Owner(old.Plan); ok && now.PodUID != old.PodUID {
			a.displaced++
		}
	}
}

// run plays a number of turns.
func (a *arena) run(turns int) {
	for range turns {
		a.quiet--
		underWay := func(s *shard) bool { return s.commit != nil }
		if a.recreatesBudgets && a.quiet < 0 && a.rng.IntN(4) == 0 && slices.ContainsFunc(a.shards, underWay) {
			a.recreateBudget()
			a.quiet = 100
		}
		switch n := a.rng.IntN(40); {
		case n == 0:
			a.offer()
		case n < 6:
			a.binder()
		default:
			a.deliver()
		}
		a.watch()
		a.audit()
		if len(a.broken) > 0 {
			return
		}
	}
}

// Shards have pods that want each other's places, with budgets, late facts and lost answers: no victim is claimed or
// evicted twice, no budget is exceeded, no pod is evicted for a pod that does not get its place, and in the end
// nothing is held.
func TestShardsPreempt(t *testing.T) {
	total := map[string]int{}
	for seed := *preemptFirst; seed < *preemptFirst+*preemptSeeds && !t.Failed(); seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			a := newArena(t, seed, 2+int(seed%2))
			a.play()
			for _, broken := range a.broken {
				t.Error(broken)
			}
			total["evicted"] += len(a.evicted)
			total["displaced"] += a.displaced
			total["fulfilled"] += len(a.fulfilled)
			for _, s := range a.shards {
				total["conflicts"] += s.conflicts
			}
		})
	}
	t.Logf("%d histories: %v", *preemptSeeds, total)
	if *preemptSeeds >= 30 && (total["evicted"] == 0 || total["displaced"] == 0 || total["conflicts"] == 0) {
		t.Errorf("%v: want some of each", total)
	}
}

func (a *arena) play() {
	nodes, room := 2+a.rng.IntN(3), 1+a.rng.IntN(3)
	for n := range nodes {
		a.addNode(fmt.Sprintf("n%d", n), int64(room))
		for i := range room {
			priority, app := int32(a.rng.IntN(3)), fmt.Sprintf("app%d", a.rng.IntN(3))
			if a.recreatesBudgets {
				app = "app0"
			}
			a.running(fmt.Sprintf("low-%d-%d", n, i), fmt.Sprintf("n%d", n), important(priority), ofApp(app), ready)
		}
	}
	if a.recreatesBudgets {
		a.addBudget("app0", nodes*room-1-a.rng.IntN(2))
	} else {
		a.addBudget("app0", a.rng.IntN(3))
		a.addBudget("app1", a.rng.IntN(2))
	}
	pods := 2 + a.rng.IntN(nodes*room+1)
	for i := range pods {
		a.addPod(fmt.Sprintf("p%d", i), important(int32(10*a.rng.IntN(5))), ofApp("app2"))
		a.run(10)
	}
	a.run(400)
	preemptor := ""
	if a.rng.IntN(3) == 0 {
		for _, uid := range sortedPods(a.pods) {
			if p := a.pods[uid]; p.Spec.NodeName == "" {
				preemptor = uid
			}
		}
	}
	if preemptor != "" {
		if _, hold, ok := a.hold(preemptor); ok {
			a.abandoned[hold.Plan] = true
		}
		a.deletePod(preemptor)
	}
	a.run(200)
	a.finish()
}

// finish lets everything settle, and checks what is left.
func (a *arena) finish() {
	for range 60 {
		a.offer()
		a.run(60)
		if len(a.broken) > 0 {
			return
		}
		a.now = a.now.Add(time.Second)
		for _, s := range a.shards {
			a.step(s, step.Input{Beat: true})
		}
	}
	for range 40 {
		a.settle()
		before := len(a.facts) + len(a.history)
		for range 30 {
			a.binder()
			a.watch()
		}
		for _, s := range a.shards {
			a.step(s, step.Input{Beat: true})
		}
		if len(a.history)+len(a.facts) == before {
			break
		}
	}
	for _, d := range a.docs() {
		for _, e := range d.Entries {
			if e.Role == ledger.RoleReservation && e.State == ledger.Held || e.Role == ledger.RoleVictim && e.State == 0 {
				a.breaks("%s of %s is left on %s: %+v", e.Role, e.PodUID, d.NodeName, e)
			}
		}
	}
	for uid, plan := range a.evicted {
		if !a.fulfilled[plan] && !a.abandoned[plan] {
			a.breaks("%s was evicted for plan %s, whose pod has not got its place", uid, plan)
		}
	}
}

// The compares of a T2 ensure the promises: without any one of them, some history breaks a promise.
func TestPreemptionNeedsItsCompares(t *testing.T) {
	for name, prefix := range map[string]string{
		"budgets": ledger.PrefixBudget, "nodes": ledger.PrefixNode, "budgets made again": ledger.PrefixBudget + "ns/",
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range ablationSeeds {
				a := newArena(t, seed, 2+int(seed%2))
				a.recreatesBudgets = name == "budgets made again"
				a.ablate = func(txn ledger.Txn) ledger.Txn { return claimsWithout(t, txn, prefix) }
				a.play()
				if len(a.broken) > 0 {
					t.Logf("seed %d: %s", seed, a.broken[0])
					return
				}
			}
			t.Errorf("no history of %d breaks a promise without the compares of %s", ablationSeeds, prefix)
		})
	}
}

// claimsWithout removes from a T2 its compares of keys with a prefix; other transactions stay as they are.
func claimsWithout(t *testing.T, txn ledger.Txn, prefix string) ledger.Txn {
	nominates := false
	for _, p := range txn.Puts {
		if !strings.HasPrefix(p.Key, ledger.PrefixNode) {
			continue
		}
		d, err := codec.DecodeNodeDoc(ledger.KV{Key: p.Key, Value: p.Value, ModRevision: 1})
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range d.Entries {
			nominates = nominates || e.Role == ledger.RoleVictim && e.State == 0
		}
	}
	if nominates {
		txn.Compares = slices.DeleteFunc(slices.Clone(txn.Compares), func(c ledger.Compare) bool {
			return strings.HasPrefix(c.Key, prefix)
		})
	}
	return txn
}

// recreatedSeeds is how many histories TestShardsPreemptAsBudgetsAreMadeAgain tries, recreatedFirst the seed of the
// first.
var (
	recreatedSeeds = flag.Uint64("remade-seeds", 20, "histories of budgets that are deleted and made again")
	recreatedFirst = flag.Uint64("remade-first", 0, "seed of the first of them")
)

// recreateBudget deletes a budget and creates it again under its name.
func (a *arena) recreateBudget() {
	apps := slices.Sorted(maps.Keys(a.budgets))
	app := apps[a.rng.IntN(len(apps))]
	old := a.budgets[app]
	a.rv++
	a.fact(events.Fact{
		Kind: events.KindDisruptionBudget, Op: events.OpDelete, UID: string(old.UID), Namespace: "d", Name: app,
	})
	a.recreated++
	b := old.DeepCopy()
	b.UID = types.UID(fmt.Sprintf("pdb-%s-%d", app, a.recreated))
	a.budgets[app] = b
	a.count(b)
}

// Budgets are deleted and created again while their pods are claimed and leave: none is exceeded.
func TestShardsPreemptAsBudgetsAreMadeAgain(t *testing.T) {
	evicted, refused := 0, 0
	for seed := *recreatedFirst; seed < *recreatedFirst+*recreatedSeeds && !t.Failed(); seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			a := newArena(t, seed, 2+int(seed%2))
			a.recreatesBudgets = true
			a.play()
			for _, broken := range a.broken {
				t.Error(broken)
			}
			evicted += len(a.evicted)
			refused += a.refused
		})
	}
	t.Logf("%d histories: %d evicted, %d refused", *recreatedSeeds, evicted, refused)
}
