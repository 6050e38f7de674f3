package audit

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/codec"
	"github.com/berth-scheduler/berth/pkg/ledger/registry"
	"github.com/berth-scheduler/berth/pkg/ledger/roster"
)

// unresolvedAfter is how long a reservation may exist at the end of a history without its pod being bound or gone
// (L2): the time for a bind, a fence, and a lease or two.
const unresolvedAfter = 2 * time.Minute

// hearsay is how long a shard may still count a pod that is gone: the longest pause of the log that the oracle
// allows for.
const hearsay = time.Minute

// Replay reads a history to its end and checks every revision of it. An error means that the history cannot be
// read; broken invariants are in the report.
func Replay(r io.Reader) (*Report, error) {
	a := newReplay()
	if err := Read(r, a.load); err != nil {
		return nil, err
	}
	a.run()
	return a.report, nil
}

// ReplayRecords is Replay for a history in memory, without a header.
func ReplayRecords(records []Record) (*Report, error) {
	a := newReplay()
	for i, record := range records {
		if err := a.load(record); err != nil {
			return nil, fmt.Errorf("audit: record %d: %w", i, err)
		}
	}
	a.run()
	return a.report, nil
}

// replay is a history in memory, and one walk through it.
type replay struct {
	report *Report
	// The data that was loaded.
	pods       map[string]*podLife
	nodes      map[string]*nodeLife
	byName     map[string][]*nodeLife
	foreign    map[string][]*podLife // bound by other schedulers, by node name
	namespaces map[string]map[string]string
	batches    []Ledger
	marks      []Mark
	end        *End
	classes    *classes
	// pdbs holds the disruption budgets, by UID.
	pdbs map[string]*budgetLife
	// claims holds the claims to volumes and devices, and the volumes.
	claims *claimLives
	// The state of the walk.
	*walk
}

// walk is the state of the ledger at one revision, and what it has promised so far.
type walk struct {
	revision int64
	docs     map[string]ledger.NodeDoc
	owners   map[int32]owner
	terms    map[registry.TermID]bool // false: retiring
	// placements is by pod UID, in order; standing holds those that count, by node name.
	placements map[string][]*placement
	standing   map[string]map[*placement]struct{}
	// fresh holds those committed at this revision.
	fresh []*placement
	// stubs holds the documents that may be collected, by key; floor holds the high-water marks of those that were.
	stubs map[string]stub
	floor map[string]uint64
	// jumped reports that revisions of the ledger were missed.
	jumped     bool
	generation generation
	plans
}

type owner struct {
	member string
	epoch  int64
}

// placement is one reservation that was committed, or a bind from before the history.
type placement struct {
	pod           *podLife // nil: the history does not contain the pod
	entry         ledger.Entry
	nodeUID, node string
	// knownPods and knownNodes are the versions that the deciding shard must have applied: the high-water marks of
	// the document before.
	knownPods, knownNodes uint64
	class                 *class
	// committed is the revision that committed it; left is the one that removed it, with the high-water mark
	// leftAt.
	committed, left int64
	leftAt          uint64
	// released is the revision that ended it without a bind.
	released int64
}

// ended reports whether the pod of the placement may have ended at rv.
func (p *placement) ended(rv uint64) bool {
	return p.released != 0 || p.pod != nil && p.pod.ended.maybe(rv)
}

// past reports whether the placement had certainly ended at a mark.
func (p *placement) past(m Mark) bool {
	return p.released != 0 && p.released <= m.Ledger || p.pod != nil && p.pod.ended.surely(m.Objects)
}

func (p *placement) name() string   { return p.entry.Namespace + "/" + p.entry.Name }
func (p *placement) object() string { return entryObject(p.entry) }

func newReplay() *replay {
	a := &replay{
		report: &Report{Findings: []Finding{}}, pods: map[string]*podLife{}, nodes: map[string]*nodeLife{},
		namespaces: map[string]map[string]string{}, classes: newClasses(),
		byName: map[string][]*nodeLife{}, foreign: map[string][]*podLife{}, pdbs: map[string]*budgetLife{},
		claims: newClaims(),
		walk: &walk{
			plans: newPlans(),
			docs:  map[string]ledger.NodeDoc{}, owners: map[int32]owner{}, terms: map[registry.TermID]bool{},
			stubs:      map[string]stub{},
			placements: map[string][]*placement{}, standing: map[string]map[*placement]struct{}{},
		},
	}
	a.classes.namespaces = a.namespaces
	return a
}

// latest returns a resourceVersion of the API server at which the ledger had not yet gone beyond revision: a
// decision at revision knew nothing newer.
func (a *replay) latest(revision int64) uint64 {
	i, _ := slices.BinarySearchFunc(a.marks, revision, func(m Mark, r int64) int { return cmp.Compare(m.Ledger, r) })
	if i < len(a.marks) {
		return a.marks[i].Objects
	}
	if a.end != nil && a.end.Ledger >= revision {
		return a.end.Objects
	}
	return ^uint64(0) - 1
}

