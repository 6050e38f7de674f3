package decide

import (
	"fmt"
	"slices"
	"time"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/events/evidence"
	"github.com/berth-scheduler/berth/pkg/events/work"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/replica"
	"github.com/berth-scheduler/berth/pkg/ledger/view"
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/pkg/state/feed"
	"github.com/berth-scheduler/berth/pkg/state/follow"
	"github.com/berth-scheduler/berth/services/scheduler/decide/attempt"
	"github.com/berth-scheduler/berth/services/scheduler/decide/avoid"
	"github.com/berth-scheduler/berth/services/scheduler/decide/search"
	"github.com/berth-scheduler/berth/services/scheduler/decide/step"
)

// Replica makes the decisions of a shard again from its records. It is a Core that applies the facts and the ledger
// up to the position of a record, and is given the rest of the shard's state that the record has (evidence.Basis). It
// is not given the node that was chosen: the code that chose it the first time must choose it again.
//
// Decisions must be remade in the order of their records. It is for one goroutine.
type Replica struct {
	core *Core
	// facts turns batches of the log into steps, as the feed of a running shard does.
	facts *feed.Folder
	// choices are the remade choices by their order number; staged the orders that count at present.
	choices map[uint64]choice
	staged  map[uint64]bool
	// oldest is the smallest order that may still be in made.
	oldest uint64
}

// choice is a choice of a node: the pod, its node, and the placeholder that it replaces.
type choice struct {
	pod     *state.Pod
	node    string
	instead ledger.Token
}

// rememberOrders is how many choices a Replica remembers: many times the number that a shard stages. A record that
// counts an older one cannot be remade.
const rememberOrders = 8192

// forever is the duration for state that expires in a shard, but lasts in a Replica until it is set again.
const forever = time.Duration(1 << 62)

// NotRemadeError explains why a decision cannot be made again.
type NotRemadeError struct{ Reason string }

func (e *NotRemadeError) Error() string { return "cannot be made again: " + e.Reason }

// NewReplica returns a Replica without any state. It uses Shard, Profiles and Home of cfg.
func NewReplica(cfg Config) *Replica {
	cfg.NoEvidence = false
	r := &Replica{core: New(cfg), facts: feed.NewFolder(), choices: map[uint64]choice{}, staged: map[uint64]bool{}}
	r.core.shard.View.TxnFacts().KeepFates()
	return r
}

// Facts applies facts. An error means that they do not follow the facts applied before.
func (r *Replica) Facts(b follow.Batch) error {
	step, err := r.facts.Fold(b)
	if err != nil {
		return fmt.Errorf("scheduler: apply facts: %w", err)
	}
	r.core.applyFacts(step)
	return nil
}

// Unreadable explains why a fact could not be read, nil if all could.
func (r *Replica) Unreadable() error { return r.facts.Snapshot().Unreadable() }

// Ledger applies a batch of the ledger's watch. An error means that it does not decode.
func (r *Replica) Ledger(b replica.Batch) error { return r.core.applyLedger(b) }

// Learn applies what the shard knew ahead of its watch (evidence.Basis.Learned): kvs are the keys that l names.
func (r *Replica) Learn(l evidence.Learned, kvs []ledger.KV) error {
	learn := r.core.shard.Ledger.Learn
	if l.Key == "" {
		learn = r.core.shard.Ledger.LearnPut
	}
	changes, err := learn(kvs)
	if err != nil {
		return fmt.Errorf("scheduler: what the shard had learned: %w", err)
	}
	r.core.ledgerMoved(changes)
	return nil
}

// Members returns the versions of the live members of a role in the ledger, by id.
func (r *Replica) Members(role string) map[string]string {
	versions := map[string]string{}
	for _, m := range r.core.shard.Ledger.Roster().Members(role) {
		versions[m.ID] = m.Version
	}
	return versions
}

// KeepRecorded accepts a recorded choice that is not remade: later decisions may have counted it.
func (r *Replica) KeepRecorded(d events.Decision) {
	if pod, ok := r.core.shard.View.Pod(d.Pod.UID); ok && d.NodeName != "" {
		r.remember(d.Evidence.Order, choice{pod: pod, node: d.NodeName})
	}
}

// remember keeps a choice under its order, and drops those that are too old. Choices without an order were made
// without evidence, and no record refers to them.
func (r *Replica) remember(order uint64, m choice) {
	if order == 0 {
		return
	}
	r.choices[order] = m
	for ; r.oldest+rememberOrders < order; r.oldest++ {
		delete(r.choices, r.oldest)
	}
}

