package decide

import (
	"strconv"
	"strings"

	"github.com/berth-scheduler/berth/pkg/events"
)

// Pods that the same rules rejected for the same reasons share a lane. When something
// happens that could help them, it helps all of them, be they ten thousand; but the room
// that a pod has left is soon taken. So of a lane only a few are tried at a time: laneWidth,
// twice as many after each that was placed, and laneWidth again after one that was
// rejected. The others wait in the order in which they would be tried, and leave the shards
// to pods that have a chance (upstream tries them all, before whatever came later).
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
	// blocked are active without a permit, back in backoff and not listed.
	blocked *bag
	back    *heapOf
}

// join puts a rejected pod into its lane.
func (c *Core) join(e *entry) {
	key := c.laneKey(e)
	l, ok := c.lanes.all[key]
	if !ok {
		l = &lane{
			key: key, width: laneWidth, blocked: newBag(PoolActive, before),
			back: &heapOf{slot: slotEarly, less: earlyBefore},
		}
		c.lanes.all[key] = l
	}
	l.pods++
	e.lane = l
}

// laneKey is what pods of a lane have in common: profile, priority, and for each rule that
// rejected them what its hints depend on.
func (c *Core) laneKey(e *entry) string {
	profile := c.cfg.Profiles[e.pod.SchedulerName]
	var b strings.Builder
	b.WriteString(e.pod.SchedulerName)
	b.WriteByte(0)
	b.WriteString(strconv.Itoa(int(e.pod.Priority)))
	for _, plugin := range e.verdict.plugins {
		b.WriteByte(0)
		b.WriteString(plugin)
		b.WriteByte(0)
		b.WriteString(profile.Interest(plugin, e.pod).Class)
	}
	return b.String()
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

// lanes are all lanes, and those where more may have become possible.
type lanes struct {
	all   map[string]*lane
	moved map[*lane]struct{}
}

// openLanes gives permits to those whose turn it is.
func (c *Core) openLanes() {
	for l := range c.lanes.moved {
		for e := l.blocked.first(); e != nil && l.out < l.width; e = l.blocked.first() {
			l.blocked.drop(e)
			e.permit = true
			l.out++
			e.in = c.bags.active[e.partition]
			e.in.put(e)
		}
		for e := l.back.first(); e != nil && l.out+l.listed < l.width; e = l.back.first() {
			l.back.drop(e)
			c.list(e)
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
