package decide

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/berth-scheduler/berth/pkg/ledger"
)

// promised is the core's state about holds, placeholders, and the pods that are evicted for them.
type promised struct {
	// ledger is the binder's own view of the whole ledger.
	ledger *ledger.View
	// plans holds the plans with a hold or placeholder, by id. removals holds the claims on victims, by pod UID: a
	// pod is claimed by one plan only.
	plans    map[string]*plan
	removals map[string]*removal
	// mirrors holds the pods whose nominatedNodeName this binder maintains, by UID.
	mirrors map[string]*mirror
	// idles holds budgets and plan records as last changed, by key.
	idles map[string]*idleDoc
	// left is the pod progress at which claimed pods were first missed, by UID.
	left       map[string]uint64
	collecting collecting
	// looked is when plans were last checked for due work, and round when all of them were checked.
	looked, round time.Time
}

func newPromised() promised {
	return promised{
		ledger: ledger.NewView(), plans: map[string]*plan{}, removals: map[string]*removal{},
		mirrors: map[string]*mirror{}, idles: map[string]*idleDoc{}, left: map[string]uint64{},
	}
}

// foldBatch applies a batch of the ledger watch. (Its documents have been learned.)
func (c *Core) foldBatch(b ledger.ViewBatch) {
	changes, err := c.ledger.Fold(b)
	if err != nil {
		c.broken(err)
		return
	}
	c.claimsMoved(changes)
}

// learnKeys applies what one of the binder's own transactions returned.
func (c *Core) learnKeys(in Amended) {
	changes, err := c.ledger.Learn(in.KVs)
	if err != nil {
		c.broken(err)
		return
	}
	var touched []*reservation
	for _, d := range changes.Docs {
		if d.After.NodeUID != "" {
			touched = append(touched, c.learn(d.After)...)
		}
	}
	c.vouch(in)
	c.claimsMoved(changes)
	for _, r := range touched {
		r.advance(c)
	}
}

// claimsMoved brings plans and removals in line with the documents that changed, and advances them.
func (c *Core) claimsMoved(changes ledger.ViewChanges) {
	docs, touched := changes.Docs, map[string]bool{}
	if changes.Generation {
		c.forgetVersions()
		c.refuseEvictions()
	}
	if changes.Reset {
		clear(c.left)
		docs = c.relisted()
		for id := range c.plans {
			touched[id] = true
		}
	}
	for _, d := range docs {
		for _, e := range slices.Concat(d.Before.Entries, d.After.Entries) {
			if e.Plan != "" {
				touched[e.Plan] = true
			}
		}
		c.trackClaims(d)
	}
	for _, id := range changes.Plans {
		touched[id] = true
	}
	ids := slices.Sorted(maps.Keys(touched))
	for _, id := range ids {
		c.trackPlan(id)
	}
	for _, id := range ids {
		if p, ok := c.plans[id]; ok {
			p.advance(c)
		}
	}
	for _, id := range ids {
		for _, r := range c.removalsOf(id) {
			r.advance(c)
		}
	}
}

// forgetVersions drops everything that is kept about resourceVersions: with a new generation of the ledger, they may
// be versions that Kubernetes has yet to reach again.
func (c *Core) forgetVersions() {
	clear(c.left)
	clear(c.replaced)
	for _, w := range c.conditions {
		w.written, w.writtenRV = nil, 0
	}
	for _, m := range c.mirrors {
		m.writtenRV = 0
	}
}

// refuseEvictions refuses pending evictions that were decided before this generation of the ledger. If the queue
// republishes all facts with it, those evictions may rest on facts from before a restore of Kubernetes. The
// descheduler can request them again.
func (c *Core) refuseEvictions() {
	if c.ledger.Generation().FactsAfter == 0 {
		return
	}
	for _, k := range slices.SortedFunc(maps.Keys(c.evictions), attempt.compare) {
		e := c.evictions[k]
		switch {
		case e.done:
		case e.op != 0:
			e.void = true
		default:
			e.refuse(c)
		}
	}
}

// relisted returns all documents after a list of the ledger, which may have skipped changes, and drops the removals
// whose claims are gone.
func (c *Core) relisted() []ledger.DocChange {
	for uid, r := range c.removals {
		d, e, ok := c.ledger.Victim(uid)
		if !ok || d.NodeUID != r.nodeUID || e.Plan != r.plan {
			r.left = true
			delete(c.removals, uid)
		}
	}
	var docs []ledger.DocChange
	for d := range c.ledger.Docs() {
		docs = append(docs, ledger.DocChange{After: d})
	}
	slices.SortFunc(docs, func(a, b ledger.DocChange) int { return strings.Compare(a.After.NodeUID, b.After.NodeUID) })
	return docs
}

