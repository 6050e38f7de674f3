package decide

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/membership"
	"github.com/berth-scheduler/berth/pkg/state"
)

// keptVersions is how many replaced versions of an unbound pod are kept as evidence for the refresh path. A pod that
// changes more often than that between decision and bind is fenced instead of refreshed.
const keptVersions = 8

// attempt identifies one attempt to place one pod. It links a hint to its reservation.
type attempt struct {
	pod   string
	token ledger.Token
}

func (a attempt) compare(b attempt) int {
	return cmp.Or(cmp.Compare(a.pod, b.pod), cmp.Compare(a.token, b.token))
}

// machine is a piece of work that waits for the answer to its one effect in flight.
type machine interface{ answered(c *Core, in Input) }

// underWay is an operation that waits for its answer, and the time when it was emitted.
type underWay struct {
	machine
	since time.Time
}

// Core makes the binder's decisions. It is for one goroutine.
type Core struct {
	id       string
	limits   Limits
	enforces Enforces

	now     time.Time
	out     []Effect
	lastOp  OpID
	running map[OpID]underWay
	// stop is the reason why the binder must end; nil while it need not.
	stop     error
	held     map[int32]bool
	draining bool

	picture
	asked
	promised
}

// picture is the core's view of the cluster and the ledger.
type picture struct {
	facts FactsMoved
	// replaced holds the versions of unbound pods that newer facts have replaced, oldest first.
	replaced map[string][]wish
	// forgot is when pods were last searched for data to forget.
	forgot time.Time
	// revision is the revision of the ledger up to which every document is known.
	revision     int64
	docs         map[string]*document
	reservations map[attempt]*reservation
	// reserved holds a pod's reservations: one, unless a promise was broken.
	reserved map[string][]*reservation
	// waiting holds the reservations of held partitions that have work left and nothing in flight, except those that
	// wait for a turn.
	waiting map[attempt]*reservation
	// fencesRefused holds the reservations of held partitions whose fence the API server refuses repeatedly.
	fencesRefused map[attempt]*reservation
	turns         turns
	// atOnce limits the documents per transaction to what the store accepts.
	atOnce atOnce
}

// asked holds what the decision log requests in addition to reservations, or reports about them.
type asked struct {
	hints      map[attempt]events.Decision
	conditions map[string]*condition
	evictions  map[attempt]*eviction
	ungatings  map[string]*ungating
	// departed holds reservations of plugins' binds that have left the ledger before the facts show why.
	departed map[attempt]*reservation
	// dropped counts hints that were dropped because Limits.Foreign was reached.
	dropped uint64
}

// Enforces reports whether the profile of that scheduler name has a placement rule.
type Enforces func(schedulerName, plugin string) bool

// NewCore returns a core that knows nothing yet. id is the binder's member id, which makes the fence values of
// different binders different. enforces selects the rules of the recheck before a bind.
func NewCore(id string, limits Limits, enforces Enforces) *Core {
	return &Core{
		id:       id,
		limits:   limits,
		enforces: enforces,
		running:  map[OpID]underWay{},
		held:     map[int32]bool{},
		picture: picture{
			replaced:      map[string][]wish{},
			docs:          map[string]*document{},
			reservations:  map[attempt]*reservation{},
			reserved:      map[string][]*reservation{},
			waiting:       map[attempt]*reservation{},
			fencesRefused: map[attempt]*reservation{},
		},
		asked: asked{
			hints:      map[attempt]events.Decision{},
			conditions: map[string]*condition{},
			evictions:  map[attempt]*eviction{},
			ungatings:  map[string]*ungating{},
			departed:   map[attempt]*reservation{},
		},
		promised: newPromised(),
	}
}

// Step processes one input at the time now and returns what to do, in order. now must not go backwards (use a
// monotonic clock).
func (c *Core) Step(in Input, now time.Time) []Effect {
	c.now, c.out = now, nil
	if c.stop == nil {
		c.digest(in)
	}
	if c.stop != nil {
		return []Effect{Stop{Err: c.stop}}
	}
	return c.out
}

func (c *Core) digest(in Input) {
	switch in := in.(type) {
	case FactsMoved:
		c.factsMoved(in)
	case LedgerMoved:
		c.ledgerMoved(in)
	case PartitionsChanged:
		c.partitionsChanged(in)
	case DecisionSeen:
		c.decisionSeen(in.Decision)
	case Tick:
		c.advanceAll()
		c.advanceDue()
		c.sweep()
		c.sweepPromised()
		c.collect()
		c.forgetRefused()
	case Drain:
		c.draining = true
	case Answered:
		c.answered(in.Op, in)
	case DocRead:
		c.vouchRead(in)
		c.answered(in.Op, in)
	case Transacted:
		c.answered(in.Op, in)
	case Amended:
		c.learnKeys(in)
		c.answered(in.Op, in)
	case Untaken:
		c.answered(in.Op, in)
	}
}

