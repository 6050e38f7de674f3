package decide

import (
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/state"

	"github.com/berth-scheduler/berth/services/queue/internal/heap"
)

// Pods that the same rules rejected for the same reasons share a lane. An event that could help one of them could
// help all of them, even ten thousand; but the room that a deleted pod leaves is soon taken. So only a few pods of a
// lane are tried at a time: laneWidth, twice as many after each pod that was placed, and laneWidth again after a
// rejection. The others wait in the order in which they would be tried, and leave the shards to pods that have a
// chance. Once a pod has been rejected, and nothing that its rules listen to has happened since the state from which
// that verdict was computed, the verdict covers the other pods of the lane too: they are parked again without an
// attempt of their own. (Upstream tries them all, before any pod that came later.) A pod's condition comes from its
// own last attempt; the periodic flush ensures that this attempt is recent.
//
// An active pod with a permit of its lane is in its partition; without one it is in the lane. A pod in backoff that
// may be offered early is listed in its partition while permits are available, and otherwise stands back in the lane.
const (
	laneWidth    = 2
	maxLaneWidth = 256
)

// lane is one group of pods that were rejected alike.
type lane struct {
	key string
	// pods counts the entries of the lane, out those with a permit, and listed those that are listed as early.
	pods, out, listed int
	width             int
	// plugins are the rules that rejected its pods. rejected is the newest verdict about one of them.
	plugins  []string
	rejected laneVerdict
	// blocked holds the active pods without a permit. back holds those in backoff that may be offered early and are
	// not listed.
	blocked *bag
	back    *heap.Heap[*entry]
}

// laneVerdict is the message of a verdict about a pod of the lane, and the state it was computed from.
type laneVerdict struct {
	factSequence   uint64
	factEpoch      uint64
	ledgerRevision int64
	message        string
	retryAt        moment
}

// join puts a rejected pod into its lane.
func (c *Core) join(e *entry) {
	key := c.laneKey(e)
	l, ok := c.lanes.all[key]
	if !ok {
		l = &lane{
			key: key, width: laneWidth, plugins: e.verdict.plugins, blocked: newBag(PoolActive, before),
			back: heap.New(earlyBefore, inEarly),
		}
		c.lanes.all[key] = l
	}
	l.pods++
	e.lane = l
	for _, key := range l.rulesOf(e.pod.SchedulerName) {
		if _, known := c.lanes.heard[key]; !known {
			// What happened before is not known; it is treated as if it had happened just now.
			c.lanes.heard[key] = heard{c.world.facts.Sequence, c.world.revision}
		}
	}
}

// laneKey returns what the pods of a lane have in common: profile, priority, whether they may preempt, and for each
// rule that rejected them what its hints depend on. Hints do not depend on priority or on preemption, but verdicts
// do.
func (c *Core) laneKey(e *entry) string {
	profile := c.cfg.Profiles[e.pod.SchedulerName]
	var b strings.Builder
	b.WriteString(e.pod.SchedulerName)
	b.WriteByte(0)
	b.WriteString(strconv.Itoa(int(e.pod.Priority)))
	if neverPreempts(e.pod) {
		b.WriteByte('!')
	}
	for _, plugin := range e.verdict.plugins {
		b.WriteByte(0)
		b.WriteString(plugin)
		b.WriteByte(0)
		b.WriteString(profile.Interest(plugin, e.pod).Class)
	}
	return b.String()
}

// neverPreempts reports whether a pod's preemption policy is Never.
func neverPreempts(p *state.Pod) bool {
	policy := p.Template.Spec.PreemptionPolicy
	return policy != nil && *policy == corev1.PreemptNever
}

// part takes a pod out of its lane, if it is in one. The pod is in no pool, or the caller moves it.
func (c *Core) part(e *entry) {
	l := e.lane
	if l == nil {
		return
	}
	c.giveBackPermit(e)
	e.lane = nil
	if l.pods--; l.pods == 0 {
		delete(c.lanes.all, l.key)
		delete(c.lanes.moved, l)
	}
}

// giveBackPermit returns a pod's permit, so that another pod of the lane can have it.
func (c *Core) giveBackPermit(e *entry) {
	if e.permit {
		e.permit = false
		e.lane.out--
		c.lanes.moved[e.lane] = struct{}{}
	}
}

// learn widens or narrows a lane by the answer to one of its pods.
func (l *lane) learn(answer events.DecisionKind) {
	switch answer {
	case events.DecisionPlaced:
		l.width = min(2*l.width, maxLaneWidth)
	case events.DecisionUnplaceable:
		l.width = laneWidth
	}
}

