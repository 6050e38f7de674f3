package decide

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/state"
)

// step is the purpose of a reservation's effect in flight.
type step uint8

const (
	idle step = iota
	// binding means that the Binding is posted.
	binding
	// naming means that the claim created for the pod's resources is written into the document.
	naming
	// checking means that the resourceVersion moved, the pod has been read, and the document is being read.
	checking
	// marking, changing and releasing are the three parts of a fence.
	marking
	changing
	releasing
)

// reservation is the binder's view of one ledger entry. What to do next follows from the entry's state in the ledger
// alone, so that a binder that takes a partition over (or starts) continues where the last one stopped.
type reservation struct {
	promise

	op   OpID
	step step
	// settled means that the API server has given a final answer (bound, or gone); the entry only waits for the facts
	// to show it and for the sweep. removed means that the entry has left the ledger.
	settled, removed bool
	// lined means that it waits for its turn to bind; see turns.
	lined bool
	// rv is the bind's precondition: the entry's version, or a fresher one after a refresh.
	rv uint64
	// room is whether the pod's annotations have room for the attempt at rv.
	room room
	posts
	// asked means that the pod's volumes and devices have been requested.
	asked bool
	// read is the pod as read after a lost resourceVersion, before the document is read.
	read *state.Pod
	// doomed is the reason for fencing the entry; empty while it may still be bound.
	doomed string
	fence  fence
	// due is when the next try may be made, and retry the backoff after that.
	due   time.Time
	retry wait.Backoff
}

// posts is the outcome of the Bindings posted so far.
type posts struct {
	// tries counts them, and losses those that were refused because the pod had changed.
	tries, losses int
	// unsure means that one of them may have been carried out, though no answer confirmed it.
	unsure bool
}

// promise is the entry as the ledger shows it, and the hint from the log.
type promise struct {
	key               attempt
	nodeUID, nodeName string
	entry             ledger.Entry
	// since is when the entry was first seen in its present state, moved forward by the time it has waited for turns
	// to bind.
	since time.Time
	hint  events.Decision
}

// advance takes the next step, if nothing is in flight and it is time.
func (r *reservation) advance(c *Core) {
	defer c.park(r)
	if r.op != 0 || r.removed || r.settled || !c.mayAct(r.key.pod) || c.now.Before(r.due) {
		return
	}
	if r.fence.again != idle {
		r.resubmit(c)
		return
	}
	switch r.entry.State {
	case ledger.Committed:
		if r.entry.Delegated && !r.leftToUs() {
			r.watchBind(c)
			return
		}
		r.advanceCommitted(c)
	case ledger.Fencing:
		// A fence begun by this binder continues at once; another binder's only once it has been idle.
		if r.doomed != "" || c.now.Sub(r.since) > c.limits.Idle {
			r.advanceFencing(c)
		}
	case ledger.Held:
		// A held entry is never bound; its shard displaces it, not a fence.
	}
}

// park keeps a waiting reservation in the set that ticks and facts visit. Most reservations of a large cluster belong
// to other binders, and are therefore not in it.
func (c *Core) park(r *reservation) {
	if r.op == 0 && !r.removed && !r.settled && !r.lined && c.holds(r.key.pod) {
		c.waiting[r.key] = r
		return
	}
	delete(c.waiting, r.key)
}

func (r *reservation) advanceCommitted(c *Core) {
	switch {
	case r.doomed != "":
	case !r.lined && c.now.Sub(r.since) > c.bindDeadline(r):
		r.doomed = fmt.Sprintf("not bound within %v", c.bindDeadline(r))
	case r.entry.Wanted && r.tries > 0:
		r.doomed, r.fence.blame = "wanted back, and the bind did not succeed at once", ledger.FenceByWant
	case r.entry.Wanted && c.turns.taken >= c.limits.Binds:
		r.doomed, r.fence.blame = "wanted back, and other binds come first", ledger.FenceByWant
	}
	if r.doomed != "" {
		r.mark(c)
		return
	}
	p, v, reason := c.recheck(r)
	switch v {
	case over:
		if r.claimsOpen(c) {
			r.overDevices(c, reason)
			return
		}
		r.settled = true
	case stale:
		r.doomed = reason
		r.mark(c)
	case fit:
		if r.knowsRoom(p) {
			r.takeTurn(c, p.Priority)
		}
	case unseen:
	}
}

// bind posts the Binding.
//
// Order: entry Committed in the ledger (seen in this binder's view) → Binding → decision and event. A crash before
// the Binding leaves a Committed entry, which the next holder of the partition binds. A crash after it leaves a bound
// pod: the next holder's Binding is refused and it finds the pod where it should be, or the facts show it first. A
// crash before decision and event loses both: the queue learns of binds from the facts.
func (r *reservation) bind(c *Core) {
	r.tries++
	r.begin(c, binding)
	c.turns.taken++
	c.emit(Bind{
		Op: r.op, Pod: r.ref(), NodeUID: r.nodeUID, NodeName: r.nodeName, ResourceVersion: r.rv,
		Token: r.key.token, Full: r.room == noRoom, SchedulerName: r.entry.SchedulerName,
		Attempt: r.hint.Attempt, TraceParent: r.hint.TraceParent,
		Volumes: r.volumes(c), Devices: r.devices(c),
	})
}

