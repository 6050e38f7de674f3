package txns

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/codec"
	"github.com/berth-scheduler/berth/pkg/ledger/invariant"
	"github.com/berth-scheduler/berth/pkg/ledger/replica"
	"github.com/berth-scheduler/berth/pkg/ledger/sampletest"
)

// fates is a view that reports the same fate for every victim.
type fates struct {
	oneFact
	fate    Fate
	rv      uint64
	budgets uint64
}

func (f fates) VictimFate(string, uint64) (Fate, uint64) { return f.fate, f.rv }
func (f fates) BudgetProgress() uint64                   { return f.budgets }

// staying and gone are views at resourceVersion 200.
var (
	staying = fates{oneFact{boundRV: 60, bound: true, known: true, progress: 200}, Staying, 0, 200}
	gone    = fates{oneFact{progress: 200}, Left, 150, 200}
)

func authorityOf(entries ...ledger.Entry) Authority {
	m := Authority{Epochs: map[int32]int64{}}
	for _, e := range entries {
		m.Epochs[e.Partition()] = 3
	}
	return m
}

// plannedDoc has a hold with two victims, one of which is being evicted.
func plannedDoc() ledger.NodeDoc {
	plan := ledger.PlanID(1, false)
	hold := sampletest.Reservation("p", ledger.Held, 1)
	hold.Plan, hold.Priority = plan, 5
	return sampletest.DocOf(hold,
		ledger.Entry{PodUID: "v", Role: ledger.RoleVictim, Plan: plan, PodRV: 60, Budgets: []string{"b"}},
		ledger.Entry{PodUID: "w", Role: ledger.RoleVictim, Plan: plan, PodRV: 60, State: ledger.Evicting},
		ledger.Entry{PodUID: "k", Role: ledger.RoleKeeper, Dependents: []ledger.Dependent{{PodUID: "p", PodRV: 100}}})
}

// buildersOf returns every builder by name, with a hold, a budget and a pool as its input.
func buildersOf(
	hold ledger.Entry, budget ledger.BudgetDoc, pool ledger.ExclusiveDoc,
) map[string]func(d ledger.NodeDoc) (Change, error) {
	return map[string]func(d ledger.NodeDoc) (Change, error){
		"T2": func(d ledger.NodeDoc) (Change, error) {
			return Nominate(Nomination{
				Authority: authorityOf(hold), Hold: NodeEntry{NodeUID: "n1", Entry: hold}, Docs: []ledger.NodeDoc{d},
				Victims: []NodeEntry{{NodeUID: "n1", Entry: ledger.Entry{PodUID: "x", PodRV: 60, Budgets: []string{"b"}}}},
				Budgets: []BudgetRoom{{Doc: budget, Allowed: 2}}, Facts: staying,
			})
		},
		"T2 mark": func(d ledger.NodeDoc) (Change, error) {
			return MarkEvicting(EvictPlan{Plan: ledger.PlanID(1, false), Owner: d, Docs: []ledger.NodeDoc{d},
				Victims: []string{"v"}})
		},
		"T3": func(d ledger.NodeDoc) (Change, error) {
			return Promote(Promotion{
				Authority: authorityOf(d.Entries[0]), Target: d, PodUID: "p", Token: 1, PodRV: 100, Fits: true, Facts: gone,
			})
		},
		"T4": func(d ledger.NodeDoc) (Change, error) {
			return Displace(Displacement{
				Authority: authorityOf(hold), Target: d, PodUID: "p", Token: 1, Entry: hold, Facts: staying,
			})
		},
		"T8": func(d ledger.NodeDoc) (Change, error) {
			return AbortPlan(Abort{
				Plan: ledger.PlanID(1, false), Docs: []ledger.NodeDoc{d}, Budgets: []ledger.BudgetDoc{budget},
				Exclusives: []ledger.ExclusiveDoc{pool},
			})
		},
		"T8 in part": func(d ledger.NodeDoc) (Change, error) {
			return AbortPlan(Abort{
				Plan: ledger.PlanID(1, false), Docs: []ledger.NodeDoc{d}, Budgets: []ledger.BudgetDoc{budget}, Only: []string{"v"},
			})
		},
		"T10 failed": func(d ledger.NodeDoc) (Change, error) {
			d, err := FailEviction(d, "w", ledger.PlanID(1, false))
			return Change{Docs: []ledger.NodeDoc{d}, Budgets: []ledger.BudgetDoc{CoverBudget(budget, Failure{BudgetRV: 9})}}, err
		},
		"T10 declined": func(d ledger.NodeDoc) (Change, error) {
			d, err := DeclineEviction(d, "w", ledger.PlanID(1, false))
			if i := d.VictimIndex("w"); err == nil && (!d.Entries[i].Declined || d.Entries[i].State != 0) {
				err = fmt.Errorf("the claim is %+v", d.Entries[i])
			}
			return Change{Docs: []ledger.NodeDoc{d}}, err
		},
		"T12": func(d ledger.NodeDoc) (Change, error) {
			return Relocate(Relocation{
				Placeholder: NodeEntry{NodeUID: "n1", Entry: ledger.Entry{Token: 9,
					Replacement: ledger.Replacement{Owner: "o", Template: "t"}}},
				Victim: NodeEntry{NodeUID: "n1", Entry: ledger.Entry{PodUID: "x", PodRV: 60}},
				Docs:   []ledger.NodeDoc{d}, Facts: staying,
			})
		},
	}
}

