package audit

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/berth-scheduler/berth/pkg/audit/recording"
	"github.com/berth-scheduler/berth/pkg/ledger"
)

// unresolvedAfter is how long a reservation may exist at the end of a history without its pod being bound or gone
// (L2): the time for a bind, a fence, and a lease or two.
const unresolvedAfter = 2 * time.Minute

// replay is one walk through a history: the evidence, the state that the walk has reached, and the rules that it
// checks.
type replay struct {
	report   *Report
	found    *findings
	evidence *evidence
	// The state of the walk.
	state       *ledgerState
	placed      *placements
	generations *generations
	// The rules, by invariant. Documents, plans, budgets and capacity are checked at every revision, binds and claims
	// once, at the end.
	documents *documentLaws
	plans     *planLaws
	budgets   *budgetLaws
	capacity  *capacityLaws
	binds     *bindLaws
	claims    *claimLaws
}

func newReplay() *replay {
	report := &Report{Findings: []Finding{}}
	found := &findings{report: report}
	evidence := newEvidence(found)
	state := newLedgerState(found)
	placed := newPlacements(evidence, found)
	generations := &generations{evidence: evidence, state: state, placed: placed, found: found}
	topology := &topologyLaws{evidence: evidence, placed: placed, found: found}
	return &replay{
		report: report, found: found, evidence: evidence, state: state, placed: placed, generations: generations,
		documents: &documentLaws{evidence: evidence, state: state, placed: placed, found: found},
		plans: &planLaws{
			evidence: evidence, state: state, generations: generations, found: found,
			marked: map[string][]int64{}, schedulers: map[string]bool{},
		},
		budgets:  &budgetLaws{evidence: evidence, state: state, found: found},
		capacity: &capacityLaws{evidence: evidence, placed: placed, topology: topology, found: found},
		binds: &bindLaws{
			evidence: evidence, state: state, placed: placed, generations: generations, found: found,
		},
		claims: &claimLaws{evidence: evidence, placed: placed, found: found},
	}
}

// Replay reads a history to its end and checks every revision of it. An error means that the history cannot be
// read; broken invariants are in the report.
func Replay(r io.Reader) (*Report, error) {
	a := newReplay()
	if err := recording.Read(r, a.evidence.load); err != nil {
		return nil, err
	}
	a.run()
	return a.report, nil
}

// ReplayRecords is Replay for a history in memory, without a header.
func ReplayRecords(records []recording.Record) (*Report, error) {
	a := newReplay()
	for i, record := range records {
		if err := a.evidence.load(record); err != nil {
			return nil, fmt.Errorf("audit: record %d: %w", i, err)
		}
	}
	a.run()
	return a.report, nil
}

// run walks through the history.
func (a *replay) run() {
	a.evidence.timeline.sort()
	a.evidence.summarize()
	a.placed.addInitial()
	for i, batch := range a.evidence.batches {
		if batch.Listed {
			a.relist(batch, i > 0)
			continue
		}
		for len(batch.Events) > 0 {
			n := 1
			for n < len(batch.Events) && batch.Events[n].Mod == batch.Events[0].Mod {
				n++
			}
			if batch.Events[0].Mod > a.found.revision {
				a.step(batch.Events[:n])
			}
			batch.Events = batch.Events[n:]
		}
	}
	a.report.Last = a.found.revision
	a.binds.checkBinds()
	a.binds.checkNodesAtBinds()
	a.claims.checkAll()
	a.plans.checkPreempted()
	a.checkEnd()
	a.report.sort()
}

// relist takes a list of the ledger as the current state.
func (a *replay) relist(batch recording.Ledger, again bool) {
	if again {
		a.state.jumped, a.report.Complete = true, false
		a.report.note("revisions %d to %d of the ledger were missed", a.found.revision+1, batch.Revision)
	} else {
		a.report.First = batch.Revision
	}
	old := a.state.docs
	a.state.clear()
	a.found.revision = batch.Revision
	a.generations.apply(batch.Events)
	for _, ev := range batch.Events {
		a.state.apply(ev)
		if uid, ok := strings.CutPrefix(ev.Key, ledger.PrefixNode); ok {
			a.placed.adopt(old[uid], a.state.docs[uid])
		}
		delete(old, strings.TrimPrefix(ev.Key, ledger.PrefixNode))
	}
	for _, doc := range old {
		a.placed.adopt(doc, ledger.NodeDoc{NodeUID: doc.NodeUID, NodeName: doc.NodeName})
	}
	a.plans.adoptMarks()
	a.placed.fresh = nil
}

// step processes one revision: it checks documents against the state before, then applies the new state, then
// checks what was placed against everything that exists.
func (a *replay) step(events []recording.LedgerEvent) {
	a.found.revision = events[0].Mod
	a.report.Revisions++
	a.placed.fresh = a.placed.fresh[:0]
	opens := a.generations.apply(events)
	events = a.generations.clear(events)
	for _, ev := range events {
		a.documents.checkKey(ev)
	}
	before, budgets := map[string]ledger.NodeDoc{}, map[string]ledger.BudgetDoc{}
	stubs, floor := map[string]stub{}, a.state.floor
	for _, ev := range events {
		if s, known := a.state.stubs[ev.Key]; known {
			stubs[ev.Key] = s
		}
		if uid, ok := strings.CutPrefix(ev.Key, ledger.PrefixNode); ok {
			before[uid] = a.state.docs[uid]
		}
		if uid, ok := strings.CutPrefix(ev.Key, ledger.PrefixBudget); ok {
			budgets[uid] = a.state.budgets[uid]
		}
		a.state.apply(ev)
	}
	for _, ev := range events {
		if uid, ok := strings.CutPrefix(ev.Key, ledger.PrefixNode); ok && !ev.Deleted {
			a.documents.checkDoc(before[uid], a.state.docs[uid])
		}
	}
	if opens {
		a.generations.open()
	} else {
		a.documents.checkCollected(events, stubs, floor)
	}
	a.plans.checkVictims(before)
	a.plans.checkMoves(before)
	a.budgets.checkBudgets(events, budgets)
	a.documents.checkUnique(events)
	a.documents.checkDisplaced(before)
	a.capacity.checkFresh()
}

// checkEnd reports reservations that are not resolved (L2).
func (a *replay) checkEnd() {
	for _, doc := range sortedDocs(a.state.docs) {
		for _, e := range reservations(doc) {
			p, pod := a.placed.find(e.PodUID, e.Token), a.evidence.pods[e.PodUID]
			if p == nil || pod == nil || pod.bound.known() || pod.gone.known() {
				continue
			}
			a.report.Unresolved++
			if age := a.evidence.timeline.since(p.committed); age > unresolvedAfter {
				a.report.add(Finding{
					Severity: Warning, Invariant: "L2", Revision: p.committed,
					Objects: []string{p.object(), nodeObject(p.node)},
					Message: fmt.Sprintf("reserved for %s (%s), neither bound nor released at the end of the history",
						age.Round(time.Second), e.State),
				})
			}
		}
	}
}
