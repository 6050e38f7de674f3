package decide

import (
	"fmt"
	"slices"
	"time"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/events/work"
	"github.com/berth-scheduler/berth/pkg/ledger/replica"
	"github.com/berth-scheduler/berth/pkg/membership"
	"github.com/berth-scheduler/berth/pkg/placement/engine"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/pkg/state/feed"
	"github.com/berth-scheduler/berth/services/scheduler/decide/advice"
	"github.com/berth-scheduler/berth/services/scheduler/decide/attempt"
	"github.com/berth-scheduler/berth/services/scheduler/decide/avoid"
	"github.com/berth-scheduler/berth/services/scheduler/decide/contention"
	"github.com/berth-scheduler/berth/services/scheduler/decide/crossnode"
	"github.com/berth-scheduler/berth/services/scheduler/decide/gangs"
	"github.com/berth-scheduler/berth/services/scheduler/decide/lifecycle"
	"github.com/berth-scheduler/berth/services/scheduler/decide/preempt"
	"github.com/berth-scheduler/berth/services/scheduler/decide/record"
	"github.com/berth-scheduler/berth/services/scheduler/decide/reserve"
	"github.com/berth-scheduler/berth/services/scheduler/decide/search"
	"github.com/berth-scheduler/berth/services/scheduler/decide/shard"
	"github.com/berth-scheduler/berth/services/scheduler/decide/step"
	"github.com/berth-scheduler/berth/services/scheduler/decide/txn"
)

// Core is the decision state of one shard: it runs the steps of its parts in order. The parts share the shard's
// state, the queues and the effects, and each has its own state besides. Where a part must call one that depends on
// it, New passes it a function or a narrow interface. Core is for one goroutine.
type Core struct {
	shard    *shard.State
	attempts *attempt.Queues
	effects  *step.Effects
	life     *lifecycle.Attempts
	slot     *txn.Slot
	rules    *crossnode.Rules
	terms    *crossnode.Terms
	search   *search.Searcher
	admitter *reserve.Admitter
	reserver *reserve.Reserver

	performing *advice.Plugins
	consults   *advice.Consults
	preempt    *preempt.Preemption
	turns      *ownTurns
	placer     *placer

	// window is how many offers the shard holds at once; term the term of the queue leader that sent the last ones.
	window int
	term   int64
	owned  ownership
	// activated are the UIDs of pods that plugins want tried and that have not been reported to the queue yet.
	activated []string
	// alternate: the last transaction was a change of a plan, so placements that wait go first.
	alternate bool
}

// New returns a core without any state: no node is usable until the first facts have reached their barrier. It wires
// the parts. Plugins, consults and preemption know each other, so they are allocated first and filled in afterwards.
func New(cfg Config) *Core {
	c := &Core{
		shard: shard.New(cfg.Shard, cfg.Profiles), attempts: attempt.NewQueues(), effects: &step.Effects{},
		window: cfg.Window, performing: &advice.Plugins{}, consults: &advice.Consults{}, preempt: &preempt.Preemption{},
	}
	c.shard.Home, c.shard.HomeFirst = cfg.Home, cfg.HomeFirst
	c.shard.HomeNodesFirst = cfg.HomeNodesFirst
	c.shard.NoEvidence, c.shard.Laps = cfg.NoEvidence, cfg.Laps
	recorder := &record.Recorder{
		Shard: c.shard, Attempts: c.attempts, Effects: c.effects,
		Start: func() (all, home int) { return c.search.Start[0], c.search.Start[1] },
	}
	c.life = &lifecycle.Attempts{Shard: c.shard, Attempts: c.attempts, Record: recorder, Undo: c.performing.UndoInCycle}
	c.slot = &txn.Slot{
		Shard: c.shard, Attempts: c.attempts, Record: recorder, Effects: c.effects, Moved: c.ledgerMoved,
	}
	c.shard.Claims.Staged, c.shard.Claims.Wrote = c.attempts.Supplies, c.slot.Wrote
	c.rules = crossnode.NewRules(c.shard, c.life, c.slot)
	c.terms = &crossnode.Terms{Shard: c.shard, Life: c.life, Slot: c.slot, Rules: c.rules}
	c.search = &search.Searcher{
		Shard: c.shard, Record: recorder, Rules: c.rules, Extend: c.consults.Extend,
		Contention: contention.New(cfg.Shard),
		HeldNodes:  func() map[string]int32 { return c.preempt.Holds.HeldNodes() },
	}
	c.turns = &ownTurns{
		Turns: avoid.NewTurns(c.shard.Avoid, cfg.Shard, c.shard.IsHome),
		shard: c.shard, attempts: c.attempts, life: c.life,
	}
	*c.performing = *advice.NewPlugins(c.life, c.preempt, cfg.Acts, cfg.PostFilters)
	c.performing.ReleaseUnfit = c.preempt.ReleaseUnfit
	*c.consults = *advice.NewConsults(c.life, c.performing, c.preempt, cfg.Gates)
	*c.preempt = *preempt.New(preempt.Deps{
		Life: c.life, Slot: c.slot, Rules: c.rules, Terms: c.terms, Search: c.search,
		Consults: c.consults, Performing: c.performing,
	})
	c.admitter = &reserve.Admitter{Shard: c.shard, Slot: c.slot}
	c.reserver = &reserve.Reserver{
		Shard: c.shard, Attempts: c.attempts, Record: recorder, Effects: c.effects, Life: c.life, Slot: c.slot,
		OnCommitted: c.performing.OnCommitted, ReleaseUnfit: c.preempt.ReleaseUnfit, RequestTurn: c.turns.request,
		Contention: c.search.Contention,
	}
	c.placer = &placer{
		shard: c.shard, attempts: c.attempts, effects: c.effects, record: recorder, life: c.life,
		rules: c.rules, terms: c.terms, search: c.search, reserver: c.reserver,
		performing: c.performing, consults: c.consults, preempt: c.preempt,
	}
	c.placer.gangs = &gangs.Former{
		Shard: c.shard, Attempts: c.attempts, Effects: c.effects, Life: c.life, Terms: c.terms, Search: c.search,
		Place: c.placer.placeMember, Reject: c.preempt.Reject, ActFor: c.performing.ActFor,
	}
	c.preempt.MayBeBound = c.placer.gangs.MayBeBound
	return c
}

