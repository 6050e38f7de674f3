package decide

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/txns"
	"github.com/berth-scheduler/berth/pkg/seedtest"
	"github.com/berth-scheduler/berth/services/binder/decide/basis"
	"github.com/berth-scheduler/berth/services/binder/decide/effect"
)

// firstSeed replays walks: -args -seed n.
var firstSeed = flag.Uint64("seed", 0, "seed of the first walk; 0: TEST_SEED")

// decided commits what an agent has built, unless it could not be built.
func (w *planWorld) decided(what string, c txns.Change, err error) error {
	if err != nil {
		return nil
	}
	t, err := c.Txn()
	if err != nil {
		return err
	}
	r, err := w.commit(t)
	if err == nil && r.Succeeded {
		w.logf("%s", what)
		w.counts[what[:2]]++
	}
	return err
}

func (w *planWorld) authority(uid string) txns.Authority {
	p := ledger.PartitionOf(uid)
	return txns.Authority{Epochs: map[int32]int64{p: w.epochs[p]}}
}

func (a *agent) docs() []ledger.NodeDoc {
	var out []ledger.NodeDoc
	for _, n := range []string{"n0", "n1"} {
		d, ok := a.view.Doc(n + "-uid")
		if !ok {
			d = ledger.NodeDoc{NodeUID: n + "-uid", NodeName: n}
		}
		out = append(out, d)
	}
	return out
}

// victim returns one of the running pods, as an agent could choose it.
func (a *agent) victim(i int) (txns.NodeEntry, bool) {
	uid := fmt.Sprintf("v%d-uid", i)
	p, ok := a.api().pods[uid]
	if !ok || p.Deleting {
		return txns.NodeEntry{}, false
	}
	e := ledger.Entry{PodUID: uid, Namespace: "ns", Name: p.Name, PodRV: p.ResourceVersion}
	if hasBudget(uid) {
		e.Budgets = []string{pdbUID}
	}
	return txns.NodeEntry{NodeUID: p.NodeName + "-uid", Entry: e, Request: p.EvictsByRequest()}, true
}

func (a *agent) rooms() []txns.BudgetRoom {
	r := a.api().budgetRoom(a.view.Budgets().Of(pdbUID))
	if a.w.byStatus {
		r.Count = nil
	}
	return []txns.BudgetRoom{r}
}

func (w *planWorld) reservation(a *agent, i int, priority int32) (ledger.Entry, bool) {
	uid := fmt.Sprintf("p%d-uid", i)
	p, ok := a.api().pods[uid]
	if _, _, reserved := a.view.Entry(uid); !ok || reserved || p.NodeName != "" {
		return ledger.Entry{}, false
	}
	w.tokens++
	return ledger.Entry{
		PodUID: uid, Namespace: "ns", Name: p.Name, Role: ledger.RoleReservation, State: ledger.Held, Priority: priority,
		PodRV: p.ResourceVersion, Token: w.tokens, SchedulerName: "berth",
	}, true
}

// nominate is T2 for pod i, with one or two victims anywhere; the last agent moves one (T12).
func (w *planWorld) nominate(i int, pick choose) error {
	a := w.agents[i]
	var victims []txns.NodeEntry
	first := pick(6)
	for n := range 1 + pick(2) {
		if v, ok := a.victim((first + n*2) % 6); ok {
			victims = append(victims, v)
		}
	}
	if len(victims) == 0 {
		return nil
	}
	if i == len(w.agents)-1 {
		return w.move(a, victims[0], pick)
	}
	e, ok := w.reservation(a, i, int32(10+i))
	if !ok {
		return nil
	}
	c, err := txns.Nominate(txns.Nomination{
		Authority: w.authority(e.PodUID), Hold: txns.NodeEntry{NodeUID: fmt.Sprintf("n%d-uid", first%2), Entry: e},
		Victims: victims, Docs: a.docs(), Budgets: a.rooms(), Facts: a,
	})
	what := fmt.Sprintf("T2 of p%d with token %s, %d victims from v%d on", i, e.Token, len(victims), first)
	return w.decided(what, c, err)
}

// ask occasionally requests the eviction of a single pod.
func (w *planWorld) ask(pick choose) {
	if pick(4) > 0 {
		return
	}
	w.tokens++
	d := orderEvict(fmt.Sprintf("v%d", pick(6)), uint64(w.tokens))
	w.logf("the eviction of %s is asked for with token %s", d.Pod.UID, w.tokens)
	for _, b := range w.binders {
		w.step(b, effect.DecisionSeen{Decision: d})
	}
	w.listen()
}

