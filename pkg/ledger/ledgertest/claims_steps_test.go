package ledgertest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/replica"
	"github.com/berth-scheduler/berth/pkg/ledger/txns"
)

// ignoreRefusals drops the errors that mean "not now": the step did not happen.
func ignoreRefusals(err error) error {
	var refused *txns.RefusedError
	var claimed *txns.ClaimedError
	var budget *txns.BudgetError
	var priority *txns.PriorityError
	var illegal *txns.TransitionError
	if errors.As(err, &refused) || errors.As(err, &claimed) || errors.As(err, &budget) ||
		errors.As(err, &priority) || errors.As(err, &illegal) {
		return nil
	}
	return err
}

// budgetRooms returns the budget as a member sees it.
func (m *member) budgetRooms(r rules) ([]txns.BudgetRoom, txns.ClaimFacts) {
	b := txns.BudgetRoom{Doc: m.view.Budgets().Of(worldPDB), Allowed: m.allowed}
	if r.noBudgetCount {
		return []txns.BudgetRoom{b}, impatient{m}
	}
	return []txns.BudgetRoom{b}, m
}

// impatient treats every eviction as one that the budget's status shows.
type impatient struct{ *member }

func (impatient) BudgetProgress() uint64 { return math.MaxUint64 }

func victimOf(p apiPod) txns.NodeEntry {
	return txns.NodeEntry{NodeUID: p.node, Entry: ledger.Entry{PodUID: p.uid, PodRV: p.rv, Budgets: budgetsOf(p.uid)}}
}

// victims returns the pods that a pod would have to evict to get a node, by a member's views; at times with a
// random surplus victim.
func (w *world) victims(m *member, uid, node string) (out []txns.NodeEntry, ok bool) {
	var could []string
	for other, p := range m.pods {
		_, v, claimed := m.view.Plans().Victim(other)
		near := p.node == node || has(uid, "x") && has(other, "x") && zone(p.node) == zone(node) ||
			has(uid, "v") && has(other, "v")
		if p.node != "" && !p.deleting && near && priority(other) < priority(uid) &&
			(w.rules.noClaimCheck || !claimed || !m.view.Plans().VictimOfLivePlan(v)) {
			could = append(could, other)
		}
	}
	slices.Sort(could)
	without := map[string]bool{}
	enough := false
	for len(could) > 0 && (!enough || w.choose("one more", 4) == 0) {
		i := w.choose("victim", len(could))
		without[could[i]] = true
		out = append(out, victimOf(m.pods[could[i]]))
		could = slices.Delete(could, i, i+1)
		enough = m.fits(uid, node, future, without)
	}
	return out, enough
}

// nominate is T2, in one transaction or, at times, the first of several.
func (w *world) nominate(ctx context.Context) error {
	m := w.member()
	p, epoch, ok := w.candidate(m)
	if !ok {
		return nil
	}
	node := nodeUID(w.choose("node", worldNodes))
	victims, ok := w.victims(m, p.uid, node)
	if !ok {
		return nil
	}
	w.token++
	e := m.reservation(p, w.token, ledger.Held)
	n := txns.Nomination{
		Authority: txns.Authority{
			Epochs: map[int32]int64{ledger.PartitionOf(p.uid): epoch}, TermRegistryRevision: m.view.Terms().RegistryRevision(),
		},
		Hold: txns.NodeEntry{NodeUID: node, Entry: e}, Victims: victims, Docs: m.docsOf(node, victims),
	}
	n.Budgets, n.Facts = m.budgetRooms(w.rules)
	if n.Guards, ok = m.guards(p.uid, node); !ok {
		return nil
	}
	if n.Exclusives, ok = m.volume(e, node, 0); !ok {
		return nil
	}
	if w.choose("large", 3) == 0 {
		first := w.choose("first", len(victims))
		n.Victims = victims[:first]
		n.Docs = m.docsOf(node, n.Victims)
		c, err := txns.FormPlan(n, len(victims))
		if err != nil {
			return ignoreRefusals(err)
		}
		w.growing[n.RecordedPlan()] = growth{authority: n.Authority, rest: victims[first:]}
		err = w.carry(ctx, m, "formed", p.uid, c)
		return err
	}
	c, err := w.unchecked(n)
	if err != nil {
		return ignoreRefusals(err)
	}
	err = w.carry(ctx, m, "nominated", p.uid, c)
	return err
}

