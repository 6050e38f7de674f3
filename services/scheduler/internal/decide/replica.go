package decide

import (
	"fmt"
	"slices"
	"time"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/view"
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/placement/engine"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/pkg/state/follow"
	"github.com/berth-scheduler/berth/services/scheduler/internal/avoid"
)

// Replica makes decisions of a shard again, from the records that it left: a Core that is fed
// the facts and the ledger, up to where a record says, and made to look like the shard's in
// whatever else the record says (events.Basis). Where the pod goes it is not told, but finds
// out by the code that found it the first time.
//
// Records are to be made again in the order of their moments. For one goroutine.
type Replica struct {
	core *Core
	// made are the choices made again, by their order; staged those that count at present.
	made   map[uint64]made
	staged map[uint64]bool
	oldest uint64
}

// made is a choice: who, where, and instead of which placeholder.
type made struct {
	pod     *state.Pod
	node    string
	instead ledger.Token
}

// rememberOrders is how many choices a Replica remembers: many times as many as a shard stages.
const rememberOrders = 8192

// everAfter ends what lasts for a while in a shard and as long as it is told to in a Replica.
const everAfter = time.Duration(1 << 62)

// NotRemadeError says why a decision cannot be made again.
type NotRemadeError struct{ Reason string }

func (e *NotRemadeError) Error() string { return "cannot be made again: " + e.Reason }

// NewReplica returns one that knows nothing yet. Of cfg it uses Shard, Profiles and Home.
func NewReplica(cfg Config) *Replica {
	cfg.NoEvidence = false
	r := &Replica{core: New(cfg), made: map[uint64]made{}, staged: map[uint64]bool{}}
	r.core.view.KeepFates()
	return r
}

// Facts applies facts.
func (r *Replica) Facts(b follow.Batch) error { return r.core.applyFacts(b) }

// Unreadable says why a fact could not be read, nil if all could.
func (r *Replica) Unreadable() error { return r.core.Unreadable() }

// Ledger applies what the ledger's watch told.
func (r *Replica) Ledger(b ledger.ViewBatch) error { return r.core.applyLedger(b) }

// Learn applies what the shard knew ahead of its watch (events.Basis.Learned): kvs are the keys that l names.
func (r *Replica) Learn(l events.Learned, kvs []ledger.KV) error {
	learn := r.core.ledger.Learn
	if l.Key == "" {
		learn = r.core.ledger.LearnPut
	}
	changes, err := learn(kvs)
	if err != nil {
		return fmt.Errorf("scheduler: what the shard had learned: %w", err)
	}
	r.core.ledgerMoved(changes)
	return nil
}

// Members are the versions of the live members of a role, by id, as the ledger has them.
func (r *Replica) Members(role string) map[string]string {
	versions := map[string]string{}
	for _, m := range r.core.ledger.Members(role) {
		versions[m.ID] = m.Version
	}
	return versions
}

// Note takes a choice for granted that is not made again: later ones may have counted it.
func (r *Replica) Note(d events.Decision) {
	if pod, ok := r.core.view.Pod(d.Pod.UID); ok && d.NodeName != "" {
		r.remember(d.Evidence.Order, made{pod: pod, node: d.NodeName})
	}
}

func (r *Replica) remember(order uint64, m made) {
	if order == 0 {
		return
	}
	r.made[order] = m
	for ; r.oldest+rememberOrders < order; r.oldest++ {
		delete(r.made, r.oldest)
	}
}

// Remake decides what d decided, on what has been applied. Of d it reads the pod, the attempt and
// what its evidence says about the state, and nothing about what came of it. *NotRemadeError
// (errors.As) if the record or the state do not have what is needed.
func (r *Replica) Remake(d events.Decision) (events.Decision, error) {
	c := r.core
	pod, profile, err := r.subject(d)
	if err != nil {
		return events.Decision{}, err
	}
	b := d.Evidence.Basis
	if b.Way == events.WayAdvised {
		return events.Decision{}, &NotRemadeError{"extenders had a say in it, and the log does not have what they said"}
	}
	if err := r.stage(d.Evidence.Staged); err != nil {
		return events.Decision{}, err
	}
	if err := r.leaveAlone(b.LeftAlone); err != nil {
		return events.Decision{}, err
	}
	c.start = [2]int{int(b.Start), int(b.HomeStart)}
	c.cfg.HomeFirst = !b.Whole
	a := &attempt{
		offer: events.Offer{Pod: d.Pod, Attempt: d.Attempt, Token: d.Token}, pod: pod, received: c.now,
	}
	c.attempts.begin(a)
	if a.turn, err = r.turn(b.Preferred); err != nil {
		return events.Decision{}, err
	}
	if err := r.avoid(pod, b.Avoided); err != nil {
		return events.Decision{}, err
	}
	defer r.clear(a)
	var out Output
	switch b.Way {
	case events.WayHeld:
		return r.seek(a, profile, d)
	case events.WayOusted:
		err = r.oust(a, profile, &out)
	default:
		c.place(a, profile, &out)
	}
	if err != nil {
		return events.Decision{}, err
	}
	return r.outcome(a, b, out)
}