// devices returns what must be written to device claims before the Binding; nil for nothing.
func (r *reservation) devices(c *Core) *DeviceWork {
	if len(r.entry.Devices) == 0 {
		return nil
	}
	w := &DeviceWork{Picks: r.entry.Devices, Known: r.knownClaims(c)}
	hashed := func(p ledger.DevicePick) bool { return len(p.ConfigHashes) > 0 }
	if c.facts.Classes != nil && slices.ContainsFunc(w.Picks, hashed) {
		w.Classes = c.facts.Classes()
	}
	if n, ok := c.facts.Cluster.Node(r.nodeUID); ok {
		w.NodeLabels = n.Object.Labels
	}
	return w
}

// knownClaims returns the claims that the facts show at the version that the decision used, for the first try. A
// retry has to read their current state.
func (r *reservation) knownClaims(c *Core) map[string]*resourcev1.ResourceClaim {
	if r.tries > 1 || c.facts.Claim == nil {
		return nil
	}
	known := map[string]*resourcev1.ResourceClaim{}
	for _, p := range r.entry.Devices {
		claim := c.facts.Claim(r.entry.Namespace, p.Claim)
		if claim != nil && string(claim.UID) == p.ClaimUID && claim.ResourceVersion == strconv.FormatUint(p.ClaimRV, 10) {
			known[p.Claim] = claim
		}
	}
	return known
}

// claimsOpen reports whether, by the facts, a write to one of the claims may still be in flight. The entry cannot
// leave before that is excluded.
func (r *reservation) claimsOpen(c *Core) bool {
	if len(r.entry.Devices) == 0 {
		return false
	}
	_, settled := ledger.SettledClaims(r.entry, claimFacts{c})
	return !settled
}

// overDevices ends a reservation with device claims whose pod is gone or bound. If the pod is bound here, its claims
// are written, and the facts will soon show it; otherwise the reservation is fenced.
func (r *reservation) overDevices(c *Core, reason string) {
	p, known, _ := c.pod(r.key.pod, r.entry.PodRV)
	if known && p.NodeName == r.nodeName {
		r.due = c.now.Add(c.limits.Volumes.Poll)
		return
	}
	r.doomed, r.fence.blame = reason, ledger.FenceByPod
	r.mark(c)
}

// volumes returns what must be done before the Binding; nil for nothing.
func (r *reservation) volumes(c *Core) *VolumeWork {
	if len(r.entry.Volumes) == 0 {
		return nil
	}
	w := &VolumeWork{Picks: r.entry.Volumes, Written: r.asked}
	if n, ok := c.facts.Cluster.Node(r.nodeUID); ok {
		w.NodeLabels = n.Object.Labels
	}
	return w
}

// bindDeadline returns the deadline of a bind, which is longer for a pod whose volumes have to be created or whose
// devices are not ready.
func (c *Core) bindDeadline(r *reservation) time.Duration {
	deadline := c.limits.BindDeadline
	if slices.ContainsFunc(r.entry.Volumes, func(p ledger.VolumePick) bool { return !p.HasVolume }) {
		deadline += c.limits.Volumes.deadline(r.entry.SchedulerName)
	}
	if len(r.entry.Devices) > 0 && r.asked {
		deadline += c.limits.Devices.deadline(r.entry.SchedulerName)
	}
	return deadline
}

func (r *reservation) begin(c *Core, s step) {
	r.op = c.start(r)
	r.step = s
	r.lined = false
	delete(c.waiting, r.key)
}

func (r *reservation) ref() events.PodRef {
	return events.PodRef{UID: r.entry.PodUID, Namespace: r.entry.Namespace, Name: r.entry.Name}
}

func (r *reservation) answered(c *Core, in Input) {
	r.op = 0
	s := r.step
	r.step = idle
	defer c.park(r)
	switch in := in.(type) {
	case Answered:
		if s == binding {
			c.turns.taken--
			r.bindAnswered(c, in)
			c.nextTurns()
		} else {
			r.changeAnswered(c, in)
		}
	case DocRead:
		r.docRead(c, in)
	case Transacted:
		switch s {
		case naming:
			r.nameAnswered(c, in)
		case marking:
			r.markAnswered(c, in)
		default:
			r.releaseAnswered(c, in)
		}
	}
}