// Step applies its input, decides what can be decided, and returns the effects. It implements driver.Core. now is
// recorded in the reports on attempts and ends what lasts only for a while; it must not go backwards.
//
// Output.Fatal means an invalid input, such as a document of the ledger that does not decode. The core must not be
// stepped again.
func (c *Core) Step(in step.Input, now time.Time) step.Output {
	c.shard.Now = now
	moved := len(in.Facts)+len(in.Ledger)+len(in.Results)+len(in.Advice)+len(in.Performed) > 0
	for _, b := range in.Ledger {
		if err := c.applyLedger(b); err != nil {
			return c.failed(err)
		}
	}
	for _, s := range in.Facts {
		c.applyFacts(s)
	}
	for _, r := range in.Results {
		if err := c.slot.OnResult(r); err != nil {
			return c.failed(err)
		}
	}
	for _, a := range in.Advice {
		c.consults.OnAdvice(a)
	}
	for _, p := range in.Performed {
		c.performing.OnResult(p)
	}
	c.pass(in)
	c.activate(in.Activated)
	if eased, stirred := c.shard.Avoid.Eased(), c.life.TakeWoken(); moved || eased || stirred {
		c.attempts.Resume()
	}
	for _, b := range in.Offers {
		c.accept(b)
	}
	if in.Drain {
		c.drain()
	}
	c.decide()
	if in.Beat {
		c.terms.Tidy()
	}
	c.submit()
	c.preempt.Settle()
	out := c.effects.Take()
	if in.Beat || c.Ready() && !c.owned.announced || len(c.activated) > 0 {
		c.owned.announce(c.Ready())
		out.Request = c.request()
	}
	out.More = c.more()
	out.Idle = len(c.attempts.ByPod) == 0 && c.performing.Idle()
	out.Turns = c.turns.Messages()
	out.Notices = c.shard.Avoid.Notices()
	out.Soon = c.soon()
	out.Fatal = c.attempts.Err()
	return out
}

// failed returns the output of a step that could not be completed.
func (c *Core) failed(err error) step.Output {
	out := c.effects.Take()
	out.Fatal = err
	return out
}

// more reports whether another step has work to do even without input. A step decides a bounded number of attempts
// and sends one transaction, so that inputs never wait long.
func (c *Core) more() bool {
	return len(c.activated) > 0 || c.attempts.Count(attempt.Pending) > 0 && c.hasRoom() ||
		!c.slot.Busy() && !c.shard.Draining && c.preempt.Pending()
}

// soon reports whether time alone will change something before the next heartbeat.
func (c *Core) soon() bool { return c.turns.pending() || !c.slot.Busy() && c.terms.Waiting() }

