package plan

import (
	"maps"
	"time"

	"github.com/berth-scheduler/berth/pkg/descheduling"
	"github.com/berth-scheduler/berth/pkg/events"
)

const (
	// InFlight is how long a request without an outcome is valid. A binder settles a request in seconds; after this time
	// the request, or its outcome, is considered lost.
	InFlight = 10 * time.Minute
	// RequestTTL is how long after the decision binders may start the eviction of a request. The rest of InFlight allows
	// for the difference of the clocks of two machines, and for a call in progress: a request that replaces a lost one
	// is then not carried out concurrently with it.
	RequestTTL = InFlight / 2
	// Cooldown is how long a pod is left alone after an outcome, or the first refusal in a row: a budget that
	// refused needs time to recover (a failed eviction can hold it for two minutes), and a pod that was evicted
	// needs time to terminate. It is at least as long as the usual interval between cycles, so that it bridges one.
	Cooldown = 5 * time.Minute

	// maxBackoff is the bound up to which Cooldown doubles with each refusal in a row; after twice this time without
	// one it starts over.
	maxBackoff = time.Hour
)

// stage is the progress of an eviction. Stages of one attempt only grow; a report of a lower or an equal one is a
// redelivery and is ignored.
type stage uint8

const (
	requested stage = iota + 1
	// background: another controller makes the pod leave (events.DecisionEvictBackground).
	background
	evicted
	refused
)

// open reports whether an eviction has been requested and has had no outcome.
func (s stage) open() bool { return s == requested || s == background }

// request is the newest eviction that was requested for one pod.
type request struct {
	attempt int32
	stage   stage
	// owner is the owner of the pod. facts is the fact sequence at which the request was decided: requests of one
	// cycle have the same. The pod was to move from the node from to the node to, which may be empty.
	owner    ownerID
	facts    uint64
	from, to string
	// youngest is the creation time of the youngest pod of the owner that the request knew of; zero means not reported.
	youngest time.Time
	// since is when this process first saw the stage, by its own clock; at is when the stage was reached, as far as
	// the log shows (see Recall).
	since, at time.Time
	// refusals is how often in a row evictions of the pod were refused.
	refusals int
}

// failedKeeps is a pod for whose replacement the ledger could not keep a place: how often in a row, and when last,
// by the clock of this process.
type failedKeeps struct {
	times int
	since time.Time
}

// History holds the newest request for each pod, and what has been done to each owner. It is derived from the
// decisions in the log, and can be discarded and read again. It is not safe for concurrent use; the zero value is
// not usable.
type History struct {
	// requests holds the newest request for each pod, by UID.
	requests map[string]request
	owners   map[ownerID]ownerHistory
	// ofOwner holds the pods with requests, by owner: an index of requests.
	ofOwner map[ownerID]map[string]bool
	// returnReported holds the UIDs of the pods whose return has been reported.
	returnReported map[string]bool
	// unkept is recorded only by this process: refusals by the ledger are in no log. After a fail-over the next leader
	// tries once more, which costs one transaction at most.
	unkept map[string]failedKeeps
}

// NewHistory returns an empty history.
func NewHistory() *History {
	return &History{
		requests: map[string]request{}, owners: map[ownerID]ownerHistory{}, ofOwner: map[ownerID]map[string]bool{},
		returnReported: map[string]bool{},
		unkept:         map[string]failedKeeps{},
	}
}

// Clone returns a history that shares no mutable state with h. It copies all maps; the values in them are
// immutable.
func (h *History) Clone() *History {
	c := &History{
		requests: maps.Clone(h.requests), owners: maps.Clone(h.owners), ofOwner: maps.Clone(h.ofOwner),
		returnReported: maps.Clone(h.returnReported),
		unkept:         maps.Clone(h.unkept),
	}
	for owner, pods := range c.ofOwner {
		c.ofOwner[owner] = maps.Clone(pods)
	}
	return c
}

// HasRequest reports whether a request is known for a pod.
func (h *History) HasRequest(uid string) bool {
	_, known := h.requests[uid]
	return known
}

// Observe applies one decision, new or redelivered, and reports whether it changed anything. A request and its outcome
// are matched by Attempt; a decision that is older than what is known is ignored.
func (h *History) Observe(d events.Decision, now time.Time) (changed bool) {
	return h.Recall(d, now, 0)
}

// Recall is Observe for a decision that may have been in the log for a while. Pauses of pods and owners count from
// when it was made, so that a restart does not start all of them again. age may come from the clocks of two
// machines; their error makes an eviction early or late. Whether an eviction is in progress is never determined by
// age, but counted from now.
func (h *History) Recall(d events.Decision, now time.Time, age time.Duration) (changed bool) {
	if d.Kind == events.DecisionReturned {
		h.returnReported[d.Pod.UID] = true
		return true
	}
	s := stageOf(d.Kind)
	known := h.requests[d.Pod.UID]
	if s == 0 || d.Attempt < known.attempt || d.Attempt == known.attempt && s <= known.stage {
		return false
	}
	at := now.Add(-max(age, 0))
	a := known.next(s, at)
	a.attempt, a.since = d.Attempt, now
	if s == requested {
		a.owner, a.facts = ownerIn(d.Pod.Namespace, d.Owner), d.FactSequence
		a.from = d.NodeName
		a.to = d.Landing
		a.youngest = d.Youngest
	}
	h.requests[d.Pod.UID] = a
	if a.owner == (ownerID{}) {
		return true
	}
	if h.ofOwner[a.owner] == nil {
		h.ofOwner[a.owner] = map[string]bool{}
	}
	h.ofOwner[a.owner][d.Pod.UID] = true
	switch s {
	case evicted:
		h.owners[a.owner] = h.owners[a.owner].withEviction(a, at)
	case refused:
		h.owners[a.owner] = h.owners[a.owner].withRefusal(a, at)
	}
	return true
}

