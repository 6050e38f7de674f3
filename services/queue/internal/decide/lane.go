package decide

import (
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/state"
)

// Pods that the same rules rejected for the same reasons share a lane. When something
// happens that could help them, it helps all of them, be they ten thousand; but the room
// that a pod has left is soon taken. So of a lane only a few are tried at a time: laneWidth,
// twice as many after each that was placed, and laneWidth again after one that was
// rejected. The others wait in the order in which they would be tried, and leave the shards
// to pods that have a chance. Once one has been rejected, and nothing that their rules
// listen to has happened since what that verdict was computed from, the verdict is theirs
// too: they are parked again without a try of their own. (Upstream tries them all, before
// whatever came later.) What they say of themselves in their condition is from their own
// last attempt; the sweep sees to it that this is not long ago.
//
// A pod that is active and has a permit of its lane stands in its partition; without, in
// the lane. What is in backoff and may go early is listed in its partition as far as there
// are permits to be had, and else stands back in the lane.
const (
	laneWidth    = 2
	maxLaneWidth = 256
)

// lane is one such group.
type lane struct {
	key string
	// pods counts the entries that are of this lane, out those with a permit, listed those
	// that are listed as early.
	pods, out, listed int
	width             int
	// plugins rejected its pods. rejected is the newest verdict about one of them.
	plugins  []string
	rejected laneVerdict
	// blocked are active without a permit, back in backoff and not listed.
	blocked *bag
	back    *heapOf
}

// laneVerdict is what a verdict about a pod of the lane was computed from, and its message.
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
			back: &heapOf{slot: slotEarly, less: earlyBefore},
		}
		c.lanes.all[key] = l
	}
	l.pods++
	e.lane = l
	for _, key := range l.rulesOf(e.pod.SchedulerName) {
		if _, known := c.lanes.heard[key]; !known {
			// What happened before is not known: as if it had been just now.
			c.lanes.heard[key] = heard{c.world.facts.Sequence, c.world.revision}
		}
	}
}

// laneKey is what pods of a lane have in common: profile, priority, whether they may preempt, and for each rule that
// rejected them what its hints depend on. Hints do not depend on the second and the third, verdicts do.
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

// neverPreempts says whether a pod has asked not to have others go for it.
func neverPreempts(p *state.Pod) bool {
	policy := p.Template.Spec.PreemptionPolicy
	return policy != nil && *policy == corev1.PreemptNever
}

// part takes a pod out of its lane, if it is in one. It stands in no pool, or will be moved.
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

// giveBackPermit lets another pod of the lane go.
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

// lanes are all lanes, and those where more may have become possible. heard is where the
// last occurrence is that each rule listens to.
type lanes struct {
	all   map[string]*lane
	moved map[*lane]struct{}
	heard map[ruleKey]heard
}

type heard struct {
	sequence uint64
	revision int64
}

// hear notes an occurrence for the rules that listen to it. A rule is known from the first
// rejection by it on.
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

// rulesOf are the keys of the rules that rejected the pods of a lane.
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

// rejectedLike notes the verdict about a pod for the others of its lane.
func (c *Core) rejectedLike(e *entry) {
	v, l := &e.verdict, e.lane
	if v.factSequence >= l.rejected.factSequence && v.ledgerRevision >= l.rejected.ledgerRevision {
		l.rejected = laneVerdict{v.factSequence, v.factEpoch, v.ledgerRevision, v.message, v.retryAt}
	}
	c.lanes.moved[l] = struct{}{}
}

// covered says whether the lane's newest verdict is as good as one about this pod: neither
// has the pod changed since what it was computed from, nor has anything happened that the
// rules listen to, and it is not on its way because nothing has happened for long, or because a plugin
// wants it tried.
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

// parkLike parks a pod by its lane's newest verdict, which counts for its backoff as one of
// its own would: or ten thousand pods that every deletion wakes would be moved every second.
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

// openLanes goes through the lanes where something moved: who is covered by a verdict is
// parked, or does not go early; the next get permits.
func (c *Core) openLanes(now moment) {
	for l := range c.lanes.moved {
		for e := l.blocked.first(); e != nil && (l.out < l.width || c.covered(e)); e = l.blocked.first() {
			if c.covered(e) {
				c.parkLike(e, now)
				continue
			}
			l.blocked.drop(e)
			e.permit = true
			l.out++
			e.in = c.bags.active[e.partition]
			e.in.put(e)
		}
		for e := l.back.first(); e != nil && (l.out+l.listed < l.width || c.covered(e)); e = l.back.first() {
			l.back.drop(e)
			e.early = nil
			if e.late = c.covered(e); !e.late {
				c.list(e)
			}
		}
	}
	clear(c.lanes.moved)
}

// list lists a pod in backoff among those of its partition that may go early.
func (c *Core) list(e *entry) {
	e.early = c.bags.early[e.partition]
	e.early.put(e)
	c.bags.earlyCount++
	if e.lane != nil {
		e.lane.listed++
	}
}

// standBack takes a pod off the list: its lane is full.
func (c *Core) standBack(e *entry) {
	c.notEarly(e)
	e.early = e.lane.back
	e.early.put(e)
}