// lanes holds all lanes; moved those in which more pods may have become eligible; heard the position of the last
// occurrence that each rule listens to.
type lanes struct {
	all   map[string]*lane
	moved map[*lane]struct{}
	heard map[ruleKey]heard
}

type heard struct {
	sequence uint64
	revision int64
}

// hear records an occurrence for the rules that listen to it. A rule is known from its first rejection on.
func (c *Core) hear(o *occurrence) {
	for key, h := range c.lanes.heard {
		if !c.cfg.Profiles[key.profile].Listens(key.plugin, o.change) {
			continue
		}
		if o.revision != 0 {
			h.revision = max(h.revision, o.revision)
		} else {
			h.sequence = max(h.sequence, o.sequence)
		}
		c.lanes.heard[key] = h
	}
}

// rulesOf returns the keys of the rules that rejected the pods of a lane.
func (l *lane) rulesOf(profile string) []ruleKey {
	if len(l.plugins) == 0 {
		return []ruleKey{{profile: profile}}
	}
	keys := make([]ruleKey, len(l.plugins))
	for i, plugin := range l.plugins {
		keys[i] = ruleKey{profile, plugin}
	}
	return keys
}

// rejectedLike records the verdict about a pod for the other pods of its lane.
func (c *Core) rejectedLike(e *entry) {
	v, l := &e.verdict, e.lane
	if v.factSequence >= l.rejected.factSequence && v.ledgerRevision >= l.rejected.ledgerRevision {
		l.rejected = laneVerdict{v.factSequence, v.factEpoch, v.ledgerRevision, v.message, v.retryAt}
	}
	c.lanes.moved[l] = struct{}{}
}

// covered reports whether the lane's newest verdict also holds for this pod. Neither must the pod have changed since
// the state that verdict was computed from, nor anything have happened that the rules listen to; and the pod must not
// be on its way because of a flush or because a plugin requested an attempt.
func (c *Core) covered(e *entry) bool {
	r := &e.lane.rejected
	if r.factSequence == 0 || e.sequence > r.factSequence || e.attempt.flushed || e.attempt.activated ||
		r.factSequence < c.journal.sequence || r.ledgerRevision < c.journal.revision {
		return false
	}
	for _, key := range e.lane.rulesOf(e.pod.SchedulerName) {
		h := c.lanes.heard[key]
		if h.sequence > r.factSequence || h.revision > r.ledgerRevision {
			return false
		}
	}
	return true
}

// parkLike parks a pod by its lane's newest verdict. It counts for the pod's backoff like a verdict of its own;
// otherwise ten thousand pods that every deletion wakes would be moved every second.
func (c *Core) parkLike(e *entry, now moment) {
	r := &e.lane.rejected
	e.verdict.rejections++
	e.verdict.factSequence, e.verdict.factEpoch = r.factSequence, r.factEpoch
	e.verdict.ledgerRevision = r.ledgerRevision
	e.verdict.message = r.message
	e.verdict.retryAt = r.retryAt
	c.backOff(e, now)
	c.enter(e, c.bags.parked, eventAttemptFailure, now)
}

// openLanes visits the lanes in which something moved. Pods that a verdict covers are parked, or are not offered
// early; the next pods get the permits.
func (c *Core) openLanes(now moment) {
	for l := range c.lanes.moved {
		for e := l.blocked.First(); e != nil && (l.out < l.width || c.covered(e)); e = l.blocked.First() {
			if c.covered(e) {
				c.parkLike(e, now)
				continue
			}
			l.blocked.Drop(e)
			e.permit = true
			l.out++
			e.in = c.bags.active[e.partition]
			e.in.Put(e)
		}
		for e := l.back.First(); e != nil && (l.out+l.listed < l.width || c.covered(e)); e = l.back.First() {
			l.back.Drop(e)
			e.early = nil
			if e.late = c.covered(e); !e.late {
				c.list(e)
			}
		}
	}
	clear(c.lanes.moved)
}

// list lists a pod in backoff among the pods of its partition that may be offered early.
func (c *Core) list(e *entry) {
	e.early = c.bags.early[e.partition]
	e.early.Put(e)
	c.bags.earlyCount++
	if e.lane != nil {
		e.lane.listed++
	}
}

// standBack takes a pod off that list because its lane is full.
func (c *Core) standBack(e *entry) {
	c.notEarly(e)
	e.early = e.lane.back
	e.early.Put(e)
}