// longAgo returns the last mark that was made more than hearsay before this revision; zero if there is none.
func (a *replay) longAgo() Mark {
	now := a.now()
	n, _ := slices.BinarySearchFunc(a.marks, now-hearsay.Milliseconds(), func(m Mark, unix int64) int {
		return cmp.Compare(m.Unix, unix)
	})
	if n == 0 {
		return Mark{}
	}
	return a.marks[n-1]
}

// now returns the recorder's clock at this revision, in milliseconds, or shortly before.
func (a *replay) now() int64 {
	i, _ := slices.BinarySearchFunc(a.marks, a.revision, func(m Mark, r int64) int { return cmp.Compare(m.Ledger, r) })
	if i == 0 {
		return 0
	}
	return a.marks[i-1].Unix
}

// run walks through the history.
func (a *replay) run() {
	slices.SortStableFunc(a.marks, func(x, y Mark) int { return cmp.Compare(x.Ledger, y.Ledger) })
	a.count()
	a.beforeHistory()
	for i, batch := range a.batches {
		if batch.Listed {
			a.relist(batch, i > 0)
			continue
		}
		for len(batch.Events) > 0 {
			n := 1
			for n < len(batch.Events) && batch.Events[n].Mod == batch.Events[0].Mod {
				n++
			}
			if batch.Events[0].Mod > a.revision {
				a.step(batch.Events[:n])
			}
			batch.Events = batch.Events[n:]
		}
	}
	a.report.Last = a.revision
	a.checkBinds()
	a.checkNodesAtBinds()
	a.checkHoldings()
	a.checkPreempted()
	a.checkEnd()
	a.report.sort()
}

func (a *replay) stand(p *placement) {
	if a.standing[p.node] == nil {
		a.standing[p.node] = map[*placement]struct{}{}
	}
	a.standing[p.node][p] = struct{}{}
	if p.class != nil {
		p.class.standing[p] = struct{}{}
	}
}

// fall removes a placement from its node. Its class keeps it, for decisions that did not know yet that it had
// ended.
func (a *replay) fall(p *placement) { delete(a.standing[p.node], p) }

// relist takes a list of the ledger as the current state.
func (a *replay) relist(batch Ledger, again bool) {
	if again {
		a.jumped, a.report.Complete = true, false
		a.report.note("revisions %d to %d of the ledger were missed", a.revision+1, batch.Revision)
	} else {
		a.report.First = batch.Revision
	}
	old := a.docs
	a.docs = map[string]ledger.NodeDoc{}
	a.owners = map[int32]owner{}
	a.terms = map[registry.TermID]bool{}
	a.records, a.budgets = map[string]ledger.PlanRecord{}, map[string]ledger.BudgetDoc{}
	a.stubs, a.floor = map[string]stub{}, nil
	a.revision = batch.Revision
	a.turn(batch.Events)
	for _, ev := range batch.Events {
		a.learn(ev)
		if uid, ok := strings.CutPrefix(ev.Key, ledger.PrefixNode); ok {
			a.adopt(old[uid], a.docs[uid])
		}
		delete(old, strings.TrimPrefix(ev.Key, ledger.PrefixNode))
	}
	for _, doc := range old {
		a.adopt(doc, ledger.NodeDoc{NodeUID: doc.NodeUID, NodeName: doc.NodeName})
	}
	a.adoptMarks()
	a.fresh = nil
}

// adopt applies the state of a document after a jump.
func (a *replay) adopt(before, after ledger.NodeDoc) {
	for _, e := range reservations(before) {
		if _, ok := after.Find(e.PodUID); !ok && e.State != ledger.Held {
			a.leave(e, before, after)
		}
	}
	for _, e := range reservations(after) {
		if e.State != ledger.Held && a.placementOf(e.PodUID, e.Token) == nil {
			a.commit(e, ledger.NodeDoc{}, after)
		}
	}
}

// learn applies one change of one key, without checks.
func (a *replay) learn(ev LedgerEvent) {
	a.learnStub(ev)
	switch {
	case strings.HasPrefix(ev.Key, ledger.PrefixNode):
		uid := strings.TrimPrefix(ev.Key, ledger.PrefixNode)
		if ev.Deleted {
			delete(a.docs, uid)
			return
		}
		doc, err := codec.DecodeNodeDoc(ev.KV())
		if err != nil {
			a.badValue(ev, err)
			return
		}
		a.docs[uid] = doc
	case strings.HasPrefix(ev.Key, roster.PrefixOwn):
		a.learnOwner(ev)
	case strings.HasPrefix(ev.Key, registry.PrefixTerm) && ev.Key != registry.KeyTermRegistry:
		id := registry.TermID(strings.TrimPrefix(ev.Key, registry.PrefixTerm))
		if ev.Deleted {
			delete(a.terms, id)
			return
		}
		_, term, err := registry.DecodeTerm(ev.KV())
		if err != nil {
			a.badValue(ev, err)
			return
		}
		a.terms[id] = !term.Retiring
	default:
		a.learnPlan(ev)
	}
}