// Moot reports whether an effect that still waits has become pointless or harmful. A write for a pod that waits would
// move the resourceVersion that a bind relies on, or be refused because the pod is bound. An eviction may have waited
// longer than its claim is vouched for, or its plan may have been given up. The caller must drop such an effect and
// send the core Untaken.
func (c *Core) Moot(e Effect) (OpID, bool) {
	var op OpID
	var pod string
	switch e := e.(type) {
	case PatchCondition:
		if e.Condition.Type != corev1.PodScheduled {
			return 0, false
		}
		op, pod = e.Op, e.Pod.UID
	case Nominate:
		op, pod = e.Op, e.Pod.UID
	case RemoveGate:
		u, is := c.running[e.Op].machine.(*ungating)
		return e.Op, is && u.late(c)
	case Evict:
		r, is := c.running[e.Op].machine.(*removal)
		return e.Op, is && !e.DryRun && r.moot(c)
	default:
		return 0, false
	}
	p, known, _ := c.pod(pod, 0)
	return op, c.placed(pod) || known && p.NodeName != ""
}

// Ready reports whether the core knows facts, ledger and partitions well enough to act.
func (c *Core) Ready() bool {
	return c.facts.Cluster != nil && c.facts.PodProgressKnown && c.revision > 0 && len(c.held) > 0
}

// Running counts the effects whose answer is outstanding.
func (c *Core) Running() int { return len(c.running) }

// Stats holds the core's gauges.
type Stats struct {
	Reservations, Conditions, Evictions, Hints int
	// Plans counts plans with a hold or placeholder, Removals the claims on victims, and Mirrors the pods that this
	// binder has nominated.
	Plans, Removals, Mirrors int
	// FencesRefused counts the reservations that cannot be taken back because the API server refuses the write.
	FencesRefused int
	Dropped       uint64
}

// Stats counts what the core remembers.
func (c *Core) Stats() Stats {
	return Stats{
		Reservations: len(c.reservations), Conditions: len(c.conditions), Evictions: len(c.evictions), Hints: len(c.hints),
		Plans: len(c.plans), Removals: len(c.removals), Mirrors: len(c.mirrors),
		FencesRefused: len(c.fencesRefused), Dropped: c.dropped,
	}
}

func (c *Core) answered(op OpID, in Input) {
	m, ok := c.running[op]
	if !ok {
		return
	}
	delete(c.running, op)
	m.answered(c, in)
}

// holds reports whether this binder acts on the pod (or, for the sweep, the node) now.
func (c *Core) holds(uid string) bool { return c.held[membership.BinderPartition(uid)] }

// mayAct reports whether new work may be started for the uid. It may not while the ledger begins a new generation,
// nor on facts from before Kubernetes was restored.
func (c *Core) mayAct(uid string) bool {
	return !c.draining && c.holds(uid) && c.ledger.Permits(c.facts.Epoch)
}

// start registers an operation whose answer m waits for; the caller emits the effect with its id.
func (c *Core) start(m machine) OpID {
	c.lastOp++
	c.running[c.lastOp] = underWay{m, c.now}
	return c.lastOp
}

func (c *Core) emit(e Effect) { c.out = append(c.out, e) }

// broken stops the binder. The intake folds the same batches and must agree with the core; but the core has also seen
// its own transactions, and is the one that acts.
func (c *Core) broken(err error) { c.stop = fmt.Errorf("binder: ledger: %w", err) }

func (c *Core) fault(what string, err error) { c.emit(Fault{What: what, Err: err}) }

func (c *Core) publish(d events.Decision) {
	d.Actor = c.id
	d.FactSequence = c.facts.Sequence
	d.LedgerRevision = c.revision
	c.emit(Publish{Decision: d})
}

func (c *Core) factsMoved(in FactsMoved) {
	for _, p := range in.Replaced {
		kept := append(c.replaced[p.UID], wishOf(p))
		if len(kept) > keptVersions {
			kept = slices.Clone(kept[1:])
		}
		c.replaced[p.UID] = kept
	}
	rejected, moved := in.Rejected, in.Moved
	in.Replaced = nil
	in.Rejected = nil
	in.Moved = nil
	c.facts = in
	for _, p := range rejected {
		c.rejected(p)
	}
	c.advanceAll()
	if moved == nil {
		c.advancePromised()
	} else {
		c.advanceTouched(moved)
	}
}