func (w *planWorld) move(a *agent, v txns.NodeEntry, pick choose) error {
	w.tokens++
	c, err := txns.Relocate(txns.Relocation{
		Placeholder: txns.NodeEntry{NodeUID: fmt.Sprintf("n%d-uid", pick(2)), Entry: ledger.Entry{
			Namespace: "ns", Name: v.Entry.Name, Token: w.tokens,
			Replacement: ledger.Replacement{Owner: "rs", Template: "t"},
		}},
		Victim: v, Docs: a.docs(), Budgets: a.rooms(), Facts: a,
	})
	if err != nil {
		return nil
	}
	t, err := c.Txn()
	if err != nil {
		return err
	}
	r, err := w.commit(t)
	if err != nil || !r.Succeeded {
		return err
	}
	w.logf("T12 of %s with token %s", v.Entry.PodUID, w.tokens)
	w.counts["T12"]++
	if pick(8) == 0 {
		w.logf("nobody asks for its eviction")
		return nil
	}
	d := orderEvict(v.Entry.PodUID[:len(v.Entry.PodUID)-len("-uid")], uint64(w.tokens))
	d.LedgerRevision = r.Revision
	for _, b := range w.binders {
		w.step(b, effect.DecisionSeen{Decision: d})
	}
	w.listen()
	return nil
}

// hold returns the hold of pod i, or the last agent's oldest, in its view.
func (a *agent) hold(i int) (ledger.NodeDoc, ledger.Entry, bool) {
	if i < len(a.w.agents)-1 {
		d, e, ok := a.view.Entry(fmt.Sprintf("p%d-uid", i))
		return d, e, ok && e.State == ledger.Held
	}
	for _, d := range a.docs() {
		for _, e := range d.Entries {
			if e.Role == ledger.RoleMove {
				return d, e, true
			}
		}
	}
	return ledger.NodeDoc{}, ledger.Entry{}, false
}

// conclude is T3 of a plan whose victims are gone, and T8 of one that is given up.
func (w *planWorld) conclude(i int, giveUp bool) error {
	a := w.agents[i]
	d, e, ok := a.hold(i)
	if !ok {
		return nil
	}
	docs := a.view.Plans().Docs(e.Plan)
	if giveUp || e.Role == ledger.RoleMove {
		if e.Role == ledger.RoleMove && !giveUp {
			return nil
		}
		c, err := txns.AbortPlan(txns.Abort{Plan: e.Plan, Docs: docs,
			Budgets: []ledger.BudgetDoc{a.view.Budgets().Of(pdbUID)}})
		return w.decided("T8 of plan "+e.Plan, c, err)
	}
	p, ok := a.api().pods[e.PodUID]
	if !ok {
		return nil
	}
	docs = slices.DeleteFunc(docs, func(o ledger.NodeDoc) bool { return o.NodeUID == d.NodeUID })
	c, err := txns.Promote(txns.Promotion{
		Authority: w.authority(e.PodUID), Target: d, Docs: docs, PodUID: e.PodUID, Token: e.Token,
		PodRV: p.ResourceVersion, Fits: true, Facts: a,
	})
	return w.decided("T3 of plan "+e.Plan, c, err)
}

// displace makes pod 1 take pod 0's place (T4).
func (w *planWorld) displace() error {
	a := w.agents[1]
	d, hold, ok := a.view.Entry("p0-uid")
	e, free := w.reservation(a, 1, 11)
	if !ok || !free || hold.State != ledger.Held {
		return nil
	}
	docs := slices.DeleteFunc(a.view.Plans().Docs(hold.Plan),
		func(o ledger.NodeDoc) bool { return o.NodeUID == d.NodeUID })
	c, err := txns.Displace(txns.Displacement{
		Authority: w.authority(e.PodUID), Target: d, Docs: docs, PodUID: hold.PodUID, Token: hold.Token, Entry: e, Facts: a,
	})
	return w.decided(fmt.Sprintf("T4 of plan %s by p1", hold.Plan), c, err)
}