func (a *replay) learnOwner(ev LedgerEvent) {
	partition, ok := roster.ParseOwn(ev.Key)
	if !ok || ev.Deleted {
		delete(a.owners, partition)
		return
	}
	o, err := roster.DecodeOwner(ev.Value)
	if err != nil {
		a.badValue(ev, err)
		return
	}
	a.owners[partition] = owner{member: o.Member, epoch: ev.Create}
}

func (a *replay) badValue(ev LedgerEvent, err error) {
	a.report.add(Finding{
		Severity: Violation, Invariant: "form", Revision: ev.Mod, Objects: []string{ledgerObject(ev.Key)},
		Message: "has a value that cannot be decoded: " + err.Error(),
	})
}

// step processes one revision: it checks documents against the state before, then applies the new state, then
// checks what was placed against everything that exists.
func (a *replay) step(events []LedgerEvent) {
	a.revision = events[0].Mod
	a.report.Revisions++
	a.fresh = a.fresh[:0]
	opens := a.turn(events)
	events = a.cleared(events)
	for _, ev := range events {
		a.checkKey(ev)
	}
	before, budgets := map[string]ledger.NodeDoc{}, map[string]ledger.BudgetDoc{}
	stubs, floor := map[string]stub{}, a.floor
	for _, ev := range events {
		if s, known := a.stubs[ev.Key]; known {
			stubs[ev.Key] = s
		}
		if uid, ok := strings.CutPrefix(ev.Key, ledger.PrefixNode); ok {
			before[uid] = a.docs[uid]
		}
		if uid, ok := strings.CutPrefix(ev.Key, ledger.PrefixBudget); ok {
			budgets[uid] = a.budgets[uid]
		}
		a.learn(ev)
	}
	for _, ev := range events {
		if uid, ok := strings.CutPrefix(ev.Key, ledger.PrefixNode); ok && !ev.Deleted {
			a.checkDoc(before[uid], a.docs[uid])
		}
	}
	if opens {
		a.open()
	} else {
		a.checkCollected(events, stubs, floor)
	}
	a.checkVictims(before)
	a.checkMoves(before)
	a.checkBudgets(events, budgets)
	a.checkUnique(events)
	a.checkDisplaced(before)
	a.checkFresh()
}

// commit records that a reservation may be bound from this revision on.
func (a *replay) commit(e ledger.Entry, before, after ledger.NodeDoc) {
	p := &placement{
		pod: a.pods[e.PodUID], entry: e, nodeUID: after.NodeUID, node: after.NodeName, committed: a.revision,
		knownPods: before.HW[ledger.KindPod], knownNodes: before.HW[ledger.KindNode],
	}
	if p.pod != nil {
		p.class = p.pod.decided(e.PodRV).class
	}
	a.placements[e.PodUID] = append(a.placements[e.PodUID], p)
	a.stand(p)
	a.fresh = append(a.fresh, p)
	a.report.Reserved++
}

// leave records that a committed reservation was removed.
func (a *replay) leave(e ledger.Entry, before, after ledger.NodeDoc) {
	if e.State == ledger.Fencing {
		a.report.Fenced++
	} else {
		a.report.HandedOver++
	}
	p := a.placementOf(e.PodUID, e.Token)
	if p == nil {
		return
	}
	p.left, p.leftAt = a.revision, after.HW[ledger.KindPod]
	if p.pod == nil || p.pod.node != before.NodeName || p.pod.token != e.Token {
		p.released = a.revision
		a.fall(p)
	}
}

func (a *replay) placementOf(podUID string, token ledger.Token) *placement {
	for _, p := range a.placements[podUID] {
		if p.entry.Token == token {
			return p
		}
	}
	return nil
}

// checkEnd reports reservations that are not resolved (L2).
func (a *replay) checkEnd() {
	for _, doc := range sortedDocs(a.docs) {
		for _, e := range reservations(doc) {
			p, pod := a.placementOf(e.PodUID, e.Token), a.pods[e.PodUID]
			if p == nil || pod == nil || pod.bound.known() || pod.gone.known() {
				continue
			}
			a.report.Unresolved++
			if age := a.since(p.committed); age > unresolvedAfter {
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

// since returns the recorder's time from a revision to the last mark.
func (a *replay) since(revision int64) time.Duration {
	for _, m := range a.marks {
		if m.Ledger >= revision {
			return time.Duration(a.marks[len(a.marks)-1].Unix-m.Unix) * time.Millisecond
		}
	}
	return 0
}

func sortedDocs(docs map[string]ledger.NodeDoc) []ledger.NodeDoc {
	out := make([]ledger.NodeDoc, 0, len(docs))
	for _, d := range docs {
		out = append(out, d)
	}
	slices.SortFunc(out, func(a, b ledger.NodeDoc) int { return cmp.Compare(a.NodeUID, b.NodeUID) })
	return out
}

func reservations(d ledger.NodeDoc) []ledger.Entry {
	var out []ledger.Entry
	for _, e := range d.Entries {
		if e.Role == ledger.RoleReservation {
			out = append(out, e)
		}
	}
	return out
}

// canonical returns a text that is equal for equal values.
func canonical(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprintf("%+v", v) // API types always marshal
	}
	return string(text)
}