// rejected reports one of Berth's pods that its kubelet rejected: the bind was correct by all that was known, and
// failed anyway. There is nothing to carry out. The pod's controller creates another pod, and the shards see the same
// fact and keep that pod away from the node.
func (c *Core) rejected(p *state.Pod) {
	reason, message, ok := p.Rejection()
	token := p.Attempt()
	if !ok || token == "" || !c.mayAct(p.UID) {
		return
	}
	ref := events.PodRef{UID: p.UID, Namespace: p.Namespace, Name: p.Name}
	c.emit(Rejected{Pod: ref, NodeName: p.NodeName, Reason: reason})
	c.publish(events.Decision{
		Kind: events.DecisionRejected, Pod: ref, SchedulerName: p.SchedulerName, Token: token, NodeName: p.NodeName,
		PodResourceVersion: p.ResourceVersion, Message: reason + ": " + message,
	})
}

func (c *Core) partitionsChanged(in PartitionsChanged) {
	c.held = make(map[int32]bool, len(in.Held))
	for _, p := range in.Held {
		c.held[p] = true
	}
	for _, r := range c.reservations {
		c.park(r)
	}
	c.advanceAll()
	c.advancePromised()
}

// advanceAll tries to advance everything that waits, except plans, in an order that depends only on keys.
func (c *Core) advanceAll() {
	if c.draining || len(c.held) == 0 {
		return
	}
	for _, k := range c.dueReservations() {
		if r, ok := c.waiting[k]; ok {
			r.advance(c)
		}
	}
	var conditions []string
	for uid, w := range c.conditions {
		if w.want != nil && w.op == 0 && c.mayAct(uid) {
			conditions = append(conditions, uid)
		}
	}
	slices.Sort(conditions)
	for _, uid := range conditions {
		c.conditions[uid].advance(c)
	}
	c.seeDeparted()
	for _, uid := range slices.Sorted(maps.Keys(c.ungatings)) {
		c.ungatings[uid].advance(c)
	}
	var evictions []attempt
	for k, e := range c.evictions {
		if !e.done && e.op == 0 {
			evictions = append(evictions, k)
		}
	}
	slices.SortFunc(evictions, attempt.compare)
	for _, k := range evictions {
		c.evictions[k].advance(c)
	}
}

// dueReservations returns the waiting reservations whose time has come, in order.
func (c *Core) dueReservations() []attempt {
	var due []attempt
	for k, r := range c.waiting {
		if !c.now.Before(r.due) {
			due = append(due, k)
		}
	}
	slices.SortFunc(due, attempt.compare)
	return due
}

// pod returns the pod as the facts show it, and whether its absence would prove that it is deleted: the facts must
// have passed a version at which it existed.
func (c *Core) pod(uid string, existedAt uint64) (p *state.Pod, known, gone bool) {
	if c.facts.Cluster == nil {
		return nil, false, false
	}
	if p, ok := c.facts.Cluster.Pod(uid); ok {
		return p, true, false
	}
	return nil, false, c.facts.PodProgressKnown && c.facts.PodProgress >= existedAt
}

// wishAt returns what the pod requested at exactly that resourceVersion.
func (c *Core) wishAt(uid string, rv uint64) (asked uint64, ok bool) {
	if p, known, _ := c.pod(uid, rv); known && p.ResourceVersion == rv {
		return p.Wish(), true
	}
	for _, w := range c.replaced[uid] {
		if w.resourceVersion == rv {
			return w.asked, true
		}
	}
	return 0, false
}

func (c *Core) decisionSeen(d events.Decision) {
	token, err := ledger.ParseToken(d.Token)
	if err != nil || d.Pod.UID == "" {
		return // the log's decoder reports malformed records; a hint without identity is of no use
	}
	key := attempt{d.Pod.UID, token}
	switch d.Kind {
	case events.DecisionPlaced:
		c.hinted(key, d)
	case events.DecisionUnplaceable, events.DecisionFailed, events.DecisionQuarantined,
		events.DecisionNominated, events.DecisionWithdrawn:
		c.conditionWanted(d)
		if bindFailed(d) {
			c.hinted(key, d)
		}
	case events.DecisionUngate:
		c.ungateWanted(d)
	case events.DecisionCondition:
		c.conditionSettled(d)
	case events.DecisionEvict:
		c.evictionWanted(key, d)
	case events.DecisionEvicted, events.DecisionEvictRefused:
		c.evictionSettled(key, d.Kind == events.DecisionEvictRefused)
	case events.DecisionReturned:
		c.returned(d)
	case events.DecisionBound, events.DecisionReleased:
		// The facts and the ledger show it with more authority.
	}
}

// hinted attaches a hint to its ledger entry, and tries to advance the entry. A hint ahead of the ledger view waits
// here until the view shows the entry.
func (c *Core) hinted(key attempt, d events.Decision) {
	if r, ok := c.reservations[key]; ok {
		r.hint = d
		if r.entry.Delegated {
			r.since = c.now
		}
		r.advance(c)
		return
	}
	if d.LedgerRevision <= c.revision {
		return // the view is past it and has no such entry: an old attempt
	}
	if len(c.hints) >= c.limits.Foreign {
		c.dropped++
		return
	}
	c.hints[key] = d
}