// pass applies the messages of other shards, and ends what has lasted long enough. Turns are checked in every step,
// because they last for less than a heartbeat; the rest once per heartbeat.
func (c *Core) pass(in step.Input) {
	for _, t := range in.Turns {
		c.turns.Receive(t, c.shard.Now)
	}
	c.turns.advance()
	if in.Beat {
		c.shard.Avoid.Expire(c.shard.Now)
		c.preempt.Expire()
		c.performing.CheckBindable()
	}
}

// Ready reports whether the shard can place pods: its facts have reached their barrier, so that nodes are usable,
// and it holds partitions.
func (c *Core) Ready() bool { return c.shard.Usable() && c.owned.partitions > 0 }

// Ownership returns which shard holds which partitions, and which shards are alive, as the ledger's watch shows it.
// ok is false if that has not changed since the last call. The member's keeper of partitions reads it.
func (c *Core) Ownership() (picture membership.Snapshot, ok bool) {
	if !c.owned.takeMoved() {
		return membership.Snapshot{}, false
	}
	return membership.SnapshotOf(c.shard.Ledger, membership.RoleScheduler), true
}

// HeldPlaces returns how many places are held for pods of this shard.
func (c *Core) HeldPlaces() int { return c.preempt.Holds.Count() }

// Sizes returns how many nodes exist, how many pods count on them, and how many of those pods are not bound yet.
func (c *Core) Sizes() (nodes, pods, reserved int) { return c.shard.View.Sizes() }

// AvoidedCounts counts the nodes that are left alone, by reason: "quarantine" (reservations there do not survive),
// "doubt" (its kubelet has rejected a pod for lack of resources) and "turn" (another shard has its turn there).
// Every reason is in the map.
func (c *Core) AvoidedCounts() map[string]int { return c.shard.Avoid.Counts() }

// Asked visits how often each rule was evaluated since the last call; see engine.Engine.Asked.
func (c *Core) Asked(visit func(a engine.RuleCalls, calls uint64)) {
	c.shard.Engine.VisitRuleCalls(visit)
}

// Position returns how far the core has applied the facts.
func (c *Core) Position() state.Position { return c.shard.Store.Position() }

// applyFacts applies one step of the facts to every part that follows them. The view comes first, since the others
// look things up in it; the engine comes after the parts that set which nodes it may use. The engine gets other
// objects only if they may change an answer (engine.ObjectsMatter), as it must evaluate its classes again then. A
// Reset discards all facts: what the parts derived from the ledger stays.
func (c *Core) applyFacts(step feed.Step) {
	if step.Reset {
		c.shard.Replace(step)
		c.rules.CountHosts(c.shard.View.Nodes())
		c.preempt.Holds.Reset()
		return
	}
	changes := step.Changes
	c.shard.Store.Advance(step)
	c.shard.View.ApplyFacts(changes)
	c.performing.FollowFacts(changes.Pods)
	c.shard.Claims.FollowFacts(changes.Others)
	c.shard.Avoid.FollowFacts(changes, c.shard.Now)
	c.preempt.Holds.FollowFacts(changes)
	if slices.ContainsFunc(changes.Others, engine.ObjectsMatter) {
		c.shard.Engine.SetObjects(c.shard.View.Snapshot())
	} else {
		c.shard.Engine.Refresh(c.shard.View.Snapshot())
	}
	c.rules.FollowNodes(changes.Nodes)
}

// applyLedger applies one batch of the ledger's watch. The index of terms is updated first, the parts that follow
// documents last. An error means that a document cannot be decoded; the shard must not decide without it.
func (c *Core) applyLedger(b replica.Batch) error {
	changes, err := c.shard.Ledger.Fold(b)
	if err != nil {
		return fmt.Errorf("scheduler: ledger watch: %w", err)
	}
	if err := c.rules.Apply(changes); err != nil {
		return err
	}
	c.terms.Follow(changes)
	if changes.Reset {
		c.shard.View.RecountLedger()
	}
	c.shard.Avoid.FollowWatch(changes, c.shard.Now)
	c.turns.FollowWatch(changes, c.shard.Now)
	c.ledgerMoved(changes)
	if changes.Reset || changes.Members {
		c.search.ForgetHome()
	}
	c.owned.apply(changes, c.shard)
	return nil
}

// accept adds offers, except stale ones, pods with an attempt in progress, and offers that the shard does not want.
// A batch of an earlier queue leader is stale: its leases are void. A draining shard returns offers untried.
func (c *Core) accept(b work.OfferBatch) {
	if b.Term < c.term {
		return
	}
	c.term = b.Term
	for _, o := range b.Offers {
		if known, ok := c.attempts.ByPod[o.Pod.UID]; ok {
			// The lease was renewed under a new token: the outcome must carry it, unless
			// the old one is already in a transaction that may commit.
			if known.Pick.NodeUID == "" {
				known.Offer = o
			}
			continue
		}
		if c.shard.Draining {
			c.life.Refuse(o.Token)
			continue
		}
		a := &attempt.Attempt{Offer: o, Received: c.shard.Now}
		c.attempts.Begin(a)
		c.attempts.Append(attempt.Pending, a)
	}
}

