package decide

import (
	"fmt"
	"slices"
	"time"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/view"
	"github.com/berth-scheduler/berth/pkg/membership"
	"github.com/berth-scheduler/berth/pkg/placement/engine"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/pkg/state/follow"
	"github.com/berth-scheduler/berth/services/scheduler/internal/avoid"
	"github.com/berth-scheduler/berth/services/scheduler/internal/claims"
)

// MaxLosses is how many races for a node one attempt may lose before it is given back to the
// queue, which offers it again at once and in its old place: at the head, since it was there
// when it was offered. It has done nothing wrong that it should have to wait for.
const MaxLosses = 8

// Core is the decision state of one shard. For one goroutine.
type Core struct {
	cfg    Config
	store  *state.Store
	ledger *ledger.View
	view   *view.View
	pipeline

	// returns are tokens to give back with the next request.
	returns  []string
	now      time.Time
	term     int64
	draining bool
	home     homeNodes
	cross    crossNode
	plans    plans
	holdings
	searching
	manners
}

// holdings is what the shard owns, and what it may take.
type holdings struct {
	// partitions is how many this shard holds; announced, that the queue has been told of
	// the first.
	partitions int
	announced  bool
	// ownershipMoved: partitions or members changed since the last Ownership.
	ownershipMoved bool
	// overEpochs are those that a refused transaction has shown to be over, by partition. The watch
	// brings the next owner later.
	overEpochs map[int32]int64
	// admitAfter is the revision that the ledger's watch must have reached before nodes are admitted
	// again.
	admitAfter int64
}

// manners is how the shard gets on with the others, with binders and with kubelets.
type manners struct {
	gate  *avoid.Gate
	avoid *avoid.Table
	turns *avoid.Turns
	// stirred: time or another shard has changed what deferred attempts wait for.
	stirred bool
}

// searching is what answers where a pod may go.
type searching struct {
	// engine follows the view.
	engine *engine.Engine
	// start is where the next search of a profile that samples begins: among all nodes, and
	// among the home ones.
	start      [2]int
	consults   consults
	performing performing
	claims     *claims.Book
}

// pipeline is where the attempts are; see the package comment.
type pipeline struct {
	attempts attempts
	flight   *flight
	// flights counts transactions, for their IDs.
	flights uint64
	limits  limits
	recording
	// written is what the last successful flight did to documents and guards, by their keys:
	// what was decided while it was in flight counted its pods already, as staged.
	written map[string]step
}

// attempt is one offer being worked on.
type attempt struct {
	phase    phase
	offer    events.Offer
	received time.Time
	pod      *state.Pod
	losses   int
	// doubtful: the answer to its transaction was lost once.
	doubtful bool
	wait     wait
	turn     ownTurn
	// sought is when it was first asked to look for victims for it, in a count of such events.
	sought uint64
	// others are the next-best nodes after pick, best first.
	others [maxAlternatives]alternative
	// pick is set while the attempt is staged or in flight.
	pick pick
	// told is the order of the last choice of a node that a record was made of.
	told uint64
	// missed are the plans of places that are kept for the pod and where it did not fit.
	missed  []string
	counsel counsel
	// verdict is what it ends with if nothing else is found for it; nil unless it fits nowhere.
	verdict *rejection
	// deal is what plugins have to do with the choice of a node, nil for nothing.
	deal *deal
}

type pick struct {
	nodeUID, nodeName string
	// basis is the version of the node's document that the decision counted: the only one it may
	// be committed on.
	basis ledger.Version
	// epoch is that of the pod's partition when the decision was made: the only one it may be
	// committed in.
	epoch           int64
	decided         time.Time
	feasible, total int
	seed            uint64
	factSequence    uint64
	// nodeRV is the resourceVersion of the node as the decision saw it.
	nodeRV uint64
	// returned is how many places were returnedPlaces then.
	returned uint64
	needs    needs
	// room is what it takes of a place that was kept.
	room room
	// evidence is for the record of the attempt.
	evidence *events.Evidence
	volumes  claims.Supply
}

