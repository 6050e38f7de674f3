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
	"github.com/berth-scheduler/berth/pkg/ledger/replica"
	"github.com/berth-scheduler/berth/pkg/ledger/txns"
	"github.com/berth-scheduler/berth/pkg/ledger/view"
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/state"
)

// These are the reasons for not making a planned move: the ledger differs from what it was when the plan was made, or
// from the facts.
const (
	// PlaceTaken means that its replacement would not fit any more.
	PlaceTaken descheduling.Refusal = "the place for its replacement was taken"
	// NoRoomInLedger means that the document of one of the nodes is full.
	NoRoomInLedger descheduling.Refusal = "the ledger has no room for its place"
	// LedgerAhead means that the facts do not show yet what the ledger rests on.
	LedgerAhead descheduling.Refusal = "the ledger is ahead of the facts"
	// LostRaces means that other members changed the same documents again and again.
	LostRaces descheduling.Refusal = "its place could not be kept for all that happens there"
)

// Place is where the replacement of a pod is expected. It holds values of the plan, and is not changed while
// transactions are built from it again and again.
type Place struct {
	Node *state.Node
	// Replacement is the pod as it is expected there, and For is how it will be recognised.
	Replacement *state.Pod
	For         ledger.Replacement
	// Pod is the pod to evict, and Budgets the UIDs of the disruption budgets that its eviction takes from.
	Pod     *state.Pod
	Budgets []string
	// profile is the profile that places the replacement.
	profile *placement.Profile
}

// Promises is one cycle's view of the ledger, with the facts against which it is read. It is for one goroutine. It
// changes only by Kept and Learn.
type Promises struct {
	ledger *replica.View
	// view counts what documents promise in addition to the facts; it follows every change of ledger.
	view *view.View
	// moved holds the nodes, by UID, whose documents other members have changed since the plan.
	moved map[string]bool
}

// NewPromises takes ownership of a view of the ledger. The facts do not change any more: a cycle decides on one
// snapshot, however long its transactions take.
func NewPromises(cluster *state.Snapshot, l *replica.View) *Promises {
	return &Promises{ledger: l, view: view.New(view.Frozen{At: cluster}, l, nil), moved: map[string]bool{}}
}

// nodes returns copies of all nodes with what counts on them, which a plan may change.
func (p *Promises) nodes() []*state.NodeInfo {
	all := make([]*state.NodeInfo, 0, len(p.view.Nodes()))
	for _, n := range p.view.Nodes() {
		all = append(all, n.Clone())
	}
	return all
}

// claimed returns by how much less is left of each disruption budget than its status allows.
func (p *Promises) claimed() func(uid string) int32 {
	taken := map[string]int32{}
	for o := range p.view.Snapshot().Objects(events.KindDisruptionBudget) {
		pdb, ok := o.API.(*policyv1.PodDisruptionBudget)
		if !ok {
			continue
		}
		free, known := p.view.Budgets().Room(pdb).Free(p.view.TxnFacts())
		if !known {
			taken[o.UID] = math.MaxInt32 / 2 // nothing can be claimed until more facts have arrived
			continue
		}
		taken[o.UID] = state.DisruptionsAllowed(pdb) - int32(free)
	}
	return func(uid string) int32 { return taken[uid] }
}

// spare returns how many pods of a budget are healthy, not claimed, and not required to stay.
func (p *Promises) spare(uid string) int {
	o, _ := p.view.Snapshot().Object(events.KindDisruptionBudget, uid)
	pdb, ok := o.API.(*policyv1.PodDisruptionBudget)
	if !ok {
		return 0
	}
	return p.view.Budgets().Spare(pdb)
}

