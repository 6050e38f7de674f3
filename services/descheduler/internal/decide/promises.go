package decide

import (
	"errors"
	"math"
	"slices"
	"strings"
	"time"

	policyv1 "k8s.io/api/policy/v1"

	"github.com/berth-scheduler/berth/pkg/descheduling"
	"github.com/berth-scheduler/berth/pkg/descheduling/plan"
	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/view"
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/state"
)

// Why a move that was planned is not made: what the ledger says now differs from what it said
// when the plan was made, or than the facts do.
const (
	// PlaceTaken: its replacement would not fit any more.
	PlaceTaken descheduling.Refusal = "the place for its replacement was taken"
	// NoRoomInLedger: the document of one of the nodes can hold no more.
	NoRoomInLedger descheduling.Refusal = "the ledger has no room for its place"
	// LedgerAhead: the facts do not show yet what the ledger rests on.
	LedgerAhead descheduling.Refusal = "the ledger is ahead of the facts"
	// LostRaces: others changed the same documents again and again.
	LostRaces descheduling.Refusal = "its place could not be kept for all that happens there"
)

// Place is where the replacement of a pod is to land.
type Place struct {
	Node *state.Node
	// Replacement is the pod as it is expected there, For how it will be recognised.
	Replacement *state.Pod
	For         ledger.Replacement
	// Pod is the one that goes, Budgets the UIDs of the disruption budgets that this takes from.
	Pod     *state.Pod
	Budgets []string
	// profile places the replacement.
	profile *placement.Profile
}

// Promises are the ledger as one cycle knows it, and the facts that it is read with. For one
// goroutine.
type Promises struct {
	ledger *ledger.View
	view   *view.View
	// moved are the nodes, by UID, whose documents others have changed since the plan.
	moved map[string]bool
}

// NewPromises takes a picture of the ledger over.
func NewPromises(cluster *state.Snapshot, l *ledger.View) *Promises {
	return &Promises{ledger: l, view: view.New(view.Frozen{At: cluster}, l, nil), moved: map[string]bool{}}
}

// nodes are all nodes with what counts on them, for a plan to change.
func (p *Promises) nodes() []*state.NodeInfo {
	all := make([]*state.NodeInfo, 0, len(p.view.Nodes()))
	for _, n := range p.view.Nodes() {
		all = append(all, n.Clone())
	}
	return all
}

// claimed is how much less is left of each disruption budget than its status allows.
func (p *Promises) claimed() func(uid string) int32 {
	taken := map[string]int32{}
	for o := range p.view.Snapshot().Objects(events.KindDisruptionBudget) {
		pdb, ok := o.API.(*policyv1.PodDisruptionBudget)
		if !ok {
			continue
		}
		free, known := p.view.Room(pdb).Free(p.view)
		if !known {
			taken[o.UID] = math.MaxInt32 / 2 // nothing can be claimed until more facts have come
			continue
		}
		taken[o.UID] = state.DisruptionsAllowed(pdb) - int32(free)
	}
	return func(uid string) int32 { return taken[uid] }
}

// spare is how many pods of a budget are healthy, not claimed, and need not stay.
func (p *Promises) spare(uid string) int {
	o, _ := p.view.Snapshot().Object(events.KindDisruptionBudget, uid)
	pdb, ok := o.API.(*policyv1.PodDisruptionBudget)
	if !ok {
		return 0
	}
	return p.view.Spare(pdb)
}

// promised says whether a plan of anybody's has a pod as a victim, or as one that is relied upon.
func (p *Promises) promised(podUID string) bool {
	if _, _, victim := p.ledger.Victim(podUID); victim {
		return true
	}
	pod, ok := p.view.Pod(podUID)
	if !ok {
		return false
	}
	n, ok := p.view.Snapshot().NodeByName(pod.NodeName)
	if !ok {
		return false
	}
	doc, _ := p.ledger.Doc(n.UID)
	return slices.ContainsFunc(doc.Entries, func(e ledger.Entry) bool {
		return e.Role == ledger.RoleKeeper && e.PodUID == podUID
	})
}

// Keep builds T12 of an eviction that has a Place, or says why the move is not to be made. Build
// it again after Learn.
func (p *Promises) Keep(e *Eviction) (ledger.Change, descheduling.Refusal, error) {
	at, d := e.Keep, &e.Decision
	token, err := ledger.ParseToken(d.Token)
	if err != nil {
		return ledger.Change{}, "", err
	}
	if p.moved[at.Node.UID] && !p.fits(at) {
		return ledger.Change{}, PlaceTaken, nil
	}
	victim := ledger.Entry{
		PodUID: at.Pod.UID, Namespace: at.Pod.Namespace, Name: at.Pod.Name, PodRV: at.Pod.ResourceVersion,
		Priority: at.Pod.Priority, Budgets: at.Budgets, NotAfter: d.NotAfter,
	}
	move := ledger.Relocation{
		Placeholder: ledger.NodeEntry{NodeUID: at.Node.UID, Entry: placeholder(at, token, d.Actor)},
		Victim:      ledger.NodeEntry{NodeUID: d.NodeUID, Entry: victim},
		Docs: []ledger.NodeDoc{
			ledger.Cover(p.doc(at.Node.UID, at.Node.Name), ledger.KindNode, at.Node.ResourceVersion),
			p.doc(d.NodeUID, d.NodeName),
		},
		Facts: p.view,
	}
	for _, uid := range at.Budgets {
		if o, ok := p.view.Snapshot().Object(events.KindDisruptionBudget, uid); ok {
			if pdb, ok := o.API.(*policyv1.PodDisruptionBudget); ok {
				move.Budgets = append(move.Budgets, p.view.Room(pdb))
			}
		}
	}
	change, err := ledger.Relocate(move)
	if err != nil {
		r, err := refusalOf(err)
		return ledger.Change{}, r, err
	}
	return change, "", nil
}