// step is one change of the revision of a key.
type step struct{ from, to int64 }

// New returns a core that knows nothing yet: no node is usable until the first facts
// have reached their barrier.
func New(cfg Config) *Core {
	c := &Core{cfg: cfg, store: state.New(), ledger: ledger.NewView()}
	c.engine = engine.New(engine.Config{})
	c.attempts = newAttempts()
	c.consults.vetted = map[uint64]string{}
	c.performing = newPerforming()
	c.claims = &claims.Book{Staged: c.stagedSupplies, Wrote: c.wrote}
	c.cross.reset()
	c.plans = newPlans()
	c.gate = avoid.NewGate(c.engine)
	c.view = view.New(c.store, c.ledger, c.gate)
	c.claims.View, c.claims.Ledger = c.view, c.ledger
	c.avoid = avoid.NewTable(c.gate, c.view, c.ledger.Reservations)
	c.turns = avoid.NewTurns(c.avoid, cfg.Shard, c.isHome)
	return c
}

// Step folds in what happened, decides what can be decided, and returns the effects.
// An error means an input that cannot be (a fact or document that does not decode).
// now is noted for the reports on attempts, and ends what lasts only for a while; it must
// not go backwards.
func (c *Core) Step(in Input, now time.Time) (Output, error) {
	var out Output
	c.now = now
	moved := len(in.Facts)+len(in.Ledger)+len(in.Results)+len(in.Advice)+len(in.Performed) > 0
	for _, b := range in.Ledger {
		if err := c.applyLedger(b); err != nil {
			return out, err
		}
	}
	for _, b := range in.Facts {
		if err := c.applyFacts(b); err != nil {
			return out, err
		}
	}
	for _, r := range in.Results {
		if err := c.land(r, &out); err != nil {
			return out, err
		}
	}
	for _, a := range in.Advice {
		c.advised(a, &out)
	}
	for _, p := range in.Performed {
		c.performed(p, &out)
	}
	c.pass(in)
	c.activate(in.Activated)
	if eased := c.avoid.Eased(); moved || eased || c.stirred {
		c.stirred = false
		c.attempts.resume()
	}
	for _, b := range in.Offers {
		c.accept(b)
	}
	if in.Drain {
		c.drain()
	}
	c.decide(&out)
	if in.Beat {
		c.tidyTerms(&out)
	}
	c.submit(&out)
	c.settleRejections(&out)
	c.tellAbandoned(&out)
	if in.Beat || c.Ready() && !c.announced || len(c.performing.activate) > 0 {
		c.announced = c.announced || c.Ready()
		out.Request = c.request()
	}
	out.More = c.more()
	out.Idle = len(c.attempts.byPod) == 0 && c.performing.idle()
	out.Turns = c.turns.Messages()
	out.Performs, c.performing.out = c.performing.out, nil
	out.Notices = c.avoid.Notices()
	out.Plans, c.plans.reports = c.plans.reports, nil
	out.Soon = c.soon()
	return out, c.attempts.err()
}

// more tells whether another step has work to do even without input.
func (c *Core) more() bool {
	return len(c.performing.activate) > 0 || c.attempts.count(pending) > 0 && c.hasRoom() ||
		c.flight == nil && !c.draining && c.maySeek()
}

// pass takes in what other shards said, and ends what has lasted long enough.
func (c *Core) pass(in Input) {
	for _, t := range in.Turns {
		c.turns.Hear(t, c.now)
	}
	c.passTurns()
	if in.Beat {
		c.avoid.Expire(c.now)
		c.passPlans()
		c.passDeals()
	}
}

// Ready says whether the shard can place pods: its facts have reached their barrier, so
// that nodes can be used, and it holds partitions.
func (c *Core) Ready() bool { return c.usable() && c.partitions > 0 }