// Every builder leaves its input unchanged, and its result is a legal successor.
func TestBuildersKeepTheirInput(t *testing.T) {
	hold := sampletest.Reservation("z", ledger.Committed, 9)
	hold.Priority = 6
	budget := ledger.BudgetDoc{UID: "b", Claims: []ledger.BudgetClaim{{PodUID: "v", PodRV: 60}}, Revision: 4}
	pool := ledger.ExclusiveDoc{Key: ledger.KeyPool("d", "p"), Holders: []ledger.Holder{
		{PodUID: "p", Token: 1, NodeUID: "n1", Items: []string{"i"}},
	}}
	for name, build := range buildersOf(hold, budget, pool) {
		before, wasBudget, wasPool := plannedDoc(), budget.Clone(), pool.Clone()
		var c Change
		_, err := sampletest.Frozen(t, before, func(d ledger.NodeDoc) (ledger.NodeDoc, error) {
			var err error
			c, err = build(d)
			return d, err
		})
		if err != nil || len(c.Docs) != 1 {
			t.Errorf("%s: %d documents, %v", name, len(c.Docs), err)
			continue
		}
		if diff := cmp.Diff(wasBudget, budget) + cmp.Diff(wasPool, pool); diff != "" {
			t.Errorf("%s changed its input:\n%s", name, diff)
		}
		for _, v := range append(invariant.CheckSuccessor(before, sampletest.At(c.Docs[0], 8)),
			invariant.CheckDoc(c.Docs[0])...) {
			t.Errorf("%s: %v", name, v)
		}
		if _, err := c.Txn(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAbortInPart(t *testing.T) {
	budget := ledger.BudgetDoc{UID: "b", Claims: []ledger.BudgetClaim{{PodUID: "v", PodRV: 60}}}
	c, err := AbortPlan(Abort{
		Plan: ledger.PlanID(1, false), Docs: []ledger.NodeDoc{plannedDoc()}, Budgets: []ledger.BudgetDoc{budget},
		Only: []string{"v", "w"},
	})
	if err != nil {
		t.Fatal(err)
	}
	_, held := c.Docs[0].Find("p")
	if !held || c.Docs[0].Claimed("v") || !c.Docs[0].Claimed("w") || len(c.Budgets[0].Claims) != 0 {
		t.Errorf("%+v, want the claim on v gone, and nothing else", c)
	}
}

// A member may have learned a document ahead of the watch, but not yet a budget: an abort by that member must not
// leave the claim behind.
func TestAbortWithAnOlderBudgetLoses(t *testing.T) {
	older := ledger.BudgetDoc{UID: "b", Namespace: "ns", Name: "b", Revision: 5}
	c, err := AbortPlan(Abort{Plan: ledger.PlanID(1, false), Docs: []ledger.NodeDoc{plannedDoc()},
		Budgets: []ledger.BudgetDoc{older}})
	if err != nil {
		t.Fatal(err)
	}
	txn, err := c.Txn()
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(txn.Compares, func(c ledger.Compare) bool {
		return c.Key == ledger.KeyBudget("b") &&
			c.Revision == 5
	}) {
		t.Errorf("%+v, want a compare of the budget at its revision", txn.Compares)
	}
}

func TestDisplacedRecordedPlans(t *testing.T) {
	plan := ledger.PlanID(1, true)
	d := plannedDoc()
	for i := range d.Entries {
		if d.Entries[i].Plan != "" {
			d.Entries[i].Plan = plan
		}
	}
	z := sampletest.Reservation("z", ledger.Committed, 9)
	z.Priority = 6
	x := Displacement{Authority: authorityOf(z), Target: d, PodUID: "p", Token: 1, Entry: z, Facts: staying}
	var refused *RefusedError
	if _, err := Displace(x); !errors.As(err, &refused) {
		t.Errorf("without the record: %v, want *RefusedError", err)
	}
	for state, want := range map[ledger.PlanState]string{ledger.PlanForming: "", ledger.PlanReady: plan} {
		x.Record = &ledger.PlanRecord{ID: plan, State: state, NodeUID: "n1", Revision: 4}
		c, err := Displace(x)
		if err != nil {
			t.Fatal(err)
		}
		if e, _ := c.Docs[0].Find("z"); e.Plan != want {
			t.Errorf("displaced in a plan that is %s: the new hold has plan %q, want %q", state, e.Plan, want)
		}
		if aborted := len(c.Plans) == 1; aborted != (state == ledger.PlanForming) || len(c.Plans)+len(c.UnchangedPlans) != 1 {
			t.Errorf("displaced in a plan that is %s: records %+v, unchanged %+v", state, c.Plans, c.UnchangedPlans)
		}
	}
}

func TestCheckClaimsFinds(t *testing.T) {
	d := plannedDoc()
	with := func(change func(*ledger.NodeDoc)) ledger.NodeDoc {
		n := sampletest.At(d.Clone(), 8)
		change(&n)
		return n
	}
	// evicted is the document after the eviction of w, at a high-water.
	evicted := func(hw uint64) ledger.NodeDoc {
		return with(func(n *ledger.NodeDoc) { n.Entries, n.HW[ledger.KindPod] = slices.Delete(n.Entries, 2, 3), hw })
	}
	born := ledger.Entry{PodUID: "x", Role: ledger.RoleVictim, State: ledger.Evicting}
	promoted := func(rv uint64) ledger.NodeDoc {
		return with(func(n *ledger.NodeDoc) {
			e := &n.Entries[0]
			e.State, e.PodRV, e.Plan = ledger.Committed, rv, ""
		})
	}
	next := sampletest.Reservation("z", ledger.Held, 9)
	next.Plan, next.Priority = ledger.PlanID(1, false), 5
	for name, c := range map[string]struct {
		after ledger.NodeDoc
		want  string
	}{
		"an eviction forgotten":       {evicted(59), "S5"},
		"an eviction's victim gone":   {evicted(60), ""},
		"an unsent claim dropped":     {with(func(n *ledger.NodeDoc) { n.Entries = slices.Delete(n.Entries, 1, 2) }), ""},
		"a claim that changed hands":  {with(func(n *ledger.NodeDoc) { n.Entries[1].Plan = "other" }), "S5"},
		"a claim born Evicting":       {with(func(n *ledger.NodeDoc) { n.Entries = append(n.Entries, born) }), "S9"},
		"displaced by its equal":      {with(func(n *ledger.NodeDoc) { n.Entries[0] = next }), "S10"},
		"displaced by a higher one":   {with(func(n *ledger.NodeDoc) { n.Entries[0] = next; n.Entries[0].Priority = 6 }), ""},
		"promoted from a later look":  {promoted(120), ""},
		"promoted from an older look": {promoted(99), "S4"},
	} {
		var got []string
		for _, v := range invariant.CheckSuccessor(d, c.after) {
			got = append(got, v.Invariant)
		}
		if want := strings.Fields(c.want); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
	twice := sampletest.DocOf(ledger.Entry{PodUID: "v", Role: ledger.RoleVictim},
		ledger.Entry{PodUID: "v", Role: ledger.RoleVictim})
	if v := invariant.CheckDoc(twice); len(v) != 1 || v[0].Invariant != "S5" {
		t.Errorf("claimed twice on one node: %v", v)
	}
	there := sampletest.DocOf(ledger.Entry{PodUID: "v", Role: ledger.RoleVictim})
	there.NodeUID = "n2"
	if v := invariant.CheckClaims(slices.Values([]ledger.NodeDoc{d, there})); len(v) != 1 || v[0].Invariant != "S5" {
		t.Errorf("claimed on two nodes: %v", v)
	}
	relies := []ledger.Dependent{{PodUID: "y", PodRV: 1}}
	for name, e := range map[string]ledger.Entry{
		"budgets of a keeper":   {PodUID: "x", Role: ledger.RoleKeeper, Budgets: []string{"b"}, Dependents: relies},
		"placeholder of no pod": {PodUID: "x", Role: ledger.RoleMove},
		"a replacement of a victim": {PodUID: "x", Role: ledger.RoleVictim,
			Replacement: ledger.Replacement{Owner: "o", Template: "t"}},
		"a victim that is Committed": {PodUID: "x", Role: ledger.RoleVictim, State: ledger.Committed},
		"a reservation being evicted": {PodUID: "x", Role: ledger.RoleReservation, State: ledger.Evicting, PodRV: 1,
			Token: 1},
		"a reservation with dependents": {
			PodUID: "x", Role: ledger.RoleReservation, State: ledger.Held, PodRV: 1, Token: 1, Dependents: relies,
		},
	} {
		if v := invariant.CheckDoc(sampletest.DocOf(e)); len(v) == 0 {
			t.Errorf("%s: no violation", name)
		}
	}
}

func TestCheckOtherDocumentsFinds(t *testing.T) {
	b := ledger.BudgetDoc{UID: "b", HW: map[string]uint64{ledger.KindBudget: 5}}
	bad := ledger.BudgetDoc{UID: "b", Claims: []ledger.BudgetClaim{{PodUID: "v"}, {PodUID: "v"}}}
	if v := invariant.CheckBudgetSuccessor(b, bad); len(v) != 2 || v[0].Invariant != "S12" || v[1].Invariant != "S6" {
		t.Errorf("budget: %v, want S12 and S6", v)
	}
	x := ledger.ExclusiveDoc{Key: ledger.KeyVolume("v"), HW: map[string]uint64{ledger.KindPod: 5}}
	both := ledger.ExclusiveDoc{Key: x.Key, Holders: []ledger.Holder{
		{PodUID: "p", Token: 1, NodeUID: "n"}, {PodUID: "q", Token: 2, NodeUID: "n"},
	}}
	if v := invariant.CheckExclusiveSuccessor(x, both); len(v) != 2 || v[0].Invariant != "S12" || v[1].Invariant != "S7" {
		t.Errorf("volume: %v, want S12 and S7", v)
	}
	legalSteps := map[ledger.PlanState][]ledger.PlanState{
		0: {ledger.PlanForming}, ledger.PlanForming: {ledger.PlanReady, ledger.PlanAborted},
		ledger.PlanReady:   {ledger.PlanAborted, ledger.PlanDone},
		ledger.PlanAborted: {0}, ledger.PlanDone: {0},
	}
	for before := ledger.PlanState(0); before <= ledger.PlanDone; before++ {
		for after := ledger.PlanState(0); after <= ledger.PlanDone; after++ {
			v := invariant.CheckPlanSuccessor(ledger.PlanRecord{State: before}, ledger.PlanRecord{State: after})
			if ok := before == after || slices.Contains(legalSteps[before], after); ok != (len(v) == 0) {
				t.Errorf("a plan from %s to %s: %v", before, after, v)
			}
		}
	}
}

func TestViewOfClaims(t *testing.T) {
	v := replica.NewView()
	put := func(key string, value []byte, err error, revision int64) ledger.Event {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return ledger.Event{KV: ledger.KV{Key: key, Value: value, ModRevision: revision}}
	}
	budget, err := codec.EncodeBudget(sampletest.Budget)
	b := put(sampletest.Budget.DocKey(), budget, err, 2)
	pool, err := codec.EncodeExclusive(sampletest.Pool)
	x := put(sampletest.Pool.Key, pool, err, 3)
	plan, err := codec.EncodePlan(sampletest.Plan)
	p := put(sampletest.Plan.DocKey(), plan, err, 4)
	c := sampletest.Apply(t, v, 4, b, x, p, ledger.Event{KV: sampletest.KVOf(t, sampletest.At(plannedDoc(), 4))})
	if !slices.Equal(c.Budgets, []string{"pdb-uid"}) || !slices.Equal(c.Exclusives, []string{sampletest.Pool.Key}) ||
		!slices.Equal(c.Plans, []string{sampletest.Plan.ID}) {
		t.Errorf("changes %+v", c)
	}
	if r, ok := v.Plans().Record(sampletest.Plan.ID); !ok || r.Revision != 4 ||
		len(slices.Collect(v.Plans().Records())) != 1 {
		t.Errorf("record %+v, %v", r, ok)
	}
	if d, e, ok := v.Plans().Victim("w"); !ok || e.State != ledger.Evicting || d.NodeUID != "n1" {
		t.Errorf("victim %+v, %v", e, ok)
	}
	if _, e, ok := v.Plans().Owner(ledger.PlanID(1, false)); !ok || e.PodUID != "p" ||
		len(v.Plans().Docs(ledger.PlanID(1, false))) != 1 {
		t.Errorf("owner %+v, %v", e, ok)
	}
	if v.Budgets().Of("unknown").Revision != 0 || v.Exclusives().Of(ledger.KeyVolume("unknown")).Key == "" {
		t.Error("documents that do not exist")
	}
	newer := b.KV
	newer.ModRevision = 9
	learned, err := v.Learn([]ledger.KV{newer})
	if err != nil || len(learned.Budgets) != 1 || v.Budgets().Of("pdb-uid").Revision != 9 {
		t.Errorf("learned %+v, %v", learned, err)
	}
	var deletions []ledger.Event
	for _, key := range []string{b.Key, x.Key, p.Key, ledger.KeyNode("n1")} {
		deletions = append(deletions, ledger.Event{KV: ledger.KV{Key: key, ModRevision: 5}, Deleted: true})
	}
	c = sampletest.Apply(t, v, 5, deletions...)
	if len(c.Budgets) != 0 || len(c.Exclusives) != 1 || len(c.Plans) != 1 {
		t.Errorf("deletions: %+v, want all but the budget, which is newer", c)
	}
	if _, _, ok := v.Plans().Victim("w"); ok || len(v.Plans().Docs(ledger.PlanID(1, false))) != 0 {
		t.Error("claims outlived their document")
	}
	for _, key := range []string{"b/u", ledger.KeyVolume("v"), ledger.KeyPlan(ledger.PlanID(1, true))} {
		bad := ledger.KV{Key: key, Value: []byte{0xff}, ModRevision: 6}
		_, err := v.Apply(ledger.EventBatch{Revision: 6, Events: []ledger.Event{{KV: bad}}})
		if err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("%s: %v, want an error that names the key", key, err)
		}
	}
}

// A pin whose dependent was displaced is dropped, but not before the facts could show the dependent bound.
func TestSweepUnpins(t *testing.T) {
	d := sampletest.At(sampletest.DocOf(ledger.Entry{PodUID: "k", Role: ledger.RoleKeeper,
		Dependents: []ledger.Dependent{{PodUID: "p", PodRV: 100}}}), 7)
	v := replica.NewView()
	sampletest.Apply(t, v, 7, ledger.Event{KV: sampletest.KVOf(t, d)})
	pending := fates{oneFact{known: true, progress: 49}, Staying, 0, 49}
	swept, err := SweepDoc(Sweeping{Doc: d, View: v, Facts: pending})
	if err != nil || !swept.Empty() {
		t.Errorf("facts below the high-water: %+v, %v", swept, err)
	}
	pending.progress = 50
	swept, err = SweepDoc(Sweeping{Doc: d, View: v, Facts: pending})
	if err != nil || len(swept.Change.Docs) != 1 || len(swept.Change.Docs[0].Entries) != 0 {
		t.Errorf("facts at the high-water: %+v, %v", swept, err)
	}
}

func TestErrorsName(t *testing.T) {
	for want, err := range map[string]error{
		"budget ns/web (u) allows 1, 1 of which": &BudgetError{
			UID: "u", Namespace: "ns", Name: "web", Allowed: 1, Claimed: 1, Wanted: 1,
		},
		"x/vol/v cannot be held for pod p":    &ledger.TakenError{Key: "x/vol/v", PodUID: "p", Holder: "q"},
		`item "i" cannot be held for pod`:     &ledger.TakenError{Key: "x/pool/d/p", PodUID: "p", Holder: "q", Item: "i"},
		"has priority 5: one of priority 4":   &PriorityError{PodUID: "p", Holder: 5, Displacer: 4},
		`T3 promote: node "n", pod "p": late`: &RefusedError{Step: "T3 promote", NodeUID: "n", PodUID: "p", Reason: "late"},
		"pod p on node n can be a victim":     &ClaimedError{NodeUID: "n", PodUID: "p"},
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want it to say %q", err, want)
		}
	}
	for _, s := range []fmt.Stringer{Fate(9), ledger.PlanState(9), ledger.PlanDone, Leaving, ledger.Evicting} {
		if s.String() == "" {
			t.Error("a state without a name")
		}
	}
}

// Claims on more budgets than fit into a transaction are dropped in several sweeps.
func TestSweepTakesAsManyBudgetsAsFit(t *testing.T) {
	v := replica.NewView()
	plan := ledger.PlanID(1, true)
	var claims []ledger.Entry
	var events []ledger.Event
	for i := range 2 * ledger.MaxTxnOps {
		uid := fmt.Sprintf("v%d", i)
		claims = append(claims, ledger.Entry{
			PodUID: uid, Role: ledger.RoleVictim, State: ledger.Held, PodRV: 10, Plan: plan, Budgets: []string{uid},
		})
		value, err := codec.EncodeBudget(ledger.BudgetDoc{UID: uid,
			Claims: []ledger.BudgetClaim{{PodUID: uid, PodRV: 10, Plan: plan}}})
		if err != nil {
			t.Fatal(err)
		}
		events = append(events, ledger.Event{KV: ledger.KV{Key: ledger.KeyBudget(uid), Value: value, CreateRevision: 7,
			ModRevision: 7}})
	}
	d := sampletest.At(sampletest.DocOf(claims...), 7)
	sampletest.Apply(t, v, 7, append(events, ledger.Event{KV: sampletest.KVOf(t, d)})...)
	facts := fates{oneFact{known: true, progress: 50}, Staying, 0, 50}
	revision := int64(7)
	for sweeps := 0; len(d.Entries) > 0; sweeps++ {
		swept, err := SweepDoc(Sweeping{Doc: d, View: v, Facts: facts})
		if err != nil || len(swept.Change.Docs) != 1 || sweeps > 4 {
			t.Fatalf("sweep %d: %+v, %v", sweeps, swept, err)
		}
		txn, err := swept.Change.Txn()
		if err != nil {
			t.Fatal(err)
		}
		if err := txn.Validate(); err != nil {
			t.Fatal(err)
		}
		revision++
		events = nil
		for _, put := range txn.Puts {
			kv := ledger.KV{Key: put.Key, Value: put.Value, CreateRevision: 7, ModRevision: revision}
			events = append(events, ledger.Event{KV: kv})
		}
		sampletest.Apply(t, v, revision, events...)
		d, _ = v.Doc(d.NodeUID)
	}
	for b := range v.Budgets().All() {
		if len(b.Claims) > 0 {
			t.Errorf("budget %s is still claimed from", b.UID)
		}
	}
}