// drain gives back every attempt that is not in a transaction. The attempts in flight end with their answer; those
// about which extenders or plugins are asked are given back, and late answers are ignored.
func (c *Core) drain() {
	c.shard.Draining = true
	for _, p := range []attempt.Phase{
		attempt.Pending, attempt.Deferred, attempt.Staged, attempt.Rejected, attempt.Seeking,
		attempt.Reserving, attempt.Filtering,
	} {
		for _, a := range c.attempts.TakeAll(p) {
			c.life.GiveBack(a)
		}
	}
	c.preempt.Drain()
	c.consults.Dismiss()
	c.terms.Forget()
}

// request asks for work, renews the leases of the offers in progress and gives back the rest. Attempts that wait for
// a plan do not use up the window: they may wait for minutes, and pods behind them may fit without a plan. A shard
// that is not ready asks for nothing, but keeps its leases.
func (c *Core) request() *work.Request {
	window := c.window + c.attempts.Count(attempt.Seeking)
	r := &work.Request{Shard: c.shard.ID, Window: int32(window), Return: c.life.TakeReturns()}
	if c.shard.Draining || !c.Ready() {
		r.Window = 0
	}
	for _, a := range c.attempts.ByPod {
		r.Renew = append(r.Renew, a.Offer.Token)
	}
	slices.Sort(r.Renew)
	most := min(len(c.activated), work.MaxActivate)
	r.Activate, c.activated = c.activated[:most:most], c.activated[most:]
	return r
}

// decisionsPerStep bounds a step, so that facts and results are applied without much delay. It equals the size of a
// batch (txn.BatchPods).
const decisionsPerStep = 24

// decide tries pending attempts in order until the next batch is full, or decisionsPerStep have been tried.
func (c *Core) decide() {
	for n := 0; n < decisionsPerStep && c.attempts.Count(attempt.Pending) > 0 && c.hasRoom(); n++ {
		c.placer.try(c.attempts.Next())
	}
}

// hasRoom reports whether the next batch may take one more attempt. Staging more than a batch would only make
// decisions older by the time they are sent, and their documents more likely to have changed.
func (c *Core) hasRoom() bool {
	return c.attempts.Count(attempt.Staged) < txn.BatchPods && !c.shard.Draining && !c.preempt.Quiet()
}

// submit sends the staged batch if no transaction is in flight. Nodes and terms that attempts wait for come first,
// each in a transaction of its own; then changes of plans and batches alternate, so that neither starves the other.
// A batch from which all attempts have left (they failed, or are decided again) is built again from what is staged
// then.
func (c *Core) submit() {
	if c.slot.Busy() || c.slot.WaitsForRevision() || c.admitter.Admit() || c.terms.Register() {
		return
	}
	waiting := c.attempts.Count(attempt.Staged) > 0
	if (!c.alternate || !waiting) && c.preempt.Propose() {
		c.alternate = true
		return
	}
	c.alternate = false
	for !c.slot.Busy() && c.attempts.Count(attempt.Staged) > 0 {
		c.reserver.Send()
	}
}

// ledgerMoved passes changes of the ledger's view on to the parts: those of the watch, and those that the answer to
// a transaction has shown ahead of it. The order is the same for both, and the view comes first.
func (c *Core) ledgerMoved(changes replica.Changes) {
	c.search.Contention.FollowLedger(changes)
	c.shard.View.ApplyLedger(changes)
	c.shard.Claims.FollowLedger(changes)
	c.preempt.Holds.FollowLedger(changes)
	c.shard.Avoid.FollowDocs(changes.Docs)
	c.placer.gangs.FollowLedger(changes)
	c.performing.FollowLedger(changes.PodUIDs)
}

// activate requests that the queue tries pods that plugins want tried. A pod that the facts do not show is skipped:
// it has never been rejected, so it waits for nothing. The requests go out with the next message to the queue, at
// most work.MaxActivate in one.
func (c *Core) activate(pods []events.PodRef) {
	for _, ref := range pods {
		pod, known := c.shard.View.Snapshot().PodByName(ref.Namespace, ref.Name)
		if known && pod.NodeName == "" {
			c.activated = append(c.activated, pod.UID)
		}
	}
}