// trackClaims creates, updates and drops the removals of one document's claims.
func (c *Core) trackClaims(d ledger.DocChange) {
	for _, e := range d.Before.Entries {
		r, ok := c.removals[e.PodUID]
		if e.Role != ledger.RoleVictim || !ok || r.nodeUID != d.Before.NodeUID || r.plan != e.Plan {
			continue
		}
		if now, still := d.After.Victim(e.PodUID); !still || now.Plan != r.plan {
			r.left = true
			delete(c.removals, e.PodUID)
		}
	}
	for _, e := range d.After.Entries {
		if e.Role != ledger.RoleVictim {
			continue
		}
		r, ok := c.removals[e.PodUID]
		if !ok {
			c.removals[e.PodUID] = newRemoval(c, d.After.NodeUID, e)
			continue
		}
		r.follow(c, e)
	}
}

// trackPlan creates or drops the plan of an id, depending on whether it has an owner.
func (c *Core) trackPlan(id string) {
	_, _, owned := c.ledger.PlanOwner(id)
	p, known := c.plans[id]
	switch {
	case owned && !known:
		c.plans[id] = &plan{id: id, since: c.now, pacing: pacing{retry: c.limits.Retry}}
	case !owned && known:
		p.gone = true
		delete(c.plans, id)
	}
}

// roundEvery is how often all plans are checked for changes that only time brings. Changes by facts, the ledger and
// answers are handled at once.
const roundEvery = time.Second

// advanceDue advances what has become due since the last check, or everything if the last round was long ago.
func (c *Core) advanceDue() {
	if c.now.Sub(c.round) >= roundEvery {
		c.round, c.looked = c.now, c.now
		c.advancePromised()
		return
	}
	due := map[string]bool{}
	pick := func(p pacing, plan string) {
		if p.due.After(c.looked) && !p.due.After(c.now) {
			due[plan] = true
		}
	}
	for id, p := range c.plans {
		pick(p.pacing, id)
	}
	for _, r := range c.removals {
		pick(r.pacing, r.plan)
	}
	var mirrors []string
	for uid, m := range c.mirrors {
		if m.due.After(c.looked) && !m.due.After(c.now) {
			mirrors = append(mirrors, uid)
		}
	}
	c.looked = c.now
	for _, id := range slices.Sorted(maps.Keys(due)) {
		c.advancePlan(id)
	}
	slices.Sort(mirrors)
	for _, uid := range mirrors {
		if m, ok := c.mirrors[uid]; ok {
			m.advance(c)
		}
	}
}

// advanceTouched advances everything that concerns pods that have changed.
func (c *Core) advanceTouched(pods []string) {
	if c.draining || len(c.held) == 0 || len(c.plans)+len(c.removals)+len(c.mirrors) == 0 {
		return
	}
	for _, uid := range pods {
		if r, ok := c.removals[uid]; ok {
			c.advancePlan(r.plan)
		}
		if id := c.planOf(uid); id != "" {
			c.advancePlan(id)
		}
		if m, ok := c.mirrors[uid]; ok {
			m.advance(c)
		}
	}
}

// planOf returns the plan that works for a pod; empty without one.
func (c *Core) planOf(podUID string) string {
	_, e, _ := c.ledger.Entry(podUID)
	return e.Plan
}

// advancePlan advances a plan and its removals.
func (c *Core) advancePlan(id string) {
	if p, ok := c.plans[id]; ok {
		p.advance(c)
	}
	for _, r := range c.removalsOf(id) {
		r.advance(c)
	}
}

// advancePromised tries to advance everything that waits.
func (c *Core) advancePromised() {
	if c.draining || len(c.held) == 0 {
		return
	}
	for _, id := range slices.Sorted(maps.Keys(c.plans)) {
		c.plans[id].advance(c)
	}
	for _, uid := range slices.Sorted(maps.Keys(c.removals)) {
		if r, ok := c.removals[uid]; ok {
			r.advance(c)
		}
	}
	for _, uid := range slices.Sorted(maps.Keys(c.mirrors)) {
		if m, ok := c.mirrors[uid]; ok {
			m.advance(c)
		}
	}
}

// amend sends a transaction for m; it returns 0 if the change is not a valid transaction.
func (c *Core) amend(m machine, change ledger.Change, why string) OpID {
	return c.transact(m, change, Amend{Why: why})
}

// tidy is amend for a change that nothing waits for.
func (c *Core) tidy(m machine, change ledger.Change, why string) OpID {
	return c.transact(m, change, Amend{Why: why, Idle: true})
}

func (c *Core) transact(m machine, change ledger.Change, out Amend) OpID {
	txn, err := change.Txn()
	if err != nil {
		c.fault(out.Why, err)
		return 0
	}
	out.Op, out.Txn = c.start(m), txn
	c.emit(out)
	return out.Op
}

// pace schedules the next try of a piece of work.
func (c *Core) pace(p *pacing) {
	var d time.Duration
	d, p.retry = nextTry(p.retry)
	p.due = c.now.Add(d)
}
