package waiting

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/berth-scheduler/berth/pkg/placement/gang"
	"github.com/berth-scheduler/berth/pkg/placement/names"
	"github.com/berth-scheduler/berth/pkg/state"
)

// The members of a gang are tried together, so they are one unit of the queue: one member, the lead, stands in the
// pools for all that could be tried, and the others are grouped. A shard that is offered the lead decides about all
// members that its facts show. A member with gates or with a reservation is in the pool of these, and leads nothing.
//
// When the lead leaves (it has a reservation, or is gone), the first of the others takes its place. So the rest of a
// gang of which some have been placed goes on as the same unit.
//
// Pods of a group with the policy "basic" are queued one by one, unless it has a topology.

// unit is one group of pods.
type unit struct {
	namespace, name string
	// group has the requirements, nil while the PodGroup is not known. together means that its pods are tried together; it
	// is so while the PodGroup is not known.
	group    *gang.Group
	together bool
	members  map[*Entry]struct{}
	// lead is the member that stands for the others; nil for none.
	lead *Entry
	// attempts is the highest number of an attempt at any member, so that a new lead begins after it.
	attempts int32
}

// Units holds the groups of the pods in the pools.
type Units struct {
	pools *Pools
	world *World
	// Grouped holds the members for which another member stands.
	Grouped *Bag
	byKey   map[string]*unit
	// leaderless are the groups whose lead has left in this step.
	leaderless map[*unit]struct{}
}

func newUnits(p *Pools, w *World) *Units {
	return &Units{
		pools: p, world: w, Grouped: newBag(PoolGrouped, enteredBefore),
		byKey: map[string]*unit{}, leaderless: map[*unit]struct{}{},
	}
}

// groupOf returns the unit of a pod, and makes one for the first member; nil for a pod without a group.
func (x *Units) groupOf(pod *state.Pod) *unit {
	name := pod.PodGroup()
	if name == "" {
		return nil
	}
	key := pod.Namespace + "/" + name
	u, ok := x.byKey[key]
	if !ok {
		u = &unit{namespace: pod.Namespace, name: name, members: map[*Entry]struct{}{}}
		x.read(u)
		x.byKey[key] = u
	}
	return u
}

// read reads the requirements of a group, and reports whether they have changed.
func (x *Units) read(u *unit) (changed bool) {
	was := u.group
	u.group = nil
	if x.world.Objects != nil {
		u.group = gang.Find(x.world.Objects, u.namespace, u.name)
	}
	u.together = u.group == nil || u.group.Together()
	return !u.group.Same(was)
}

// Join makes a new pod a member of its group, if it has one. The lead is tried again: the gang may be complete now.
func (x *Units) Join(e *Entry, now Moment) {
	e.unit = x.groupOf(e.Pod)
	if e.unit == nil {
		return
	}
	e.unit.members[e] = struct{}{}
	e.unit.attempts = max(e.unit.attempts, e.Attempt.Count, e.Attempt.Answered)
	x.retryLead(e.unit, EventPodAdd, now)
}

// Leave makes a pod that has left the pools no member any more.
func (x *Units) Leave(e *Entry) {
	u := e.unit
	if u == nil {
		return
	}
	delete(u.members, e)
	e.unit = nil
	if len(u.members) == 0 {
		delete(x.byKey, u.namespace+"/"+u.name)
		delete(x.leaderless, u)
		return
	}
	if u.lead == e {
		x.dropLead(u)
	}
}

// GroupChanged applies that the object of a group has come, changed or gone: its pods are gathered, or queued one by
// one.
func (x *Units) GroupChanged(namespace, name string, now Moment) {
	u := x.byKey[namespace+"/"+name]
	if u == nil {
		return
	}
	was := u.together
	changed := x.read(u)
	switch {
	case !changed:
	case was == u.together:
		x.retryLead(u, EventPodAdd, now)
	case u.together:
		for _, e := range u.inOrder() {
			if e.follows() && e.Pool() != PoolOffered {
				x.pools.Enter(e, x.Grouped, EventPodAdd, now)
			}
		}
		x.dropLead(u)
	default:
		u.lead = nil
		for _, e := range u.inOrder() {
			if e.In == x.Grouped {
				x.pools.Requeue(e, EventPodAdd, now)
			}
		}
	}
}

// inOrder lists the members in the order in which they are offered.
func (u *unit) inOrder() []*Entry {
	return slices.SortedFunc(maps.Keys(u.members), func(a, b *Entry) int {
		if Before(a, b) {
			return -1
		}
		return 1
	})
}

// follows reports whether another member may stand for this one: it waits to be tried.
func (e *Entry) follows() bool {
	switch e.Pool() {
	case PoolActive, PoolBackoff, PoolParked, PoolOffered, PoolGrouped:
		return true
	}
	return false
}

// Together reports whether the pod is tried together with others.
func (e *Entry) Together() bool { return e.unit != nil && e.unit.together }

// route returns the bag that a pod enters: that of the grouped ones, if another member leads. A member that waits to be
// tried leads if none does.
func (x *Units) route(e *Entry, to *Bag) *Bag {
	if !e.Together() {
		return to
	}
	u := e.unit
	switch to.Pool {
	case PoolActive, PoolBackoff, PoolParked, PoolOffered:
		if u.lead == nil {
			u.lead = e
		}
		if u.lead != e {
			return x.Grouped
		}
	}
	return to
}

// replaceLead lets another member become the lead once the lead has entered a pool in which it is not tried.
func (x *Units) replaceLead(e *Entry) {
	if e.Together() && e.unit.lead == e && !e.follows() {
		x.dropLead(e.unit)
	}
}

