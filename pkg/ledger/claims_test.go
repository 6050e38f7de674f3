package ledger

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
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

func mandateOf(entries ...Entry) Mandate {
	m := Mandate{Epochs: map[int32]int64{}}
	for _, e := range entries {
		m.Epochs[e.Partition()] = 3
	}
	return m
}

// plannedDoc has a hold with two victims, one of which is being evicted.
func plannedDoc() NodeDoc {
	plan := PlanID(1, false)
	hold := reservation("p", Held, 1)
	hold.Plan, hold.Priority = plan, 5
	return docOf(hold,
		Entry{PodUID: "v", Role: RoleVictim, Plan: plan, PodRV: 60, Budgets: []string{"b"}},
		Entry{PodUID: "w", Role: RoleVictim, Plan: plan, PodRV: 60, State: Evicting},
		Entry{PodUID: "k", Role: RoleKeeper, Dependents: []Dependent{{PodUID: "p", PodRV: 100}}})
}

// Every builder leaves its input unchanged, and its result is a legal successor.
func TestBuildersKeepTheirInput(t *testing.T) {
	hold := reservation("z", Committed, 9)
	hold.Priority = 6
	budget := BudgetDoc{UID: "b", Claims: []BudgetClaim{{PodUID: "v", PodRV: 60}}, Revision: 4}
	pool := ExclusiveDoc{Key: KeyPool("d", "p"), Holders: []Holder{
		{PodUID: "p", Token: 1, NodeUID: "n1", Items: []string{"i"}},
	}}
	for name, build := range map[string]func(d NodeDoc) (Change, error){
		"T2": func(d NodeDoc) (Change, error) {
			return Nominate(Nomination{
				Mandate: mandateOf(hold), Hold: NodeEntry{NodeUID: "n1", Entry: hold}, Docs: []NodeDoc{d},
				Victims: []NodeEntry{{NodeUID: "n1", Entry: Entry{PodUID: "x", PodRV: 60, Budgets: []string{"b"}}}},
				Budgets: []BudgetRoom{{Doc: budget, Allowed: 2}}, Facts: staying,
			})
		},
		"T2 mark": func(d NodeDoc) (Change, error) {
			return MarkEvicting(EvictPlan{Plan: PlanID(1, false), Owner: d, Docs: []NodeDoc{d}, Victims: []string{"v"}})
		},
		"T3": func(d NodeDoc) (Change, error) {
			return Promote(Promotion{
				Mandate: mandateOf(d.Entries[0]), Target: d, PodUID: "p", Token: 1, PodRV: 100, Fits: true, Facts: gone,
			})
		},
		"T4": func(d NodeDoc) (Change, error) {
			return Displace(Displacement{
				Mandate: mandateOf(hold), Target: d, PodUID: "p", Token: 1, Entry: hold, Facts: staying,
			})
		},
		"T8": func(d NodeDoc) (Change, error) {
			return AbortPlan(Abort{
				Plan: PlanID(1, false), Docs: []NodeDoc{d}, Budgets: []BudgetDoc{budget}, Exclusives: []ExclusiveDoc{pool},
			})
		},
		"T8 in part": func(d NodeDoc) (Change, error) {
			return AbortPlan(Abort{
				Plan: PlanID(1, false), Docs: []NodeDoc{d}, Budgets: []BudgetDoc{budget}, Only: []string{"v"},
			})
		},
		"T10 failed": func(d NodeDoc) (Change, error) {
			d, err := FailEviction(d, "w", PlanID(1, false))
			return Change{Docs: []NodeDoc{d}, Budgets: []BudgetDoc{CoverBudget(budget, Failure{BudgetRV: 9})}}, err
		},
		"T12": func(d NodeDoc) (Change, error) {
			return Relocate(Relocation{
				Placeholder: NodeEntry{NodeUID: "n1", Entry: Entry{Token: 9, Replacement: Replacement{"o", "t"}}},
				Victim:      NodeEntry{NodeUID: "n1", Entry: Entry{PodUID: "x", PodRV: 60}},
				Docs:        []NodeDoc{d}, Facts: staying,
			})
		},
	} {
		before, wasBudget, wasPool := plannedDoc(), budget.copy(), pool.copy()
		var c Change
		_, err := frozen(t, before, func(d NodeDoc) (NodeDoc, error) {
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
		for _, v := range append(CheckSuccessor(before, at(c.Docs[0], 8)), CheckDoc(c.Docs[0])...) {
			t.Errorf("%s: %v", name, v)
		}
		if _, err := c.Txn(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAbortInPart(t *testing.T) {
	budget := BudgetDoc{UID: "b", Claims: []BudgetClaim{{PodUID: "v", PodRV: 60}}}
	c, err := AbortPlan(Abort{
		Plan: PlanID(1, false), Docs: []NodeDoc{plannedDoc()}, Budgets: []BudgetDoc{budget}, Only: []string{"v", "w"},
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
	older := BudgetDoc{UID: "b", Namespace: "ns", Name: "b", Revision: 5}
	c, err := AbortPlan(Abort{Plan: PlanID(1, false), Docs: []NodeDoc{plannedDoc()}, Budgets: []BudgetDoc{older}})
	if err != nil {
		t.Fatal(err)
	}
	txn, err := c.Txn()
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(txn.Compares, func(c Compare) bool { return c.Key == KeyBudget("b") && c.Revision == 5 }) {
		t.Errorf("%+v, want a compare of the budget at its revision", txn.Compares)
	}
}

func TestDisplacedRecordedPlans(t *testing.T) {
	plan := PlanID(1, true)
	d := plannedDoc()
	for i := range d.Entries {
		if d.Entries[i].Plan != "" {
			d.Entries[i].Plan = plan
		}
	}
	z := reservation("z", Committed, 9)
	z.Priority = 6
	x := Displacement{Mandate: mandateOf(z), Target: d, PodUID: "p", Token: 1, Entry: z, Facts: staying}
	var refused *RefusedError
	if _, err := Displace(x); !errors.As(err, &refused) {
		t.Errorf("without the record: %v, want *RefusedError", err)
	}
	for state, want := range map[PlanState]string{PlanForming: "", PlanReady: plan} {
		x.Record = &PlanRecord{ID: plan, State: state, NodeUID: "n1", Revision: 4}
		c, err := Displace(x)
		if err != nil {
			t.Fatal(err)
		}
		if e, _ := c.Docs[0].Find("z"); e.Plan != want {
			t.Errorf("displaced in a plan that is %s: the new hold has plan %q, want %q", state, e.Plan, want)
		}
		if aborted := len(c.Plans) == 1; aborted != (state == PlanForming) || len(c.Plans)+len(c.UnchangedPlans) != 1 {
			t.Errorf("displaced in a plan that is %s: records %+v, unchanged %+v", state, c.Plans, c.UnchangedPlans)
		}
	}
}

func TestCheckClaimsFinds(t *testing.T) {
	d := plannedDoc()
	with := func(change func(*NodeDoc)) NodeDoc {
		n := at(d.copy(), 8)
		change(&n)
		return n
	}
	// evicted is the document after the eviction of w, at a high-water.
	evicted := func(hw uint64) NodeDoc {
		return with(func(n *NodeDoc) { n.Entries, n.HW[KindPod] = slices.Delete(n.Entries, 2, 3), hw })
	}
	born := Entry{PodUID: "x", Role: RoleVictim, State: Evicting}
	promoted := func(rv uint64) NodeDoc {
		return with(func(n *NodeDoc) {
			e := &n.Entries[0]
			e.State, e.PodRV, e.Plan = Committed, rv, ""
		})
	}
	heir := reservation("z", Held, 9)
	heir.Plan, heir.Priority = PlanID(1, false), 5
	for name, c := range map[string]struct {
		after NodeDoc
		want  string
	}{
		"an eviction forgotten":       {evicted(59), "S5"},
		"an eviction's victim gone":   {evicted(60), ""},
		"an unsent claim dropped":     {with(func(n *NodeDoc) { n.Entries = slices.Delete(n.Entries, 1, 2) }), ""},
		"a claim that changed hands":  {with(func(n *NodeDoc) { n.Entries[1].Plan = "other" }), "S5"},
		"a claim born Evicting":       {with(func(n *NodeDoc) { n.Entries = append(n.Entries, born) }), "S9"},
		"displaced by its equal":      {with(func(n *NodeDoc) { n.Entries[0] = heir }), "S10"},
		"displaced by a higher one":   {with(func(n *NodeDoc) { n.Entries[0] = heir; n.Entries[0].Priority = 6 }), ""},
		"promoted from a later look":  {promoted(120), ""},
		"promoted from an older look": {promoted(99), "S4"},
	} {
		var got []string
		for _, v := range CheckSuccessor(d, c.after) {
			got = append(got, v.Invariant)
		}
		if want := strings.Fields(c.want); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
	twice := docOf(Entry{PodUID: "v", Role: RoleVictim}, Entry{PodUID: "v", Role: RoleVictim})
	if v := CheckDoc(twice); len(v) != 1 || v[0].Invariant != "S5" {
		t.Errorf("claimed twice on one node: %v", v)
	}
	there := docOf(Entry{PodUID: "v", Role: RoleVictim})
	there.NodeUID = "n2"
	if v := CheckClaims(slices.Values([]NodeDoc{d, there})); len(v) != 1 || v[0].Invariant != "S5" {
		t.Errorf("claimed on two nodes: %v", v)
	}
	relies := []Dependent{{PodUID: "y", PodRV: 1}}
	for name, e := range map[string]Entry{
		"budgets of a keeper":         {PodUID: "x", Role: RoleKeeper, Budgets: []string{"b"}, Dependents: relies},
		"a placeholder for nobody":    {PodUID: "x", Role: RoleMove},
		"a replacement of a victim":   {PodUID: "x", Role: RoleVictim, Replacement: Replacement{"o", "t"}},
		"a victim that is Committed":  {PodUID: "x", Role: RoleVictim, State: Committed},
		"a reservation being evicted": {PodUID: "x", Role: RoleReservation, State: Evicting, PodRV: 1, Token: 1},
		"a reservation with dependents": {
			PodUID: "x", Role: RoleReservation, State: Held, PodRV: 1, Token: 1, Dependents: relies,
		},
	} {
		if v := CheckDoc(docOf(e)); len(v) == 0 {
			t.Errorf("%s: no violation", name)
		}
	}
}

func TestCheckOtherDocumentsFinds(t *testing.T) {
	b := BudgetDoc{UID: "b", HW: map[string]uint64{KindBudget: 5}}
	sunk := BudgetDoc{UID: "b", Claims: []BudgetClaim{{PodUID: "v"}, {PodUID: "v"}}}
	if v := CheckBudgetSuccessor(b, sunk); len(v) != 2 || v[0].Invariant != "S12" || v[1].Invariant != "S6" {
		t.Errorf("budget: %v, want S12 and S6", v)
	}
	x := ExclusiveDoc{Key: KeyVolume("v"), HW: map[string]uint64{KindPod: 5}}
	both := ExclusiveDoc{Key: x.Key, Holders: []Holder{
		{PodUID: "p", Token: 1, NodeUID: "n"}, {PodUID: "q", Token: 2, NodeUID: "n"},
	}}
	if v := CheckExclusiveSuccessor(x, both); len(v) != 2 || v[0].Invariant != "S12" || v[1].Invariant != "S7" {
		t.Errorf("volume: %v, want S12 and S7", v)
	}
	legalSteps := map[PlanState][]PlanState{
		0: {PlanForming}, PlanForming: {PlanReady, PlanAborted}, PlanReady: {PlanAborted, PlanDone},
		PlanAborted: {0}, PlanDone: {0},
	}
	for before := PlanState(0); before <= PlanDone; before++ {
		for after := PlanState(0); after <= PlanDone; after++ {
			v := CheckPlanSuccessor(PlanRecord{State: before}, PlanRecord{State: after})
			if ok := before == after || slices.Contains(legalSteps[before], after); ok != (len(v) == 0) {
				t.Errorf("a plan from %s to %s: %v", before, after, v)
			}
		}
	}
}

func TestViewOfClaims(t *testing.T) {
	v := NewView()
	put := func(key string, value []byte, err error, revision int64) Event {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return Event{KV: KV{Key: key, Value: value, ModRevision: revision}}
	}
	budget, err := EncodeBudget(goldenBudget)
	b := put(goldenBudget.key(), budget, err, 2)
	pool, err := EncodeExclusive(goldenPool)
	x := put(goldenPool.Key, pool, err, 3)
	plan, err := EncodePlan(goldenPlan)
	p := put(goldenPlan.key(), plan, err, 4)
	c := apply(t, v, 4, b, x, p, Event{KV: kvOf(t, at(plannedDoc(), 4))})
	if !slices.Equal(c.Budgets, []string{"pdb-uid"}) || !slices.Equal(c.Exclusives, []string{goldenPool.Key}) ||
		!slices.Equal(c.Plans, []string{goldenPlan.ID}) {
		t.Errorf("changes %+v", c)
	}
	if r, ok := v.Record(goldenPlan.ID); !ok || r.Revision != 4 || len(slices.Collect(v.Records())) != 1 {
		t.Errorf("record %+v, %v", r, ok)
	}
	if d, e, ok := v.Victim("w"); !ok || e.State != Evicting || d.NodeUID != "n1" {
		t.Errorf("victim %+v, %v", e, ok)
	}
	if _, e, ok := v.PlanOwner(PlanID(1, false)); !ok || e.PodUID != "p" || len(v.PlanDocs(PlanID(1, false))) != 1 {
		t.Errorf("owner %+v, %v", e, ok)
	}
	if v.Budget("unknown").Revision != 0 || v.Exclusive(KeyVolume("unknown")).Key == "" {
		t.Error("documents that do not exist")
	}
	newer := b.KV
	newer.ModRevision = 9
	learned, err := v.Learn([]KV{newer})
	if err != nil || len(learned.Budgets) != 1 || v.Budget("pdb-uid").Revision != 9 {
		t.Errorf("learned %+v, %v", learned, err)
	}
	var deletions []Event
	for _, key := range []string{b.Key, x.Key, p.Key, KeyNode("n1")} {
		deletions = append(deletions, Event{KV: KV{Key: key, ModRevision: 5}, Deleted: true})
	}
	c = apply(t, v, 5, deletions...)
	if len(c.Budgets) != 0 || len(c.Exclusives) != 1 || len(c.Plans) != 1 {
		t.Errorf("deletions: %+v, want all but the budget, which is newer", c)
	}
	if _, _, ok := v.Victim("w"); ok || len(v.PlanDocs(PlanID(1, false))) != 0 {
		t.Error("claims outlived their document")
	}
	for _, key := range []string{"b/u", KeyVolume("v"), KeyPlan(PlanID(1, true))} {
		bad := KV{Key: key, Value: []byte{0xff}, ModRevision: 6}
		_, err := v.Apply(EventBatch{Revision: 6, Events: []Event{{KV: bad}}})
		if err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("%s: %v, want an error that names the key", key, err)
		}
	}
}

// A pin whose dependent was displaced is dropped, but not before the facts could show the dependent bound.
func TestSweepUnpins(t *testing.T) {
	d := at(docOf(Entry{PodUID: "k", Role: RoleKeeper, Dependents: []Dependent{{PodUID: "p", PodRV: 100}}}), 7)
	v := NewView()
	apply(t, v, 7, Event{KV: kvOf(t, d)})
	pending := fates{oneFact{known: true, progress: 49}, Staying, 0, 49}
	swept, err := SweepDoc(Sweeping{Doc: d, Picture: v, Facts: pending})
	if err != nil || !swept.Empty() {
		t.Errorf("facts below the high-water: %+v, %v", swept, err)
	}
	pending.progress = 50
	swept, err = SweepDoc(Sweeping{Doc: d, Picture: v, Facts: pending})
	if err != nil || len(swept.Change.Docs) != 1 || len(swept.Change.Docs[0].Entries) != 0 {
		t.Errorf("facts at the high-water: %+v, %v", swept, err)
	}
}

func TestErrorsName(t *testing.T) {
	for want, err := range map[string]error{
		"budget ns/web (u) allows 1, 1 of which": &BudgetError{
			UID: "u", Namespace: "ns", Name: "web", Allowed: 1, Claimed: 1, Wanted: 1,
		},
		"x/vol/v cannot be held for pod p":    &TakenError{Key: "x/vol/v", PodUID: "p", Holder: "q"},
		`item "i" cannot be held for pod`:     &TakenError{Key: "x/pool/d/p", PodUID: "p", Holder: "q", Item: "i"},
		"has priority 5: one of priority 4":   &PriorityError{PodUID: "p", Holder: 5, Displacer: 4},
		`T3 promote: node "n", pod "p": late`: &RefusedError{Step: "T3 promote", NodeUID: "n", PodUID: "p", Reason: "late"},
		"pod p on node n can be a victim":     &ClaimedError{NodeUID: "n", PodUID: "p"},
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want it to say %q", err, want)
		}
	}
	for _, s := range []fmt.Stringer{Fate(9), PlanState(9), PlanDone, Leaving, Evicting} {
		if s.String() == "" {
			t.Error("a state without a name")
		}
	}
}

// Claims on more budgets than fit into a transaction are dropped in several sweeps.
func TestSweepTakesAsManyBudgetsAsFit(t *testing.T) {
	v := NewView()
	plan := PlanID(1, true)
	var claims []Entry
	var events []Event
	for i := range 2 * MaxTxnOps {
		uid := fmt.Sprintf("v%d", i)
		claims = append(claims, Entry{
			PodUID: uid, Role: RoleVictim, State: Held, PodRV: 10, Plan: plan, Budgets: []string{uid},
		})
		value, err := EncodeBudget(BudgetDoc{UID: uid, Claims: []BudgetClaim{{PodUID: uid, PodRV: 10, Plan: plan}}})
		if err != nil {
			t.Fatal(err)
		}
		events = append(events, Event{KV: KV{Key: KeyBudget(uid), Value: value, CreateRevision: 7, ModRevision: 7}})
	}
	d := at(docOf(claims...), 7)
	apply(t, v, 7, append(events, Event{KV: kvOf(t, d)})...)
	facts := fates{oneFact{known: true, progress: 50}, Staying, 0, 50}
	revision := int64(7)
	for sweeps := 0; len(d.Entries) > 0; sweeps++ {
		swept, err := SweepDoc(Sweeping{Doc: d, Picture: v, Facts: facts})
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
			kv := KV{Key: put.Key, Value: put.Value, CreateRevision: 7, ModRevision: revision}
			events = append(events, Event{KV: kv})
		}
		apply(t, v, revision, events...)
		d, _ = v.Doc(d.NodeUID)
	}
	for b := range v.Budgets() {
		if len(b.Claims) > 0 {
			t.Errorf("budget %s is still claimed from", b.UID)
		}
	}
}