// Remake decides again what d decided, on the state applied so far. It reads the pod, the attempt and the state in
// the evidence of d, but not the result. It returns a *NotRemadeError (errors.As) if the record or the state lacks
// what is needed. The steps: check that the record and the state belong together; make the same choices count, and
// the same nodes avoided; set where the search starts; decide in the way that the record names; and read the result
// from where the attempt has come to. Afterwards all traces of the attempt are removed, whatever the outcome.
func (r *Replica) Remake(d events.Decision) (events.Decision, error) {
	c := r.core
	pod, profile, err := r.subject(d)
	if err != nil {
		return events.Decision{}, err
	}
	b := d.Evidence.Basis
	if b.Way == evidence.WayAdvised {
		return events.Decision{}, &NotRemadeError{"extenders had a say in it, and the log does not have what they said"}
	}
	if err := r.stage(d.Evidence.Staged); err != nil {
		return events.Decision{}, err
	}
	if err := r.setAvoided(b.LeftAlone); err != nil {
		return events.Decision{}, err
	}
	c.search.Start = [2]int{int(b.Start), int(b.HomeStart)}
	c.shard.HomeFirst = !b.NoHomePreference
	c.search.Recorded = &search.Scope{Home: !b.AllNodes, Near: int64(b.Near), Swayed: d.Evidence.Usable == 0,
		Nominations: b.Nominations}
	a := &attempt.Attempt{
		Offer: work.Offer{Pod: d.Pod, Attempt: d.Attempt, Token: d.Token}, Pod: pod, Received: c.shard.Now,
	}
	c.attempts.Begin(a)
	if a.Turn, err = r.grantedTurn(b.Preferred); err != nil {
		return events.Decision{}, err
	}
	if err := r.setOwnerAvoided(pod, b.Avoided); err != nil {
		return events.Decision{}, err
	}
	defer r.clear(a)
	switch b.Way {
	case evidence.WayHeld:
		return r.remakeVictimSearch(a, profile, d)
	case evidence.WayOusted:
		err = r.remakeDisplaceKept(a, profile)
	default:
		t := trial{attempt: a, profile: profile}
		c.placer.finish(&t, c.placer.place(&t))
	}
	if err != nil {
		return events.Decision{}, err
	}
	return r.outcome(a, b, c.effects.Take())
}

// remakeVictimSearch searches again for pods that could be evicted.
func (r *Replica) remakeVictimSearch(
	a *attempt.Attempt, profile *placement.Profile, d events.Decision,
) (events.Decision, error) {
	c := r.core
	c.preempt.SetSpared(d.Evidence.Basis.Spared)
	again := c.placer.record.Decision(events.DecisionNominated, a)
	again.Evidence = &evidence.Evidence{Config: profile.Hash(), Basis: evidence.Basis{Way: evidence.WayHeld}}
	node, err := c.preempt.RemakeSearch(a, profile, d.Seed)
	if err != nil {
		return events.Decision{}, &NotRemadeError{err.Error()}
	}
	again.NodeName = node
	return again, nil
}

// subject returns the pod of the decision and its profile; a *NotRemadeError if the state is not that of the record.
func (r *Replica) subject(d events.Decision) (*state.Pod, *placement.Profile, error) {
	c := r.core
	switch {
	case d.Evidence == nil:
		return nil, nil, &NotRemadeError{"the record does not say what it was computed from"}
	case d.Evidence.Basis.Unlisted:
		return nil, nil, &NotRemadeError{fmt.Sprintf("more than %d nodes were left alone", evidence.MaxLeftAlone)}
	case c.shard.Store.Position().Epoch != d.Evidence.Basis.FactEpoch:
		return nil, nil, &NotRemadeError{fmt.Sprintf("fact %d was of epoch %d, which the log has lost; it has %d there",
			d.FactSequence, d.Evidence.Basis.FactEpoch, c.shard.Store.Position().Epoch)}
	}
	pod, ok := c.shard.View.Pod(d.Pod.UID)
	if !ok {
		return nil, nil, &NotRemadeError{fmt.Sprintf("the facts up to %d do not have the pod", d.FactSequence)}
	}
	profile, ok := c.shard.Profiles[pod.SchedulerName]
	if !ok {
		return nil, nil, &NotRemadeError{fmt.Sprintf("the configuration has no profile %q", pod.SchedulerName)}
	}
	return pod, profile, nil
}

// stage makes exactly the choices with these orders count, in the order of the record.
func (r *Replica) stage(orders []uint64) error {
	for order := range r.staged {
		if !slices.Contains(orders, order) {
			r.core.shard.View.Unstage(r.choices[order].pod.UID)
			delete(r.staged, order)
		}
	}
	for _, order := range orders {
		m, known := r.choices[order]
		switch {
		case !known:
			return &NotRemadeError{fmt.Sprintf("it counted choice %d of the shard, of which there is no record", order)}
		case r.staged[order]:
			continue
		case m.instead != 0:
			r.core.shard.View.StageInstead(m.pod, m.node, m.instead)
		default:
			r.core.shard.View.Stage(m.pod, m.node)
		}
		r.staged[order] = true
	}
	return nil
}

// setAvoided makes exactly these nodes the ones that are left alone.
func (r *Replica) setAvoided(names []string) error {
	uids, err := r.uidsOf(names)
	if err == nil {
		r.core.shard.Avoid.SetAvoided(uids)
	}
	return err
}

// uidsOf returns the UIDs of nodes by their names.
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