// walkPlans takes one random step.
func (w *planWorld) walkPlans(pick choose, faults bool) error {
	b := w.binders[pick(len(w.binders))]
	switch pick(14) {
	case 0:
		return w.nominate(pick(len(w.agents)), pick)
	case 1:
		return w.conclude(pick(len(w.agents)), faults && pick(4) == 0)
	case 2:
		if faults && pick(3) == 0 {
			return w.displace()
		}
	case 3:
		a := w.agents[pick(len(w.agents))]
		a.see(a.facts+pick(len(w.api.history)-a.facts), a.folded+pick(len(w.kv.log)-a.folded+1))
	case 4:
		w.showPlanFacts(b, b.facts+pick(len(w.api.history)-b.facts))
	case 5, 6:
		w.showLedger(b, b.docs+pick(len(w.kv.log)-b.docs+1))
	case 7, 8, 9:
		if len(b.lines) == 0 {
			return nil
		}
		f := delivered
		if faults && pick(4) == 0 {
			f = delivery(pick(5))
		}
		return w.performPlan(b, pick(len(b.lines)), f)
	case 10:
		b.now = b.now.Add(time.Duration(pick(20)) * 100 * time.Millisecond)
		w.step(b, effect.Tick{})
		w.listen()
	case 11:
		w.controller()
		w.ask(pick)
	case 12:
		w.endPod(pick(6))
	case 13:
		if faults {
			return w.disturbPlans(b, pick)
		}
	}
	return nil
}

// endPod simulates the kubelet: a pod that is being deleted ends.
func (w *planWorld) endPod(i int) {
	uid := fmt.Sprintf("v%d-uid", i)
	if p, ok := w.api.now().pods[uid]; ok && p.Deleting {
		w.api.deletePod(uid)
	}
}

func (w *planWorld) disturbPlans(b *member, pick choose) error {
	switch pick(7) {
	case 6:
		if b.listing == nil {
			w.logf("%s lists the ledger anew, and what it is told comes later", b.id)
			b.listing = new(w.listed(b))
		}
	case 0:
		w.logf("%s crashes", b.id)
		w.bootPlans(b)
	case 1:
		w.logf("%s loses or gets all partitions", b.id)
		w.unsure = true
		w.hold(b, pick(2) == 0)
	case 2, 3:
		if len(w.late) > 0 {
			i := pick(len(w.late))
			e := w.late[i]
			w.late = slices.Delete(w.late, i, i+1)
			w.logf("late: %s", describe(e))
			_, err := w.carryOutPlan(e)
			return err
		}
	case 4:
		if uid := fmt.Sprintf("p%d-uid", pick(2)); pick(6) == 0 && w.api.now().pods[uid] != nil {
			w.logf("%s is deleted", uid)
			w.api.deletePod(uid)
		}
	case 5:
		if pick(2) == 0 {
			w.logf("the disruption controller stops waiting")
			w.stopped = true
			w.api.write(func(v *apiVersion) { v.budget.disrupted = map[string]bool{} })
			w.controller()
			return nil
		}
		uid := fmt.Sprintf("v%d-uid", pick(4))
		if p, ok := w.api.now().pods[uid]; ok && !p.Deleting && w.api.now().budget.allowed > 0 && pick(6) == 0 {
			w.logf("somebody else evicts %s", uid)
			w.foreign = true
			w.take(uid)
			w.leave(uid)
		}
	}
	return nil
}

// endPlanFaults ends the faults and lets all members work until nothing is left to do.
func (w *planWorld) endPlanFaults() error {
	for len(w.late) > 0 {
		e := w.late[0]
		w.late = w.late[1:]
		if _, err := w.carryOutPlan(e); err != nil {
			return err
		}
	}
	for i, b := range w.binders {
		w.share(b, i)
	}
	for round := range 400 {
		// A request without an answer cannot arrive any more; a binder that takes an eviction over when its plan is
		// given up waits as long again.
		if round == 100 || round == 300 {
			for _, b := range w.binders {
				b.now = b.now.Add(w.limits.EvictionHang)
			}
		}
		for i := range 6 {
			w.endPod(i)
		}
		w.controller()
		for i, a := range w.agents {
			a.see(len(w.api.history)-1, len(w.kv.log))
			_, e, _ := a.hold(i)
			p, runs := w.api.now().pods[e.PodUID]
			giveUp := e.Role != ledger.RoleMove && (w.refused[e.Plan] || !runs || round > 200 || p.Deleting)
			if err := w.conclude(i, giveUp); err != nil {
				return err
			}
		}
		for _, b := range w.binders {
			if err := w.workPlans(b); err != nil {
				return err
			}
		}
	}
	return w.settledPlans()
}

// settledPlans requires that nothing is left of any plan, in the ledger or in memory.
func (w *planWorld) settledPlans() error {
	for d := range w.truth.Docs() {
		for _, e := range d.Entries {
			return fmt.Errorf("L2: %s still has %s of %s (%s, plan %s)", d.NodeUID, e.Role, e.PodUID, e.State, e.Plan)
		}
	}
	if b := w.truth.Budgets().Of(pdbUID); len(b.Claims) > 0 {
		return fmt.Errorf("the budget is still claimed by %+v", b.Claims)
	}
	for _, b := range w.binders {
		s := b.core.Stats()
		s.Hints, s.Conditions = 0, 0
		if s != (Stats{}) || b.core.Running() != 0 {
			return fmt.Errorf("%s remembers what is over: %+v, %d running", b.id, s, b.core.Running())
		}
	}
	for uid, p := range w.api.now().pods {
		if n := p.Status().NominatedNodeName; n != "" && p.NodeName == "" && w.starts == len(w.binders) && !w.unsure {
			return fmt.Errorf("%s is still nominated to %s", uid, n)
		}
	}
	return nil
}