// usable reports whether the facts have reached their barrier, and the ledger is open to them.
func (c *Core) usable() bool {
	p := c.store.Position()
	_, ok := p.Progress(events.KindPod)
	return ok && c.ledger.Permits(p.Epoch)
}

// Ownership is who holds which partitions and who is alive; ok is false when that has not
// changed since it was last asked for.
func (c *Core) Ownership() (picture membership.Picture, ok bool) {
	if !c.ownershipMoved {
		return membership.Picture{}, false
	}
	c.ownershipMoved = false
	return membership.PictureOf(c.ledger, membership.RoleScheduler), true
}

// Sizes are how many nodes exist, how many pods count on them, and how many of those are
// not bound yet.
func (c *Core) Sizes() (nodes, pods, reserved int) { return c.view.Sizes() }

// LeftAlone counts the nodes that are left alone, by every reason there is: "quarantine" (what
// is reserved there does not stand), "doubt" (its kubelet has rejected a pod for want of room)
// and "turn" (another shard places there).
func (c *Core) LeftAlone() map[string]int { return c.avoid.Counts() }

// Asked visits how often rules have been asked since the last call; see engine.Engine.Asked.
func (c *Core) Asked(visit func(a engine.Asked, calls uint64)) { c.engine.Asked(visit) }

// Position is what the core has applied of the facts.
func (c *Core) Position() state.Position { return c.store.Position() }

// Unreadable says why a fact could not be read, nil if all could.
func (c *Core) Unreadable() error { return c.store.Snapshot().Unreadable() }

func (c *Core) applyFacts(b follow.Batch) error {
	if b.Reset {
		store, err := b.Store()
		if err != nil {
			return fmt.Errorf("scheduler: %w", err)
		}
		c.store = store
		c.view.Reset(store)
		c.engine.SetObjects(c.view.Snapshot())
		c.claims.Reset()
		c.cross.countHosts(c.view.Nodes())
		c.resetPlans()
	}
	if len(b.Facts) == 0 {
		return nil
	}
	changes, err := c.store.Apply(b.Facts)
	if err != nil {
		return fmt.Errorf("scheduler: apply facts: %w", err)
	}
	c.view.ApplyFacts(changes)
	for i := range changes.Pods {
		if len(c.performing.bindable) == 0 {
			break
		}
		c.seeBound(max(uidOf(changes.Pods[i].Before), uidOf(changes.Pods[i].After)))
	}
	c.claims.FollowFacts(changes.Others)
	c.avoid.FollowFacts(changes, c.now)
	c.factsMoved(changes)
	if slices.ContainsFunc(changes.Others, engine.ObjectsMatter) {
		c.engine.SetObjects(c.view.Snapshot())
	} else {
		c.engine.Refresh(c.view.Snapshot())
	}
	c.cross.moveHosts(changes.Nodes)
	return nil
}

func (c *Core) applyLedger(b ledger.ViewBatch) error {
	changes, err := c.ledger.Fold(b)
	if err != nil {
		return fmt.Errorf("scheduler: ledger watch: %w", err)
	}
	if err := c.applyTerms(changes); err != nil {
		return err
	}
	if changes.Reset {
		c.view.RecountLedger()
	}
	c.avoid.FollowWatch(changes, c.now)
	c.turns.FollowWatch(changes, c.now)
	c.ledgerMoved(changes)
	if changes.Reset || changes.Members {
		c.home.forget()
	}
	c.noteOwnership(changes)
	return nil
}

// noteOwnership takes in that partitions or members have changed.
func (c *Core) noteOwnership(changes ledger.ViewChanges) {
	if changes.Reset || changes.Members || len(changes.Partitions) > 0 {
		c.ownershipMoved = true
		c.countPartitions()
	}
}