// dropLead leaves a group without a lead, until a member becomes active or Elect chooses one.
func (x *Units) dropLead(u *unit) {
	u.lead = nil
	x.leaderless[u] = struct{}{}
}

// Elect makes the first of the grouped members the lead, in each group that has lost its lead in this step. It is
// called once a step, so that a gang that is placed costs one election and not one for each member.
func (x *Units) Elect(now Moment) {
	if len(x.leaderless) == 0 {
		return
	}
	list := slices.SortedFunc(maps.Keys(x.leaderless), func(a, b *unit) int {
		return cmp.Or(strings.Compare(a.namespace, b.namespace), strings.Compare(a.name, b.name))
	})
	clear(x.leaderless)
	for _, u := range list {
		if e := u.first(x.Grouped); u.together && u.lead == nil && e != nil {
			u.lead = e
			e.Sequence = x.world.Facts.Sequence
			x.pools.Requeue(e, EventPodAdd, now)
		}
	}
}

// first returns the first member in a bag, in the order in which pods are offered; nil for none.
func (u *unit) first(in *Bag) (first *Entry) {
	for e := range u.members {
		if e.In == in && (first == nil || Before(e, first)) {
			first = e
		}
	}
	return first
}

// Regroup applies that any object of a group may have changed.
func (x *Units) Regroup(now Moment) {
	for _, key := range slices.Sorted(maps.Keys(x.byKey)) {
		u := x.byKey[key]
		x.GroupChanged(u.namespace, u.name, now)
	}
}

// takeLead makes a rejected member the lead in place of one that only waits for others: what could help the group is
// what helps this member.
func (x *Units) takeLead(e *Entry, now Moment) {
	if !e.Together() || e.unit.lead == nil || e.unit.lead == e || e.waitsForOthers() {
		return
	}
	if was := e.unit.lead; was.waitsForOthers() && (was.In == x.pools.Parked || was.In == x.pools.Backoff) {
		e.unit.lead = e
		e.Sequence = max(e.Sequence, was.Sequence)
		x.pools.Enter(was, x.Grouped, EventAttemptFailure, now)
	}
}

// waitsForOthers reports whether the last answer about a member was that it waits for others of its group.
func (e *Entry) waitsForOthers() bool {
	return slices.Equal(e.Verdict.Plugins, []string{names.GangScheduling})
}

// retryLead has the lead tried again, because its group has changed. A parked lead respects its backoff. An offered one
// is tried again after the answer (outdated).
func (x *Units) retryLead(u *unit, event string, now Moment) {
	e := u.lead
	if e == nil {
		return
	}
	e.Sequence = x.world.Facts.Sequence
	switch e.In {
	case x.pools.Quarantine:
		e.Attempt.Lost = 0
		e.Attempt.Token = ""
		x.pools.Requeue(e, event, now)
	case x.pools.Parked:
		x.pools.Requeue(e, event, now)
	}
}

// memberFreed has the lead tried again after a member has come from a pool in which it could not be tried.
func (x *Units) memberFreed(e *Entry, from Pool, event string, now Moment) {
	if e.In == x.Grouped && (from == PoolGated || from == PoolHeld) {
		x.retryLead(e.unit, event, now)
	}
}

// outdated reports whether the group of a lead has changed since the facts of its verdict.
func (e *Entry) outdated() bool {
	return e.Together() && e.unit.lead == e && e.Sequence > e.Verdict.FactSequence
}

// hasOtherLead reports whether another member stands for a pod.
func (e *Entry) hasOtherLead() bool { return e.Together() && e.unit.lead != nil && e.unit.lead != e }

// CountAttempt gives the next attempt at a pod its number: that after the last one at any member of its group.
func (e *Entry) CountAttempt() {
	e.Attempt.Count++
	if u := e.unit; u != nil {
		u.attempts = max(u.attempts+1, e.Attempt.Count)
		e.Attempt.Count = u.attempts
	}
}

// Group returns the key of the group that the pod is tried together with, and the pod that stands for it; "" and nil
// for none.
func (e *Entry) Group() (key string, lead *state.Pod) {
	if !e.Together() {
		return "", nil
	}
	if e.unit.lead != nil {
		lead = e.unit.lead.Pod
	}
	return e.unit.namespace + "/" + e.unit.name, lead
}

// check checks that each group with a member that waits to be tried has one lead, and that no other is tried.
func (x *Units) check(pods map[string]*Entry) error {
	members := 0
	for _, e := range pods {
		if u := e.unit; u != nil {
			members++
			if _, is := u.members[e]; !is || x.byKey[u.namespace+"/"+u.name] != u {
				return fmt.Errorf("I5: pod %s is not in its group", e.Pod.UID)
			}
		}
		tried := e.follows() && e.In != x.Grouped
		switch {
		case e.In == x.Grouped && (!e.Together() || e.unit.lead == nil || e.unit.lead == e):
			return fmt.Errorf("I5: pod %s is grouped, and no other stands for it", e.Pod.UID)
		case e.Together() && tried && e.unit.lead != e && e.Pool() != PoolOffered:
			return fmt.Errorf("I5: pod %s is in %s, and another stands for its group", e.Pod.UID, e.Pool())
		}
	}
	for key, u := range x.byKey {
		members -= len(u.members)
		if len(u.members) == 0 {
			return fmt.Errorf("I5: group %s has no members", key)
		}
	}
	if members != 0 {
		return fmt.Errorf("I5: %d pods more than members of groups", members)
	}
	return nil
}