// promised reports whether any plan has a pod as a victim, or relies on it.
func (p *Promises) promised(podUID string) bool {
	if _, _, victim := p.ledger.Plans().Victim(podUID); victim {
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

// BuildMove builds T12 for an eviction that has a Place, or returns the reason why the move must not be made. After
// Learn, it must be built again.
//
// The place is checked again only if another member has changed the node's document since the plan: otherwise the
// plan itself has checked it. The documents of both nodes are compared by the transaction, and so are the budgets
// that the eviction takes from. The error is for what should not happen; a refusal is an outcome.
func (p *Promises) BuildMove(e *Eviction) (txns.Change, descheduling.Refusal, error) {
	at, d := e.Keep, &e.Decision
	token, err := ledger.ParseToken(d.Token)
	if err != nil {
		return txns.Change{}, "", err
	}
	if p.moved[at.Node.UID] && !p.fits(at) {
		return txns.Change{}, PlaceTaken, nil
	}
	victim := ledger.Entry{
		PodUID: at.Pod.UID, Namespace: at.Pod.Namespace, Name: at.Pod.Name, PodRV: at.Pod.ResourceVersion,
		Priority: at.Pod.Priority, Budgets: at.Budgets, NotAfter: d.NotAfter,
	}
	move := txns.Relocation{
		Placeholder: txns.NodeEntry{NodeUID: at.Node.UID, Entry: placeholder(at, token, d.Actor)},
		Victim:      txns.NodeEntry{NodeUID: d.NodeUID, Entry: victim, Request: at.Pod.EvictsByRequest()},
		Docs: []ledger.NodeDoc{
			p.doc(at.Node.UID, at.Node.Name).Cover(ledger.KindNode, at.Node.ResourceVersion),
			p.doc(d.NodeUID, d.NodeName),
		},
		Facts: p.view.TxnFacts(),
	}
	for _, uid := range at.Budgets {
		if o, ok := p.view.Snapshot().Object(events.KindDisruptionBudget, uid); ok {
			if pdb, ok := o.API.(*policyv1.PodDisruptionBudget); ok {
				move.Budgets = append(move.Budgets, p.view.Budgets().Room(pdb))
			}
		}
	}
	change, err := txns.Relocate(move)
	if err != nil {
		r, err := refusalOf(err)
		return txns.Change{}, r, err
	}
	return change, "", nil
}

// placeholder is the entry that keeps the place: the replacement's requests and ports, under the token of the
// request, and how the pod will be recognised.
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

// doc returns a node's document without the entries that have finished.
func (p *Promises) doc(uid, name string) ledger.NodeDoc {
	var rv uint64
	if n, ok := p.view.Node(uid); ok {
		rv = n.Node.ResourceVersion
	}
	doc, _ := txns.Finish(p.ledger.Open(uid, name, rv), p.view.TxnFacts())
	return doc
}

// fits reports whether a replacement still fits where it is expected, by what has been learned.
func (p *Promises) fits(at *Place) bool {
	node, ok := p.view.Node(at.Node.UID)
	if !ok {
		return false
	}
	in := placement.Input{Pod: at.Replacement, Nodes: p.view.Nodes(), Objects: p.view.Snapshot()}
	fits, _, err := at.profile.FitsWithout(in, node, nil)
	return err == nil && fits
}

// refusalOf translates the ledger's refusals; other errors are bugs.
func refusalOf(err error) (descheduling.Refusal, error) {
	var (
		claimed *txns.ClaimedError
		budget  *txns.BudgetError
		large   *ledger.DocTooLargeError
		entry   *ledger.EntryTooLargeError
		refused *txns.RefusedError
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

// ApplyCommitted applies a T12 or T8 that was committed.
func (p *Promises) ApplyCommitted(txn ledger.Txn, r ledger.TxnResult) error {
	changes, err := p.ledger.LearnOwn(txn, r)
	p.view.ApplyLedger(changes)
	return err
}

// ApplyConflict applies the changes to which a transaction has lost.
func (p *Promises) ApplyConflict(r ledger.TxnResult) error {
	changes, err := p.ledger.Learn(r.Current)
	p.view.ApplyLedger(changes)
	for _, d := range changes.Docs {
		p.moved[d.After.NodeUID] = true
	}
	return err
}

// Leftovers returns the T8 of places that are no longer of use: places for which an earlier leader requested no
// eviction, whose eviction was refused, or whose eviction was requested too long ago and is not awaited. They are in
// the order of their plans.
func (p *Promises) Leftovers(h *plan.History, now time.Time) []txns.Change {
	var left []ledger.Entry
	for d := range p.ledger.Docs() {
		for _, e := range d.Entries {
			if e.Role == ledger.RoleMove && !inProgress(e, h, now) && !p.awaited(e) {
				left = append(left, e)
			}
		}
	}
	slices.SortFunc(left, func(a, b ledger.Entry) int { return strings.Compare(a.Plan, b.Plan) })
	var out []txns.Change
	for _, e := range left {
		if change, err := p.abort(e); err == nil { // an error means that all of it is gone
			out = append(out, change)
		}
	}
	return out
}

// inProgress reports whether the eviction for which a place is kept may still happen, or has.
func inProgress(e ledger.Entry, h *plan.History, now time.Time) bool {
	last := h.Next(e.PodUID) - 1
	return e.Token == token(e.PodUID, last) && h.InProgress(e.PodUID, last, now)
}

// awaited reports whether the pod of a move may still leave because its eviction was requested of another controller.
// The binder that waits ends the move; until then the place is kept, however long a migration takes.
func (p *Promises) awaited(e ledger.Entry) bool {
	_, victim, ok := p.ledger.Plans().Victim(e.PodUID)
	pod, known := p.view.Pod(e.PodUID)
	return ok && known && victim.Plan == e.Plan && victim.State == ledger.Evicting && pod.EvictsByRequest()
}

// abort builds the T8 of a plan: it removes the placeholder, and the claim on the victim with what it takes from
// budgets. An error means that the ledger has none of it any more.
func (p *Promises) abort(e ledger.Entry) (txns.Change, error) {
	abort := txns.Abort{Plan: e.Plan, Docs: p.ledger.Plans().Docs(e.Plan)}
	if _, victim, ok := p.ledger.Plans().Victim(e.PodUID); ok && victim.Plan == e.Plan {
		for _, uid := range victim.Budgets {
			abort.Budgets = append(abort.Budgets, p.ledger.Budgets().Of(uid))
		}
	}
	return txns.AbortPlan(abort)
}