func placeholder(at *Place, token ledger.Token, actor string) ledger.Entry {
	r := at.Replacement
	e := ledger.Entry{
		Namespace: r.Namespace, Name: at.Pod.Name, Priority: r.Priority, Token: token, Shard: actor,
		PodRV:         at.Pod.ResourceVersion,
		SchedulerName: r.SchedulerName, Requests: r.Requests.Map(),
		NonZeroCPU: r.NonZero.MilliCPU, NonZeroMemory: r.NonZero.Memory, Replacement: at.For,
	}
	for _, port := range r.Ports {
		e.Ports = append(e.Ports, ledger.HostPort{IP: port.IP, Protocol: port.Protocol, Port: port.Port})
	}
	return e
}

// doc is a node's document with what has finished dropped.
func (p *Promises) doc(uid, name string) ledger.NodeDoc {
	var rv uint64
	if n, ok := p.view.Node(uid); ok {
		rv = n.Node.ResourceVersion
	}
	doc, _ := ledger.Finish(p.ledger.Open(uid, name, rv), p.view)
	return doc
}

// fits says whether a replacement still fits where it is to land, by what has been learned.
func (p *Promises) fits(at *Place) bool {
	node, ok := p.view.Node(at.Node.UID)
	if !ok {
		return false
	}
	in := placement.Input{Pod: at.Replacement, Nodes: p.view.Nodes(), Objects: p.view.Snapshot()}
	fits, _, err := at.profile.FitsWithout(in, node, nil)
	return err == nil && fits
}

// refusalOf puts the ledger's refusals in words; other errors are mistakes.
func refusalOf(err error) (descheduling.Refusal, error) {
	var (
		claimed *ledger.ClaimedError
		budget  *ledger.BudgetError
		large   *ledger.DocTooLargeError
		entry   *ledger.EntryTooLargeError
		refused *ledger.RefusedError
	)
	switch {
	case errors.As(err, &claimed):
		return plan.AnothersPlan, nil
	case errors.As(err, &budget):
		return plan.NoBudget, nil
	case errors.As(err, &large), errors.As(err, &entry):
		return NoRoomInLedger, nil
	case errors.As(err, &refused):
		return LedgerAhead, nil
	}
	return "", err
}

// Kept takes in a T12, or T8, that was carried out.
func (p *Promises) Kept(txn ledger.Txn, r ledger.TxnResult) error {
	changes, err := p.ledger.LearnOwn(txn, r)
	p.view.ApplyLedger(changes)
	return err
}

// Learn takes in what a transaction has lost to.
func (p *Promises) Learn(r ledger.TxnResult) error {
	changes, err := p.ledger.Learn(r.Current)
	p.view.ApplyLedger(changes)
	for _, d := range changes.Docs {
		p.moved[d.After.NodeUID] = true
	}
	return err
}

// Leftovers are the T8 of places of which nothing will come: that a leader before has kept and
// then asked for no eviction, whose eviction was refused, or asked for too long ago. In the order
// of their plans.
func (p *Promises) Leftovers(h *plan.History, now time.Time) []ledger.Change {
	var left []ledger.Entry
	for d := range p.ledger.Docs() {
		for _, e := range d.Entries {
			if e.Role == ledger.RoleMove && !stands(e, h, now) {
				left = append(left, e)
			}
		}
	}
	slices.SortFunc(left, func(a, b ledger.Entry) int { return strings.Compare(a.Plan, b.Plan) })
	var out []ledger.Change
	for _, e := range left {
		if change, err := p.abort(e); err == nil { // an error says that all of it is gone
			out = append(out, change)
		}
	}
	return out
}

// stands says whether the eviction that a place is kept for may still take place, or has.
func stands(e ledger.Entry, h *plan.History, now time.Time) bool {
	last := h.Next(e.PodUID) - 1
	return e.Token == token(e.PodUID, last) && h.Stands(e.PodUID, last, now)
}

func (p *Promises) abort(e ledger.Entry) (ledger.Change, error) {
	abort := ledger.Abort{Plan: e.Plan, Docs: p.ledger.PlanDocs(e.Plan)}
	if _, victim, ok := p.ledger.Victim(e.PodUID); ok && victim.Plan == e.Plan {
		for _, uid := range victim.Budgets {
			abort.Budgets = append(abort.Budgets, p.ledger.Budget(uid))
		}
	}
	return ledger.AbortPlan(abort)
}