// next returns a request at a new stage, which was reached at the given time.
func (a request) next(s stage, at time.Time) request {
	switch {
	case s == refused:
		a.refusals++
	case s == evicted, at.Sub(a.at) >= 2*maxBackoff:
		a.refusals = 0
	}
	a.stage, a.at = s, at
	return a
}

// RecordUnkept records that the ledger cannot keep a place for the replacement of a pod, by UID: the pod rests as
// after a refused eviction.
func (h *History) RecordUnkept(uid string, now time.Time) {
	u := h.unkept[uid]
	if now.Sub(u.since) >= 2*maxBackoff {
		u.times = 0
	}
	h.unkept[uid] = failedKeeps{u.times + 1, now}
}

// backoff returns how long to leave a pod or an owner alone after this many refusals in a row.
func backoff(refusals int) time.Duration {
	pause := Cooldown
	for ; refusals > 1 && pause < maxBackoff; refusals-- {
		pause *= 2
	}
	return min(pause, maxBackoff)
}

// stageOf returns the stage that a decision reports, 0 for decisions that are not about evictions.
func stageOf(k events.DecisionKind) stage {
	switch k {
	case events.DecisionEvict:
		return requested
	case events.DecisionEvictBackground:
		return background
	case events.DecisionEvicted:
		return evicted
	case events.DecisionEvictRefused:
		return refused
	default:
		return 0
	}
}

// Forget drops pods that no longer exist once no eviction of them can be in progress, and owners of which no pod
// was evicted for long. Pods that exist stay: their next request continues the count.
func (h *History) Forget(exists func(uid string) bool, now time.Time) {
	for uid, a := range h.requests {
		if now.Sub(a.since) < InFlight || exists(uid) {
			continue
		}
		delete(h.requests, uid)
		delete(h.ofOwner[a.owner], uid)
		if len(h.ofOwner[a.owner]) == 0 {
			delete(h.ofOwner, a.owner)
		}
	}
	maps.DeleteFunc(h.unkept, func(uid string, _ failedKeeps) bool { return !exists(uid) })
	maps.DeleteFunc(h.returnReported, func(uid string, _ bool) bool { return !exists(uid) })
	maps.DeleteFunc(h.owners, func(_ ownerID, p ownerHistory) bool {
		return now.Sub(p.last()) >= ownerMemory && now.Sub(p.refused.at) >= ownerMemory
	})
}

// refuse returns why an eviction of the pod must not be requested now: an eviction is under way, the pod rests
// after an outcome, or it rests because the ledger could not keep a place. The first counts by since, which is this
// process's own clock: concurrent evictions of one pod must not depend on the clock of another machine.
func (h *History) refuse(uid string, now time.Time) descheduling.Refusal {
	a, known := h.requests[uid]
	u := h.unkept[uid]
	switch {
	case known && a.stage.open() && now.Sub(a.since) < InFlight:
		return UnderWay
	case known && !a.stage.open() && now.Sub(a.at) < backoff(a.refusals):
		return CoolingDown
	case u.times > 0 && now.Sub(u.since) < backoff(u.times):
		return Unkeepable
	default:
		return ""
	}
}

// underWay counts the pods of an owner that are being evicted and still exist.
func (h *History) underWay(owner ownerID, now time.Time, exists func(uid string) bool) int {
	n := 0
	for uid := range h.ofOwner[owner] {
		a := h.requests[uid]
		if a.stage != refused && now.Sub(a.since) < InFlight && exists(uid) {
			n++
		}
	}
	return n
}

// awaitingOutcome reports whether evictions of an owner's pods have been requested whose outcome is not known yet.
func (h *History) awaitingOutcome(owner ownerID, now time.Time) bool {
	for uid := range h.ofOwner[owner] {
		if a := h.requests[uid]; a.stage.open() && now.Sub(a.since) < InFlight {
			return true
		}
	}
	return false
}

// InProgress reports whether a request may still lead to the eviction of its pod, or has led to it not long ago.
func (h *History) InProgress(uid string, attempt int32, now time.Time) bool {
	a, known := h.requests[uid]
	return known && a.attempt == attempt && a.stage != refused && now.Sub(a.since) < InFlight
}

// InBackground reports whether an eviction of the pod, by UID, was requested of another controller, and has had no
// outcome within the time that such a request is valid.
func (h *History) InBackground(uid string, now time.Time) bool {
	a := h.requests[uid]
	return a.stage == background && now.Sub(a.since) < InFlight
}

// ReturnReported reports whether it has been recorded that a pod came back (DecisionReturned).
func (h *History) ReturnReported(podUID string) bool { return h.returnReported[podUID] }

// Next returns the number of the next request for a pod, from 1.
func (h *History) Next(uid string) int32 { return h.requests[uid].attempt + 1 }