// accept takes offers in, unless they are stale, already in hand, or not wanted.
func (c *Core) accept(b events.OfferBatch) {
	if b.Term < c.term {
		return
	}
	c.term = b.Term
	for _, o := range b.Offers {
		if known, ok := c.attempts.byPod[o.Pod.UID]; ok {
			// The lease was renewed under a new token: the outcome must carry it, unless
			// the old one is already in a transaction that may commit.
			if known.pick.nodeUID == "" {
				known.offer = o
			}
			continue
		}
		if c.draining {
			c.returns = append(c.returns, o.Token)
			continue
		}
		a := &attempt{offer: o, received: c.now}
		c.attempts.begin(a)
		c.attempts.append(pending, a)
	}
}

// drain gives back everything that is not in a transaction.
func (c *Core) drain() {
	c.draining = true
	for _, p := range []phase{pending, deferred, staged, rejected, seeking, reserving, filtering} {
		for _, a := range c.attempts.takeAll(p) {
			c.giveBack(a)
		}
	}
	c.drainDeals()
	c.dismissConsults()
	c.cross.asked = nil
}

// giveBack returns an offer untried.
func (c *Core) giveBack(a *attempt) {
	c.returns = append(c.returns, a.offer.Token)
	c.drop(a)
}

// drop forgets an attempt and what it staged.
func (c *Core) drop(a *attempt) {
	c.attempts.end(a)
	c.unstage(a)
}

// unstage takes back what an attempt staged. If no reservation has taken its place, what
// counted the pod meanwhile counted one that is not there. So do plugins.
func (c *Core) unstage(a *attempt) {
	uid := a.offer.Pod.UID
	c.undo(a.deal, true)
	a.deal = nil
	if !c.view.IsStaged(uid) {
		return
	}
	c.view.Unstage(uid)
	c.returnPlace(&a.pick)
	if _, _, reserved := c.ledger.Entry(uid); !reserved {
		c.cross.withdrawn++
	}
	c.abandon(a)
}

// request asks for work, renews what is in hand and gives back the rest. Whoever waits for a plan
// does not keep others from being tried.
func (c *Core) request() *events.WorkRequest {
	window := c.cfg.Window + c.attempts.count(seeking)
	r := &events.WorkRequest{Shard: c.cfg.Shard, Window: int32(window), Return: c.returns}
	if c.draining || !c.Ready() {
		r.Window = 0
	}
	for _, a := range c.attempts.byPod {
		r.Renew = append(r.Renew, a.offer.Token)
	}
	slices.Sort(r.Renew)
	c.returns = nil
	most := min(len(c.performing.activate), events.MaxActivate)
	r.Activate, c.performing.activate = c.performing.activate[:most:most], c.performing.activate[most:]
	return r
}

// activate has the queue told of pods that plugins want tried. One that the facts do not show waits for nothing, as it
// has never been turned down.
func (c *Core) activate(pods []events.PodRef) {
	for _, ref := range pods {
		pod, known := c.view.Snapshot().PodByName(ref.Namespace, ref.Name)
		if known && pod.NodeName == "" {
			c.performing.activate = append(c.performing.activate, pod.UID)
		}
	}
}

func (c *Core) countPartitions() {
	c.partitions = 0
	for _, owner := range c.ledger.Owners() {
		if owner.Member == c.cfg.Shard {
			c.partitions++
		}
	}
}

// holds reports whether this shard owns a partition, and its epoch. The picture of the ledger must
// have reached the epoch: every reservation of the owners before was committed earlier.
func (c *Core) holds(partition int32) (epoch int64, ok bool) {
	owner, epoch, ok := c.ledger.Owner(partition)
	return epoch, ok && owner.Member == c.cfg.Shard && epoch <= c.ledger.Revision() && c.overEpochs[partition] != epoch
}

// loseEpochs notes that transactions of these partitions were refused over their epochs.
func (c *Core) loseEpochs(partitions []int32, epochs map[int32]int64) {
	for _, p := range partitions {
		if c.overEpochs == nil {
			c.overEpochs = map[int32]int64{}
		}
		c.overEpochs[p] = epochs[p]
	}
}