func (r *reservation) bindAnswered(c *Core, in Answered) {
	switch in.Result {
	case Done:
		r.settled = true
		r.announceBound(c, true)
	case AlreadyHere:
		r.settled = true
		r.foundBound(c, in.Pod, r.unsure)
	case Elsewhere, Gone:
		if r.claimsOpen(c) {
			r.doomed, r.fence.blame = "the pod is "+in.Result.String(), ledger.FenceByPod
			r.advance(c)
			return
		}
		r.settled = true
	case Moved:
		r.moved(c, in.Pod)
	case Refused:
		r.bindRefused(c, in.Problem)
	case ClaimMade:
		r.nameClaim(c, in.Made)
	case Waiting:
		r.asked = true
		r.due = c.now.Add(c.limits.Volumes.Poll)
		if r.entry.Wanted {
			r.due = c.now
			r.advance(c)
		}
	default:
		r.unsure = r.unsure || !in.Refused
		r.backOff(c)
		if r.entry.Wanted {
			r.due = c.now // a process that wants it back does not wait for another try
			r.advance(c)
		}
	}
}

// foundBound reports a bind that was found done, if it was this attempt's: another client may have chosen the same
// node. If another binder bound the pod, that binder has emitted the event, or has died: then the event is lost, as
// when kube-scheduler dies at that point.
func (r *reservation) foundBound(c *Core, p *state.Pod, ours bool) {
	if p != nil && (p.Attempt() == r.key.token.String() || r.boundByPlugin(p)) {
		r.announceBound(c, ours)
	}
}

// announceBound publishes the bind to the log and then, if users is set, emits an event.
func (r *reservation) announceBound(c *Core, users bool) {
	d := r.decision(events.DecisionBound)
	d.PodResourceVersion = r.rv
	c.publish(d)
	if !users {
		return
	}
	c.emit(Report{
		Pod: r.ref(), SchedulerName: r.entry.SchedulerName, Type: "Normal", Reason: "Scheduled", Action: "Binding",
		Note: fmt.Sprintf("Successfully assigned %s/%s to %s", r.entry.Namespace, r.entry.Name, r.nodeName), Once: true,
	})
}

func (r *reservation) decision(kind events.DecisionKind) events.Decision {
	return events.Decision{
		Kind: kind, Pod: r.ref(), SchedulerName: r.entry.SchedulerName,
		Attempt: r.hint.Attempt, Token: r.key.token.String(),
		NodeUID: r.nodeUID, NodeName: r.nodeName, TraceParent: r.hint.TraceParent,
	}
}

// moved begins the refresh. The protocol prescribes the order: the pod has been read (rv'), now the document is read,
// and only then the bind is sent with rv'. In the reverse order, a fence could mark, change the pod and release
// between the two reads, and the bind would carry a resourceVersion from after the fence.
func (r *reservation) moved(c *Core, read *state.Pod) {
	r.losses++
	if read == nil {
		r.backOff(c)
		return
	}
	if r.losses >= c.limits.Losses {
		r.doomed = fmt.Sprintf("the pod changed %d times between decision and bind", r.losses)
		r.fence.blame = ledger.FenceByPod
		r.advance(c)
		return
	}
	if !r.live(c) {
		r.advance(c) // it is being fenced, or another binder holds the partition now
		return
	}
	r.read = read
	r.begin(c, checking)
	c.emit(ReadDoc{Op: r.op, NodeUID: r.nodeUID})
}

// live reports whether the entry is still Committed, unfinished and this binder's to bind.
func (r *reservation) live(c *Core) bool {
	return !r.removed && !r.settled && r.doomed == "" &&
		r.entry.State == ledger.Committed && c.mayAct(r.key.pod)
}

func (r *reservation) docRead(c *Core, in DocRead) {
	read := r.read
	r.read = nil
	if in.Problem != "" {
		r.backOff(c) // the whole refresh again, starting with the pod: the next bind is refused again
		return
	}
	if in.Doc == nil {
		r.settled = true
		return
	}
	c.learnAndAdvance(*in.Doc, r)
	if !r.live(c) {
		r.advance(c)
		return
	}
	r.refresh(c, read)
}

// refresh binds with the resourceVersion just read if the pod still requests the same as when the decision was made,
// whether or not this binder has seen that version: it may have started since, and a nominated pod always changes in
// between (its own nominatedNodeName).
//
// An entry that does not record what was requested is as good as the pod version it names, if that version is known.
// If not, it cannot be determined what changed (a resize would put more on the node than was reserved), so the entry
// is fenced as well.
func (r *reservation) refresh(c *Core, read *state.Pod) {
	decidedOn, ok := r.entry.Wish, true
	if decidedOn == 0 {
		decidedOn, ok = c.wishAt(r.key.pod, r.entry.PodRV)
	}
	v, reason := c.recheckOn(r, read)
	switch {
	case !ok:
		reason, r.fence.blame = "the pod changed, and the version the decision used is not at hand", ledger.FenceByPod
	case decidedOn != read.Wish():
		reason, r.fence.blame = "the pod's spec or labels changed since the decision", ledger.FenceByPod
	case v == fit:
		r.rv, r.room = read.ResourceVersion, roomIn(read)
		r.bind(c)
		return
	case v == unseen:
		r.backOff(c)
		return
	}
	r.doomed = reason
	r.advance(c)
}

func (r *reservation) backOff(c *Core) {
	var d time.Duration
	d, r.retry = nextTry(r.retry)
	r.due = c.now.Add(d)
}