// docsOf returns the documents of a node and of victims, as the member knows them.
func (m *member) docsOf(node string, victims []txns.NodeEntry) []ledger.NodeDoc {
	uids := []string{node}
	for _, v := range victims {
		uids = append(uids, v.NodeUID)
	}
	slices.Sort(uids)
	var out []ledger.NodeDoc
	for _, uid := range slices.Compact(uids) {
		if uid != "" {
			out = append(out, m.doc(uid))
		}
	}
	return out
}

// unchecked is Nominate without the checks that an ablation removes: the entries are hidden from it and put back.
func (w *world) unchecked(n txns.Nomination) (txns.Change, error) {
	hide := func(e ledger.Entry) bool {
		return w.rules.noClaimCheck && e.Role == ledger.RoleVictim || w.rules.noPinCheck && e.Role == ledger.RoleKeeper
	}
	hidden := map[string][]ledger.Entry{}
	docs := n.Docs
	n.Docs = nil
	for _, d := range docs {
		for _, e := range d.Entries {
			if hide(e) {
				hidden[d.NodeUID] = append(hidden[d.NodeUID], e)
			}
		}
		d.Entries = slices.DeleteFunc(slices.Clone(d.Entries), hide)
		n.Docs = append(n.Docs, d)
	}
	c, err := txns.Nominate(n)
	for i, d := range c.Docs {
		c.Docs[i].Entries = append(hidden[d.NodeUID], d.Entries...)
	}
	return c, err
}

// growth is a plan that is being made in several transactions.
type growth struct {
	authority txns.Authority
	rest      []txns.NodeEntry
}

// growPlan is the next transaction of a forming plan.
func (w *world) growPlan(ctx context.Context) error {
	m := w.member()
	plan, ok := pick(w, "plan", slices.Sorted(maps.Keys(w.growing)))
	r, known := m.view.Plans().Record(plan)
	if !ok || !known {
		return nil
	}
	g := w.growing[plan]
	if len(g.rest) > 0 {
		v := g.rest[0]
		x := txns.Extension{Authority: g.authority, Record: r, Victims: g.rest[:1], Docs: m.docsOf("", g.rest[:1])}
		x.Budgets, x.Facts = m.budgetRooms(w.rules)
		c, err := txns.ExtendPlan(x)
		var claimed *txns.ClaimedError
		if _, e, mine := m.view.Plans().Victim(v.Entry.PodUID); errors.As(err, &claimed) && mine && e.Plan == plan {
			g.rest = g.rest[1:] // an earlier copy has applied
			w.growing[plan] = g
		}
		if err != nil {
			return ignoreRefusals(err)
		}
		err = w.carry(ctx, m, "extended", "", c)
		return err
	}
	claimed := 0
	for _, d := range m.view.Plans().Docs(plan) {
		for _, e := range d.Entries {
			if e.Role == ledger.RoleVictim && e.Plan == plan {
				claimed++
			}
		}
	}
	hold, e, _ := m.view.Plans().Owner(plan)
	if _, same := g.authority.Epochs[e.Partition()]; !same {
		return nil // displaced
	}
	c, err := txns.FinishPlan(g.authority, r, hold, claimed)
	if err != nil {
		return ignoreRefusals(err)
	}
	if w.rules.noOwner {
		c.Unchanged = nil
	}
	err = w.carry(ctx, m, "finished", "", c)
	return err
}