// seek is the search for pods that could go.
func (r *Replica) seek(a *attempt, profile *placement.Profile, d events.Decision) (events.Decision, error) {
	c := r.core
	r.spare(d.Evidence.Basis.Spared)
	s, err := r.seeker(a, profile)
	if err != nil {
		return events.Decision{}, err
	}
	again := c.decision(events.DecisionNominated, a)
	again.Evidence = &events.Evidence{Config: profile.Hash(), Basis: events.Basis{Way: events.WayHeld}}
	if s.volumes, err = c.claims.Of(a.pod, profile); err != nil {
		return events.Decision{}, &NotRemadeError{err.Error()}
	}
	if t, ok := c.displaceable(s); ok && !s.volumes.Any() {
		again.NodeName = t.node.Node.Name
		return again, nil
	}
	c.plans.budgets.stale = true
	plan := c.preempt(s, engine.PreemptQuery{Pod: a.pod, Seed: d.Seed, Budgets: c.budgetsNow()})
	switch {
	case plan.Err != nil:
		return events.Decision{}, &NotRemadeError{plan.Err.Error()}
	case plan.Node == nil:
		return events.Decision{}, &NotRemadeError{"on this state nobody would have to go for the pod: " + plan.Message}
	}
	again.NodeName = plan.Node.Node.Name
	return again, nil
}

// spare has exactly these pods left alone as victims.
func (r *Replica) spare(uids []string) {
	c := r.core
	nodes := map[string]bool{}
	for _, s := range c.plans.loops.spared {
		nodes[s.nodeUID] = true
	}
	c.plans.loops.spared = map[string]sparedPod{}
	for _, uid := range uids {
		pod, ok := c.view.Pod(uid)
		if !ok {
			continue
		}
		if n, ok := c.view.Snapshot().NodeByName(pod.NodeName); ok {
			c.plans.loops.spared[uid] = sparedPod{nodeUID: n.UID}
			nodes[n.UID] = true
		}
	}
	for uid := range nodes {
		c.protect(uid)
	}
}

// seeker is an attempt that has found no node.
func (r *Replica) seeker(a *attempt, profile *placement.Profile) (seeker, error) {
	concern, err := r.core.concernOf(a.pod, profile)
	if err != nil {
		return seeker{}, &NotRemadeError{err.Error()}
	}
	r.core.view.Settle()
	return seeker{rejection: rejection{attempt: a}, pod: a.pod, profile: profile, concern: concern}, nil
}

// subject is what the decision was about.
func (r *Replica) subject(d events.Decision) (*state.Pod, *placement.Profile, error) {
	c := r.core
	switch {
	case d.Evidence == nil:
		return nil, nil, &NotRemadeError{"the record does not say what it was computed from"}
	case d.Evidence.Basis.Unlisted:
		return nil, nil, &NotRemadeError{fmt.Sprintf("more than %d nodes were left alone", events.MaxLeftAlone)}
	case c.store.Position().Epoch != d.Evidence.Basis.FactEpoch:
		return nil, nil, &NotRemadeError{fmt.Sprintf("fact %d was of epoch %d, which the log has lost; it has %d there",
			d.FactSequence, d.Evidence.Basis.FactEpoch, c.store.Position().Epoch)}
	}
	pod, ok := c.view.Pod(d.Pod.UID)
	if !ok {
		return nil, nil, &NotRemadeError{fmt.Sprintf("the facts up to %d do not have the pod", d.FactSequence)}
	}
	profile, ok := c.cfg.Profiles[pod.SchedulerName]
	if !ok {
		return nil, nil, &NotRemadeError{fmt.Sprintf("the configuration has no profile %q", pod.SchedulerName)}
	}
	return pod, profile, nil
}

// stage has exactly the choices of these orders count.
func (r *Replica) stage(orders []uint64) error {
	for order := range r.staged {
		if !slices.Contains(orders, order) {
			r.core.view.Unstage(r.made[order].pod.UID)
			delete(r.staged, order)
		}
	}
	for _, order := range orders {
		m, known := r.made[order]
		switch {
		case !known:
			return &NotRemadeError{fmt.Sprintf("it counted choice %d of the shard, of which there is no record", order)}
		case r.staged[order]:
			continue
		case m.instead != 0:
			r.core.view.StageInstead(m.pod, m.node, m.instead)
		default:
			r.core.view.Stage(m.pod, m.node)
		}
		r.staged[order] = true
	}
	return nil
}