// uidOf returns the UID of a node; a *NotRemadeError if the facts do not have it.
func (r *Replica) uidOf(name string) (string, error) {
	n, ok := r.core.shard.View.Snapshot().NodeByName(name)
	if !ok {
		return "", &NotRemadeError{fmt.Sprintf("the facts do not have node %q", name)}
	}
	return n.UID, nil
}

// grantedTurn returns a granted turn at a node, none if name is empty.
func (r *Replica) grantedTurn(name string) (attempt.OwnTurn, error) {
	if name == "" {
		return attempt.OwnTurn{}, nil
	}
	uid, err := r.uidOf(name)
	return attempt.OwnTurn{NodeUID: uid, Granted: true}, err
}

// setOwnerAvoided makes the pods of a workload avoid exactly these nodes.
func (r *Replica) setOwnerAvoided(pod *state.Pod, names []string) error {
	uids, err := r.uidsOf(names)
	if err == nil {
		r.core.shard.Avoid.SetOwners(avoid.Workload(pod), uids, r.core.shard.Now.Add(forever))
	}
	return err
}

// remakeDisplaceKept searches again for a place that is kept for a less important pod.
func (r *Replica) remakeDisplaceKept(a *attempt.Attempt, profile *placement.Profile) error {
	if err := r.core.preempt.RemakeDisplaceKept(a, profile); err != nil {
		return &NotRemadeError{err.Error()}
	}
	return nil
}

// outcome returns the result of an attempt in the form of a record. A staged attempt has chosen a node, a rejected
// or seeking one has its verdict, and one that has ended has recorded a decision.
func (r *Replica) outcome(a *attempt.Attempt, b evidence.Basis, out step.Output) (events.Decision, error) {
	switch {
	case a.Phase == attempt.Staged:
		return r.chosen(a, b)
	case a.Phase == attempt.Deferred:
		return events.Decision{}, &NotRemadeError{"on this state the pod would have waited"}
	case len(out.Decisions) > 0:
		return out.Decisions[0], nil
	case a.Phase == attempt.Rejected, a.Phase == attempt.Seeking:
		return a.Verdict.Decision, nil
	}
	return events.Decision{}, &NotRemadeError{"the attempt came to nothing"}
}

// chosen returns the record of a staged attempt: on its pick, or on the alternative that the shard took after a lost
// race.
func (r *Replica) chosen(a *attempt.Attempt, b evidence.Basis) (events.Decision, error) {
	node := a.Pick.NodeName
	if n := int(b.Alternative); n > 0 {
		if n > len(a.Alternatives) || a.Alternatives[n-1].Node == nil {
			return events.Decision{}, &NotRemadeError{fmt.Sprintf("there is no alternative %d", n)}
		}
		node = a.Alternatives[n-1].Node.Node.Name
	}
	d := r.core.placer.record.Decision(events.DecisionPlaced, a)
	d.NodeName = node
	d.NodesTotal = int32(a.Pick.Total)
	d.NodesFeasible = int32(a.Pick.Feasible)
	d.Seed = a.Pick.Seed
	d.Evidence = a.Pick.Evidence
	d.FactSequence = a.Pick.FactSequence
	return d, nil
}

// KeepChoice remembers the decision that Remake returned as the choice with this order number, on the given node: the
// node of the record, if the remade decision differs and must not be relied on.
func (r *Replica) KeepChoice(order uint64, remade events.Decision, node string) {
	pod, ok := r.core.shard.View.Pod(remade.Pod.UID)
	if !ok || node == "" {
		return
	}
	m := choice{pod: pod, node: node}
	if e := remade.Evidence; e != nil && (e.Basis.Way == evidence.WayKept || e.Basis.Way == evidence.WayOusted) {
		m.instead = r.keptBy(pod, node)
	}
	r.remember(order, m)
}

// keptBy returns the token of the placeholder on a node whose place a pod was given: one that is kept for it, or
// that of the least important pod.
func (r *Replica) keptBy(pod *state.Pod, node string) ledger.Token {
	for _, k := range r.core.shard.View.PlaceholdersFor(pod) {
		if k.Node.Node.Name == node {
			return k.Entry.Token
		}
	}
	n, ok := r.core.shard.View.Snapshot().NodeByName(node)
	if !ok {
		return 0
	}
	least := view.Placeholder{}
	for _, e := range r.core.shard.View.PlaceholdersOn(n.UID, pod.Priority) {
		if least.Entry.Token == 0 || e.Priority < least.Entry.Priority {
			least.Entry = e
		}
	}
	return least.Entry.Token
}

// clear removes all traces of an attempt.
func (r *Replica) clear(a *attempt.Attempt) {
	c := r.core
	c.shard.View.Unstage(a.Offer.Pod.UID)
	*c.attempts = *attempt.NewQueues()
	c.terms.Forget()
	_ = c.effects.Take()
	for order := range r.staged {
		// The pod itself may count, by a choice before this one that a record says counted.
		if r.choices[order].pod.UID == a.Offer.Pod.UID {
			delete(r.staged, order)
		}
	}
}
