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
// (L2): the time for a bind (30 s), a fence (30 s), and a lease or two of members that died in between. A longer one
// is a warning, not a violation: a binder may still be at work on it.
const unresolvedAfter = 2 * time.Minute

// replay is one walk through a history: the evidence, the state that the walk has reached, and the rules that it
// checks. It is used once, by one goroutine: load, then run.
type replay struct {
	report   *Report
	found    *findings
	evidence *evidence
	// The state of the walk.
	state       *ledgerState
	placed      *placements
	generations *generations
	// The rules, by invariant. Binds and claims are checked once, at the end; all others at every revision.
	documents *documentLaws
	plans     *planLaws
	budgets   *budgetLaws
	gangs     *gangLaws
	capacity  *capacityLaws
	binds     *bindLaws
	claims    *claimLaws
}

// newReplay returns a replay of an empty history. The parts share one findings, so that each violation is reported at
// the revision of the walk, and one evidence; a rule gets only the parts that it reads.
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
		gangs:    &gangLaws{evidence: evidence, placed: placed, topology: topology, found: found},
		budgets:  &budgetLaws{evidence: evidence, state: state, found: found},
		capacity: &capacityLaws{evidence: evidence, placed: placed, topology: topology, found: found},
		binds: &bindLaws{
			evidence: evidence, state: state, placed: placed, generations: generations, found: found,
		},
		claims: &claimLaws{evidence: evidence, placed: placed, found: found},
	}
}

// Replay reads a history to its end and checks every revision of it. An error means that the history cannot be read,
// and names the line; broken invariants are in the report. A history that ends early is checked as far as it goes,
// with a note. It holds the whole history in memory.
func Replay(r io.Reader) (*Report, error) {
	a := newReplay()
	if err := recording.Read(r, a.evidence.load); err != nil {
		return nil, err
	}
	a.run()
	return a.report, nil
}

// ReplayRecords is Replay for a history in memory, without a header. It keeps references to the records, and does not
// change them.
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

// run walks through the history, in three parts:
//
//  1. Before the walk: sort the marks, count the objects, and place the pods that were bound when the recording
//     began.
//  2. The walk: each list of the ledger replaces the state, each revision is one step.
//  3. After the walk: what needs the placements of all revisions (binds, claims, preempted pods, unresolved
//     reservations).
//
// A bind is compared with the reservation that it names, not with the state at some revision: which revision was
// current at the bind is known only as closely as the marks are.
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
			// A revision at or before the current one is a repetition, by a watch that was opened again.
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

// relist takes a list of the ledger as the current state. The first list begins the history. A later one (again) means
// that revisions were missed: the report is then incomplete, and checks that need every revision are left out from
// there on (ledgerState.jumped). Reservations that appear or disappear between the two states are recorded without
// being checked, as the steps between them are unknown.
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

// step processes one revision, all events of which are one transaction. The order matters:
//
//  1. the generation: while one is closed, deletions are cleanup, and are taken out of the events (generations.clear)
//  2. checkKey, against the state before
//  3. apply all events, keeping the documents, stubs and floor from before
//  4. checkDoc for each changed document, old against new; it commits and releases placements
//  5. across documents: victims, moves, budgets, double reservations, displaced holds
//  6. checkFresh, which compares the placements committed in step 4 with all others, and with their gangs
//
// Step 4 must precede 5 and 6, which read the placements of this revision; step 5 reads documents that the revision
// did not change, and so must follow step 3 for all events.
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
	a.gangs.checkFresh()
}

// checkEnd reports reservations that are not resolved at the end of the history (L2): their pod exists, and was not
// bound.
func (a *replay) checkEnd() {
	for _, doc := range sortedDocs(a.state.docs) {
		for _, e := range reservations(doc) {
			p, pod := a.placed.find(e.PodUID, e.Token), a.evidence.pods[e.PodUID]
			if p == nil || pod == nil || pod.bound.happened() || pod.gone.happened() {
				continue
			}
			a.report.Unresolved++
			if age := a.evidence.timeline.elapsedSince(p.committed); age > unresolvedAfter {
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