// leaveAlone has exactly these nodes left alone.
func (r *Replica) leaveAlone(names []string) error {
	uids, err := r.uidsOf(names)
	if err == nil {
		r.core.avoid.SetAvoided(uids)
	}
	return err
}

func (r *Replica) uidsOf(names []string) (uids []string, err error) {
	for _, name := range names {
		uid, err := r.uidOf(name)
		if err != nil {
			return nil, err
		}
		uids = append(uids, uid)
	}
	return uids, nil
}

func (r *Replica) uidOf(name string) (string, error) {
	n, ok := r.core.view.Snapshot().NodeByName(name)
	if !ok {
		return "", &NotRemadeError{fmt.Sprintf("the facts do not have node %q", name)}
	}
	return n.UID, nil
}

// turn is that at a node, none if name is empty.
func (r *Replica) turn(name string) (ownTurn, error) {
	if name == "" {
		return ownTurn{}, nil
	}
	uid, err := r.uidOf(name)
	return ownTurn{nodeUID: uid, granted: true}, err
}

// avoid has the pods of a workload avoid exactly these nodes.
func (r *Replica) avoid(pod *state.Pod, names []string) error {
	uids, err := r.uidsOf(names)
	if err == nil {
		r.core.avoid.SetOwners(avoid.Workload(pod), uids, r.core.now.Add(everAfter))
	}
	return err
}

// oust is the search for a place that is kept for a less important pod.
func (r *Replica) oust(a *attempt, profile *placement.Profile, out *Output) error {
	s, err := r.seeker(a, profile)
	if err != nil {
		return err
	}
	if !r.core.oust(s, out) {
		return &NotRemadeError{"no place that is kept could be ousted"}
	}
	return nil
}

// outcome is what became of an attempt, as a record says it.
func (r *Replica) outcome(a *attempt, b events.Basis, out Output) (events.Decision, error) {
	switch {
	case a.phase == staged:
		return r.chosen(a, b)
	case a.phase == deferred:
		return events.Decision{}, &NotRemadeError{"on this state the pod would have waited"}
	case len(out.Decisions) > 0:
		return out.Decisions[0], nil
	case a.phase == rejected, a.phase == seeking:
		return a.verdict.decision, nil
	}
	return events.Decision{}, &NotRemadeError{"the attempt came to nothing"}
}

func (r *Replica) chosen(a *attempt, b events.Basis) (events.Decision, error) {
	node := a.pick.nodeName
	if n := int(b.Alternative); n > 0 {
		if n > len(a.others) || a.others[n-1].node == nil {
			return events.Decision{}, &NotRemadeError{fmt.Sprintf("there is no alternative %d", n)}
		}
		node = a.others[n-1].node.Node.Name
	}
	d := r.core.decision(events.DecisionPlaced, a)
	d.NodeName = node
	d.NodesTotal = int32(a.pick.total)
	d.NodesFeasible = int32(a.pick.feasible)
	d.Seed = a.pick.seed
	d.Evidence = a.pick.evidence
	d.FactSequence = a.pick.factSequence
	return d, nil
}

// Keep remembers what Remake has answered as the choice of an order, and where the answer is not
// to be relied on, because it differs, the node that the record has.
func (r *Replica) Keep(order uint64, remade events.Decision, node string) {
	pod, ok := r.core.view.Pod(remade.Pod.UID)
	if !ok || node == "" {
		return
	}
	m := made{pod: pod, node: node}
	if e := remade.Evidence; e != nil && (e.Basis.Way == events.WayKept || e.Basis.Way == events.WayOusted) {
		m.instead = r.keptBy(pod, node)
	}
	r.remember(order, m)
}

// keptBy is the placeholder on a node that a pod has been found a place of.
func (r *Replica) keptBy(pod *state.Pod, node string) ledger.Token {
	for _, k := range r.core.view.KeptFor(pod) {
		if k.Node.Node.Name == node {
			return k.Entry.Token
		}
	}
	n, ok := r.core.view.Snapshot().NodeByName(node)
	if !ok {
		return 0
	}
	least := view.Kept{}
	for _, e := range r.core.view.KeptOn(n.UID, pod.Priority) {
		if least.Entry.Token == 0 || e.Priority < least.Entry.Priority {
			least.Entry = e
		}
	}
	return least.Entry.Token
}

// clear leaves nothing of an attempt.
func (r *Replica) clear(a *attempt) {
	c := r.core
	c.view.Unstage(a.offer.Pod.UID)
	c.attempts = newAttempts()
	c.cross.asked, c.abandoned = nil, nil
	for order := range r.staged {
		// The pod itself may count, by a choice before this one that a record says counted.
		if r.made[order].pod.UID == a.offer.Pod.UID {
			delete(r.staged, order)
		}
	}
}