func (w *planWorld) runPlans(seed uint64, steps int, faults bool) error {
	r := rand.New(rand.NewPCG(seed, 3))
	for range steps {
		if err := w.walkPlans(r.IntN, faults); err != nil {
			return err
		}
	}
	return w.endPlanFaults()
}

func planLimits() basis.Limits {
	l := testLimits()
	l.EvictionHang, l.PlanPause, l.Overdue, l.EvictionTries = time.Hour, 5*time.Second, time.Minute, 3
	l.KeepPlace = 10 * time.Second
	l.NominateAlone = 0 // no decision reports a nomination here
	return l
}

func walkedPlans(t *testing.T, binders int, seed uint64, faults bool, counts map[string]int) error {
	t.Helper()
	limits := planLimits()
	limits.EvictWithin = 2 * time.Second
	w := newPlanWorld(binders, 1+int(seed%2), limits)
	err := w.runPlans(seed, 250, faults)
	if err != nil {
		return fmt.Errorf("seed %d: %w\n%s", seed, err, strings.Join(w.trace, "\n"))
	}
	for what, n := range w.counts {
		counts[what] += n
	}
	if !faults {
		for uid, n := range w.calls {
			if n > 1 {
				return fmt.Errorf("seed %d: %s was evicted %d times\n%s", seed, uid, n, strings.Join(w.trace, "\n"))
			}
		}
	}
	for uid, n := range w.evicted {
		if n > 1 {
			return fmt.Errorf("seed %d: %s left %d times", seed, uid, n)
		}
	}
	return nil
}

// TestPlanWalks: whatever is lost, late or crashed, no pod is evicted unless its claim is marked, none is marked
// unless its plan has its place (S5, S9), what is claimed of the budget can be evicted and no more is (S6), documents
// take legal steps only, and once the faults end nothing is left of any plan.
func TestPlanWalks(t *testing.T) {
	base := seedtest.First(t, *firstSeed)
	walks := 1500
	if testing.Short() {
		walks = 200
	}
	counts := map[string]int{}
	for i := range uint64(walks) {
		if err := walkedPlans(t, 2, base+i, true, counts); err != nil {
			t.Fatal(err)
		}
	}
	for _, what := range []string{
		"T2", "T3", "T4", "T8", "evict-mark", "evict-take", "evict-failed", "budget-settle", "sweep", "evicted",
		"evict-claim",
		"evict-refused", "T12", "move-abort",
	} {
		if counts[what] == 0 {
			t.Errorf("never happened: %s (%v)", what, counts)
		}
	}
	t.Log(counts)
}

// TestPlanAblations: the parts of the machine are needed. A walk that finds nothing without them would not find a
// mistake in them.
func TestPlanAblations(t *testing.T) {
	for _, tc := range []struct {
		name, want string
		limit      func(l *basis.Limits)
		byStatus   bool
	}{
		{
			name: "an eviction without answer counts as failed", want: "S5",
			limit: func(l *basis.Limits) { l.EvictionHang = -1 },
		},
		{name: "the budget's status is believed", want: "S6", limit: func(*basis.Limits) {}, byStatus: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			const most = 20_000
			for seed := range uint64(most) {
				l := planLimits()
				tc.limit(&l)
				w := newPlanWorld(2, 1+int(seed%2), l)
				w.byStatus = tc.byStatus
				r := rand.New(rand.NewPCG(seed, 4))
				for range 250 {
					err := w.walkPlans(r.IntN, true)
					if err == nil {
						continue
					}
					if !strings.HasPrefix(err.Error(), tc.want) {
						t.Fatal(err)
					}
					t.Logf("seed %d after %d events: %v", seed, len(w.trace), err)
					return
				}
			}
			t.Fatalf("no broken rule in %d walks: the walk is blind to this part", most)
		})
	}
}

// TestPlanWalksWithoutFaults: with one binder and no losses, no eviction is sent twice.
func TestPlanWalksWithoutFaults(t *testing.T) {
	base := seedtest.First(t, *firstSeed)
	for i := range uint64(200) {
		if err := walkedPlans(t, 1, base+i, false, map[string]int{}); err != nil {
			t.Fatal(err)
		}
	}
}