// plans returns those that have entries in a view.
func plans(v *replica.View) []string {
	seen := map[string]bool{}
	for d := range v.Docs() {
		for _, e := range d.Entries {
			if e.Plan != "" {
				seen[e.Plan] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(seen))
}

// mark is a binder that makes a plan's victims evictable.
func (w *world) mark(ctx context.Context) error {
	m := w.member()
	plan, ok := pick(w, "plan", plans(w.truth))
	if !ok {
		return nil
	}
	owner, _, _ := m.view.Plans().Owner(plan)
	x := txns.EvictPlan{Plan: plan, Owner: owner, Docs: m.view.Plans().Docs(plan)}
	if r, known := m.view.Plans().Record(plan); known {
		x.Record = &r
	}
	for _, d := range x.Docs {
		for _, e := range d.Entries {
			if e.Role == ledger.RoleVictim && e.Plan == plan && e.State != ledger.Evicting {
				x.Victims = append(x.Victims, e.PodUID)
			}
		}
	}
	if len(x.Victims) == 0 {
		return nil
	}
	c, err := txns.MarkEvicting(x)
	if err != nil {
		return ignoreRefusals(err)
	}
	err = w.carry(ctx, m, "marked", "", c)
	return err
}

// sendEviction is a binder that sees a victim Evicting in its watch of the ledger. The eviction may arrive at any
// time.
func (w *world) sendEviction(context.Context) error {
	var due []string
	for d := range w.truth.Docs() {
		for _, e := range d.Entries {
			if e.Role == ledger.RoleVictim && (e.State == ledger.Evicting || w.rules.noMark) {
				due = append(due, e.PodUID)
			}
		}
	}
	slices.Sort(due)
	if uid, ok := pick(w, "due", due); ok {
		w.evictions = append(w.evictions, uid)
	}
	return nil
}

// evict is the arrival of an eviction at the API server: it takes from the budget in one write, and deletes the pod
// in another. S5, S9: a running pod that is evicted is claimed and marked.
func (w *world) evict(ctx context.Context) error {
	if len(w.evictions) == 0 {
		return nil
	}
	i := w.choose("eviction", len(w.evictions))
	uid := w.evictions[i]
	p, ok := w.pods[uid]
	if !ok || p.deleting {
		w.evictions = slices.Delete(w.evictions, i, i+1)
		return nil
	}
	if _, v, claimed := w.truth.Plans().Victim(uid); !claimed || v.State != ledger.Evicting {
		return fmt.Errorf("S5: pod %s is evicted, and nobody claims it (claim %+v)", uid, v)
	}
	if !w.spent[uid] && w.choose("trouble", 5) == 0 {
		w.evictions = slices.Delete(w.evictions, i, i+1)
		return w.evictionFailed(ctx, uid)
	}
	if has(uid, "c") && !w.spent[uid] {
		if w.allowed == 0 {
			return fmt.Errorf("S6: the eviction of %s is refused, although it was claimed from the budget", uid)
		}
		w.spent[uid] = true
		w.writeBudget(w.allowed - 1)
		return w.check()
	}
	w.evictions = slices.Delete(w.evictions, i, i+1)
	p.deleting = true
	w.change(p)
	w.counts["evicted"]++
	return nil
}

// evictionFailed takes the mark back, if no other eviction of the pod is under way.
func (w *world) evictionFailed(ctx context.Context, uid string) error {
	if slices.Contains(w.evictions, uid) {
		return nil
	}
	d, v, _ := w.truth.Plans().Victim(uid)
	d, err := txns.FailEviction(d, uid, v.Plan)
	if err != nil {
		return err
	}
	c := txns.Change{Docs: []ledger.NodeDoc{d}}
	if has(uid, "c") {
		rv := uint64(len(w.history))
		c.Budgets = []ledger.BudgetDoc{txns.CoverBudget(w.truth.Budgets().Of(worldPDB), txns.Failure{BudgetRV: rv})}
	}
	txn, err := c.Txn()
	if err != nil {
		return err
	}
	w.counts["eviction failed"]++
	_, err = w.commit(ctx, txn)
	return err
}

// held returns the holds in a member's view, with their nodes.
func (m *member) held() []txns.NodeEntry {
	var out []txns.NodeEntry
	for d := range m.view.Docs() {
		for _, e := range d.Entries {
			if e.Role == ledger.RoleReservation && e.State == ledger.Held {
				out = append(out, txns.NodeEntry{NodeUID: d.NodeUID, Entry: e})
			}
		}
	}
	slices.SortFunc(out, func(a, b txns.NodeEntry) int { return int(a.Entry.Token) - int(b.Entry.Token) })
	return out
}

// others returns the documents of a plan except one node's, and its record.
func (m *member) others(plan, node string) (docs []ledger.NodeDoc, record *ledger.PlanRecord) {
	for _, d := range m.view.Plans().Docs(plan) {
		if d.NodeUID != node {
			docs = append(docs, d)
		}
	}
	if r, ok := m.view.Plans().Record(plan); ok {
		record = &r
	}
	return docs, record
}

// promote is T3.
func (w *world) promote(ctx context.Context) error {
	m := w.member()
	h, ok := pick(w, "hold", m.held())
	if !ok {
		return nil
	}
	uid := h.Entry.PodUID
	pod, known := m.pods[uid]
	_, epoch, _ := m.view.Roster().Owner(ledger.PartitionOf(uid))
	if !m.owns(uid) || !known || pod.node != "" || pod.rv < h.Entry.PodRV {
		return nil
	}
	p := txns.Promotion{
		Authority: txns.Authority{
			Epochs: map[int32]int64{ledger.PartitionOf(uid): epoch}, TermRegistryRevision: m.view.Terms().RegistryRevision(),
		},
		Target: m.doc(h.NodeUID), PodUID: uid, Token: h.Entry.Token, PodRV: pod.rv, Facts: m,
	}
	p.Docs, p.Record = m.others(h.Entry.Plan, h.NodeUID)
	if p.Guards, ok = m.guards(uid, h.NodeUID); !ok {
		return nil
	}
	fits := m.fits(uid, h.NodeUID, now, nil)
	p.Fits = w.rules.noNowTest || fits
	c, err := txns.Promote(p)
	if err != nil {
		return ignoreRefusals(err)
	}
	if err := w.carry(ctx, m, "promoted", uid, c); err != nil || fits {
		return err
	}
	return fmt.Errorf("S1: pod %s is promoted on node %s, which is known to be full", uid, h.NodeUID)
}

// displace is T4.
func (w *world) displace(ctx context.Context) error {
	m := w.member()
	p, epoch, ok := w.candidate(m)
	h, any := pick(w, "hold", m.held())
	if !ok || !any || has(p.uid, "f") {
		return nil
	}
	without := map[string]bool{h.Entry.PodUID: true}
	for uid := range m.pods {
		if _, v, claimed := m.view.Plans().Victim(uid); claimed && v.Plan == h.Entry.Plan &&
			m.view.Plans().VictimOfLivePlan(v) {
			without[uid] = true
		}
	}
	if !m.fits(p.uid, h.NodeUID, future, without) {
		return nil
	}
	w.token++
	e := m.reservation(p, w.token, ledger.Held)
	x := txns.Displacement{
		Authority: txns.Authority{
			Epochs: map[int32]int64{ledger.PartitionOf(p.uid): epoch}, TermRegistryRevision: m.view.Terms().RegistryRevision(),
		},
		Target: m.doc(h.NodeUID), PodUID: h.Entry.PodUID, Token: h.Entry.Token, Entry: e,
		Facts: m,
	}
	x.Docs, x.Record = m.others(h.Entry.Plan, h.NodeUID)
	if x.Guards, ok = m.guards(p.uid, h.NodeUID); !ok {
		return nil
	}
	if x.Exclusives, ok = m.volume(e, h.NodeUID, h.Entry.Token); !ok {
		return nil
	}
	if w.rules.noPriority {
		x.Entry.Priority = math.MaxInt32
	}
	c, err := txns.Displace(x)
	if err != nil {
		return ignoreRefusals(err)
	}
	for i := range c.Docs[0].Entries {
		if c.Docs[0].Entries[i].Token == e.Token {
			c.Docs[0].Entries[i].Priority = e.Priority
		}
	}
	err = w.carry(ctx, m, "displaced", p.uid, c)
	return err
}

// abort is T8 by any member.
func (w *world) abort(ctx context.Context) error {
	m := w.member()
	plan, ok := pick(w, "plan", plans(m.view))
	if !ok || w.choose("abort", 12) != 0 {
		return nil
	}
	a := txns.Abort{Plan: plan, Docs: m.view.Plans().Docs(plan),
		Budgets: []ledger.BudgetDoc{m.view.Budgets().Of(worldPDB)}}
	a.Exclusives = []ledger.ExclusiveDoc{m.view.Exclusives().Of(worldVolume)}
	if r, known := m.view.Plans().Record(plan); known {
		a.Record = &r
	}
	c, err := txns.AbortPlan(a)
	if err != nil {
		return ignoreRefusals(err)
	}
	err = w.carry(ctx, m, "aborted", "", c)
	return err
}

// settle is the second half of T10.
func (w *world) settle(ctx context.Context) error {
	m := w.member()
	var facts txns.ClaimFacts = m
	if w.rules.noSettleWait {
		facts = impatient{m}
	}
	before := m.view.Budgets().Of(worldPDB)
	b, changed := txns.SettleBudget(before, facts)
	if !changed {
		return nil
	}
	if w.rules.noSettleRaise {
		b.HW = before.HW
	}
	err := w.carry(ctx, m, "settled", "", txns.Change{Budgets: []ledger.BudgetDoc{b}})
	return err
}

// move is T12: the descheduler moves some pod of a controller.
func (w *world) move(ctx context.Context) error {
	m := w.member()
	var could []string
	for uid, p := range m.pods {
		if p.node != "" && !p.deleting && has(uid, "m") {
			could = append(could, uid)
		}
	}
	slices.Sort(could)
	uid, ok := pick(w, "moved", could)
	node := nodeUID(w.choose("node", worldNodes))
	if !ok || node == m.pods[uid].node || !m.fits(podUID(0, "0"), node, future, nil) {
		return nil
	}
	w.token++
	x := txns.Relocation{
		Placeholder: txns.NodeEntry{NodeUID: node, Entry: ledger.Entry{
			Token: w.token, Replacement: replacementOf(), Shard: m.id,
		}},
		Victim: victimOf(m.pods[uid]),
	}
	x.Docs = m.docsOf(node, []txns.NodeEntry{x.Victim})
	x.Budgets, x.Facts = m.budgetRooms(w.rules)
	c, err := txns.Relocate(x)
	if err != nil {
		return ignoreRefusals(err)
	}
	err = w.carry(ctx, m, "moved", "", c)
	return err
}

// sweep is a binder that finds a document idle.
func (w *world) sweep(ctx context.Context) error {
	m := w.member()
	s := txns.Sweeping{
		Doc: m.doc(nodeUID(w.choose("node", worldNodes))), View: m.view, Facts: m, Overdue: w.choose("overdue", 30) == 0,
	}
	swept, err := txns.SweepDoc(s)
	if err != nil || swept.Empty() {
		return ignoreRefusals(err)
	}
	err = w.carry(ctx, m, "swept", "", swept.Change)
	return err
}

// finishHolders is T5 of the volume, and of plan records.
func (w *world) finishHolders(ctx context.Context) error {
	m := w.member()
	for r := range m.view.Plans().Records() {
		if c, err := txns.DropPlan(r, m.view); err == nil {
			err := w.carry(ctx, m, "record dropped", "", c)
			return err
		}
	}
	before := m.view.Exclusives().Of(worldVolume)
	x, changed := txns.FinishHolders(before, m.view)
	if !changed {
		return nil
	}
	if w.rules.noHoldRaise {
		x.HW = before.HW
	}
	err := w.carry(ctx, m, "volume let go", "", txns.Change{Exclusives: []ledger.ExclusiveDoc{x}})
	return err
}
